"""A year of operation, played by processes: and at its end, the auditor's table.

Two teams fit monthly, under one budget in a file. One job is killed, a backup is
restored, a person leaves, and the package is updated once.
"""

import io
import json
import os
import pickle
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import sktensordp
from sktensordp.datasets import make_ratings
from sktensordp.privacy import PrivacyBudget

pytestmark = [pytest.mark.thorough, pytest.mark.usefixtures("fresh_ids")]
FILMS = [f"film-{number:02d}" for number in range(30)]
JOB = """
import pickle, sys
import pandas as pd
from sktensordp.completion import CoordinateEncoder, CPCompletion, Recommender
from sktensordp.exceptions import BudgetExceededError
from sktensordp.privacy import PrivacyBudget

team, month, head, wait = sys.argv[1:]
table = pd.read_csv("ratings.csv")
films = [f"film-{number:02d}" for number in range(30)]
model = Recommender(
    CPCompletion(rank=0, unit=0, epsilon=1.04, delta=1e-8, levels=[1, 2, 3, 4, 5]),
    CoordinateEncoder(categories=[None, films]),
)
try:
    budget = PrivacyBudget(
        4.0, delta=1e-8, path="films.db", note=f"{month}, team {team}",
        head=head or None,
    )
    with budget.covers(model):
        model.fit(table[["user", "film"]], table["stars"])
except (BudgetExceededError, OSError, RuntimeError) as error:
    sys.exit(f"refused: {error}")
if wait:
    import time
    time.sleep(600)
with open(f"{month}.pickle", "wb") as file:
    pickle.dump(model, file)
print(budget.head)
"""
FORGETFUL = """
from sktensordp.mechanisms import LaplaceMechanism
LaplaceMechanism(0.1, bounds=(0, 1)).fit_transform([[0.5]])
"""


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """A folder with the ratings, the job, and two builds of the package."""
    monkeypatch.chdir(tmp_path)
    data = make_ratings(200, 30, 3000, random_state=0, levels=[1, 2, 3, 4, 5])
    table = pd.DataFrame(data.data, columns=["user", "film"])
    table["user"] = [f"user-{number}" for number in table["user"]]
    table["film"] = [FILMS[number] for number in table["film"]]
    table["stars"] = data.target
    table.to_csv("ratings.csv", index=False)
    Path("job.py").write_text(JOB)
    for build in ("old", "new"):
        ignored = shutil.ignore_patterns("__pycache__")
        source = Path(sktensordp.__file__).parent
        shutil.copytree(source, tmp_path / build / "sktensordp", ignore=ignored)
    with Path("new/sktensordp/_build.py").open("a", encoding="utf-8") as file:
        file.write("\n# A patch.\n")
    PrivacyBudget(4.0, delta=1e-8, path="films.db", create=True)
    return tmp_path


def started(arguments, build="old"):
    environment = {
        **os.environ, "PYTHONPATH": str(Path(build).resolve()),
        "SKTENSORDP_REQUIRE_BUDGET": "1", "PYTHONWARNINGS": "ignore",
    }  # fmt: skip
    return subprocess.Popen(
        [sys.executable, "-P", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def ended(process):
    printed, errors = process.communicate(timeout=300)
    return printed.strip() if process.returncode == 0 else errors.strip()


def fit(month, team, head="", build="old"):
    return ended(started(["job.py", team, month, head, ""], build))


def test_a_year(shop):
    # January and February: each job prints the head, and the next one passes it.
    head = fit("January", "A")
    assert head.startswith("1:")
    head = fit("February", "B", head)
    shutil.copy("films.db", "backup.db")

    # March: the machine goes down when the release has been recorded.
    job = started(["job.py", "A", "March", head, "wait"])
    while int(PrivacyBudget(4.0, 1e-8, path="films.db").head.partition(":")[0]) < 3:
        assert job.poll() is None
        time.sleep(0.05)
    job.kill()
    job.communicate()
    assert not Path("March.pickle").exists()
    head = PrivacyBudget(4.0, 1e-8, path="films.db").head
    assert head.startswith("3:")

    # April: somebody restores the backup, which lacks March. The next job notices.
    shutil.copy("films.db", "whole.db")
    shutil.copy("backup.db", "films.db")
    assert "has lost releases" in fit("April", "B", head)
    shutil.copy("whole.db", "films.db")
    head = fit("April", "B", head)

    # May: both teams at once; somebody forgets the budget.
    both = [started(["job.py", team, f"May {team}", "", ""]) for team in "AB"]
    assert {one.partition(":")[0] for one in map(ended, both)} <= {"5", "6"}
    head = PrivacyBudget(4.0, 1e-8, path="films.db").head
    assert head.startswith("6:")
    assert "outside of any privacy budget" in ended(started(["-c", FORGETFUL]))

    # June: a person leaves. What was released stays; what serves the person goes.
    served = pickle.loads(Path("April.pickle").read_bytes())
    table = pd.read_csv("ratings.csv")
    mine = table[table["user"] == "user-7"]
    served.fold_in(mine[["user", "film"]], mine["stars"])
    served.forget("user-7")
    unknown = served.recommend(None, k=30).tolist()
    assert served.recommend("user-7", k=30).tolist() == unknown
    table[table["user"] != "user-7"].to_csv("ratings.csv", index=False)
    for month, team in (("June", "A"), ("July", "B"), ("August", "A")):
        head = fit(month, team, head)

    # September: another build of the same version.
    for month, team in (("September", "B"), ("October", "A"), ("November", "B")):
        head = fit(month, team, head, "new")
        assert ":" in head
    assert head.startswith("12:")
    assert "would exceed the budget" in fit("December", "A", head, "new")

    # The auditor's table.
    command = ["-m", "sktensordp.privacy", "films.db", "--csv"]
    found = pd.read_csv(io.StringIO(ended(started(command))))
    assert len(found) == 12
    assert found["label"].unique().tolist() == ["fit of CPCompletion"]
    assert np.allclose(found["epsilon"], 1.04)
    teams = found["note"].str.split(", team ", expand=True)
    assert sorted(teams[1].value_counts().tolist()) == [6, 6]
    assert teams[0].iloc[[0, 2, 11]].tolist() == ["January", "March", "November"]
    builds = found["build"].tolist()
    assert len(set(builds[:9])) == len(set(builds[9:])) == 1
    assert builds[0] != builds[-1]
    assert found["versions"].nunique() == found["host"].nunique() == 1
    assert found["process"].nunique() == found["release"].nunique() == 12
    # Every model that was stored is a row, and March is a row without a model.
    stored = {
        path.stem: pickle.loads(path.read_bytes()) for path in Path().glob("*.pickle")
    }
    by_note = dict(zip(found["note"], found["release"], strict=True))
    assert len(stored) == 11
    for month, model in stored.items():
        (release,) = model.release_ids_
        assert release in by_note.values(), month
        assert str(shop) not in repr(pickle.dumps(model))
    (lost,) = set(by_note.values()) - {m.release_ids_[0] for m in stored.values()}
    assert by_note["March, team A"] == lost
    command = [
        "-m",
        "sktensordp.privacy",
        "films.db",
        "--json",
        "--since",
        "2026-01-01",
    ]
    told = json.loads(ended(started(command)))
    assert told["head"] == head
    assert told["spent_if_planned"] <= 4.0
    assert len(told["releases"]) == 12
