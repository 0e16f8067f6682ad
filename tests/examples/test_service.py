"""The service to copy: a fit in one process, a server in another, many users."""

import hashlib
import http.client
import json
import secrets
import socket
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from sktensordp import io
from sktensordp.datasets import make_ratings
from sktensordp.privacy import PrivacyBudget
from tests import ROOT

pytestmark = pytest.mark.slow
for needed in ("fastapi", "uvicorn", "safetensors"):
    pytest.importorskip(needed)

FOLDER = ROOT / "examples" / "service"
N_FILMS, N_ASKED = 60, 40


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A folder with a database, a budget and a model, and the tokens of users."""
    folder = tmp_path_factory.mktemp("shop")
    ratings = make_ratings(800, N_FILMS, 24_000, random_state=0)
    users = [f"secret-user-{n}" for n in range(800)]
    rows = [
        (users[u], f"film-{f}", float(stars))
        for (u, f), stars in zip(ratings.data, ratings.target, strict=True)
    ]
    tokens = {user: secrets.token_urlsafe(16) for user in [*users, "secret-user-new"]}
    with closing(sqlite3.connect(folder / "shop.db")) as data, data:
        data.execute("CREATE TABLE films (film TEXT PRIMARY KEY)")
        data.execute("CREATE TABLE ratings (user TEXT, film TEXT, stars REAL)")
        data.execute("CREATE TABLE tokens (digest TEXT PRIMARY KEY, user TEXT)")
        data.executemany(
            "INSERT INTO films VALUES (?)", [[f"film-{n}"] for n in range(N_FILMS)]
        )
        data.executemany("INSERT INTO ratings VALUES (?, ?, ?)", rows)
        data.executemany(
            "INSERT INTO tokens VALUES (?, ?)",
            [[hashlib.sha256(t.encode()).hexdigest(), u] for u, t in tokens.items()],
        )
    path = folder / "budget.db"
    budget = PrivacyBudget(4.0, delta=1e-6, path=path, create=True)
    done = run(folder, "fit", "--budget", path)
    assert "(epsilon = 1, delta = 1e-06)" in done
    assert "secret-user" not in done
    assert [row["note"] for row in budget.history(as_frame=False)] == ["service"]
    return folder, tokens


def command(folder, name, *more):
    paths = "--database", folder / "shop.db", "--model", folder / "model.st"
    return [sys.executable, FOLDER / f"{name}.py", *paths, *map(str, more)]


def run(folder, name, *more):
    done = subprocess.run(
        command(folder, name, *more), capture_output=True, text=True, check=True
    )
    return done.stdout + done.stderr


@pytest.fixture
def server(shop):
    """Asks a server in another process; in the end, its log is empty of secrets."""
    folder, tokens = shop
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        command(folder, "serve", "--port", port),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip

    def ask(user, path, method="GET"):
        token = tokens.get(user, user)
        with closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
            headers = {"Authorization": f"Bearer {token}"}
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            text = answer.read()
        return answer.status, json.loads(text) if answer.status == 200 else None

    try:
        while process.poll() is None:
            try:
                ask("nobody", "/recommend")
                break
            except ConnectionError:
                time.sleep(0.1)
        assert process.poll() is None, process.stdout.read()
        yield ask
    finally:
        process.terminate()
        log = process.communicate()[0]
    assert not [word for word in ("secret-user", "film-", "stars") if word in log]
    assert not [token for token in tokens.values() if token in log]


def test_answers_are_those_of_one_process(shop, server):
    folder, tokens = shop
    model = io.load(folder / "model.st")
    users = [*list(tokens)[:N_ASKED], "secret-user-new"]
    expected = {}
    with closing(sqlite3.connect(folder / "shop.db")) as data:
        for user in users:
            rows = data.execute(
                "SELECT film, stars FROM ratings WHERE user = ?", [user]
            ).fetchall()
            if rows:
                model.fold_in([[user, film] for film, _ in rows], [s for _, s in rows])
            expected[user] = model.recommend(user, k=5).tolist()
    # Answers differ, or a mixed-up answer would go unnoticed.
    assert len(set(map(tuple, expected.values()))) > N_ASKED / 2
    similar = model.similar_items("film-3", k=4).tolist()

    def asked(number):
        user = users[number % len(users)]
        if number % 5 == 4:
            return server(user, "/similar?film=film-3&k=4") == (200, similar)
        return server(user, "/recommend?k=5") == (200, expected[user])

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(asked, range(200)))


def test_nobody_gets_the_answers_of_others(shop, server):
    user, other = [*shop[1]][50:52]
    assert server(user, "/recommend")[0] == 200
    for wrong in ("", "x" * 22, user.upper(), shop[1][user][:-1]):
        for path in ("/recommend", "/similar?film=film-1"):
            assert server(wrong, path) == (401, None)
        assert server(wrong, "/me", "DELETE") == (401, None)
    # A parameter cannot name somebody else.
    own = server(user, "/recommend")
    assert server(user, f"/recommend?user={other}") == own
    assert server(user, "/similar?film=unknown") == (404, None)
    assert server(user, "/recommend?k=1000000") == (422, None)


def test_new_ratings_and_the_end(shop, server):
    user, other = [*shop[1]][60:62]
    before, of_other = server(user, "/recommend"), server(other, "/recommend")
    best = before[1][0]
    assert server(user, f"/rating?film={best}&stars=0.5", "PUT")[0] == 204
    after = server(user, "/recommend")[1]
    assert best not in after
    assert server(user, "/me", "DELETE")[0] == 204
    assert server(user, "/recommend") == (401, None)
    with closing(sqlite3.connect(shop[0] / "shop.db")) as data:
        for table in ("ratings", "tokens"):
            (left,) = data.execute(
                f"SELECT count(*) FROM {table} WHERE user = ?", [user]
            ).fetchone()
            assert left == 0
    assert server(other, "/recommend") == of_other
