"""Answer users of a stored recommender, each for themselves.

    python serve.py --database shop.db --model model.st --port 8000

A user is known by a random token in the header ``Authorization: Bearer ...``, whose
SHA-256 is in the database beside the user's id. No path and no parameter names a user,
so nobody can ask for somebody else. Put a server that speaks TLS in front of it.
"""

from sktensordp import io

import argparse
import hashlib
import sqlite3
import threading
from contextlib import closing
from typing import Annotated

import uvicorn
from fastapi import Depends, FastAPI, Header, HTTPException, Query


class Service:
    """A model, and the users who were folded in since it was loaded.

    Parameters
    ----------
    model : Recommender
    database : str
        Path of a database of SQLite; see ``fit.py``.
    """

    def __init__(self, model, database):
        self.model, self._database = model, database
        self._films = set(model.encoder_.categories_[-1])
        # One change at a time. Answers need no lock: a change replaces the fitted part.
        self._lock, self._known = threading.Lock(), set()

    def _connection(self):
        return closing(sqlite3.connect(self._database, timeout=10))

    def user_of(self, authorization: Annotated[str, Header()] = ""):
        """The user whose token the header has."""
        digest = hashlib.sha256(authorization.removeprefix("Bearer ").encode())
        with self._connection() as data:
            found = data.execute(
                "SELECT user FROM tokens WHERE digest = ?", [digest.hexdigest()]
            ).fetchone()
        if found is None:
            raise HTTPException(401)
        return found[0]

    def recommend(self, user, k):
        """Films for a user, whose ratings are folded in at the first question."""
        with self._lock:
            if user not in self._known:
                with self._connection() as data:
                    rows = data.execute(
                        "SELECT film, stars FROM ratings WHERE user = ?", [user]
                    ).fetchall()
                if rows:
                    where = [[user, film] for film, _ in rows]
                    self.model.fold_in(where, [stars for _, stars in rows])
                self._known.add(user)
        return self.model.recommend(user, k=k).tolist()

    def similar(self, film, k):
        """Films that are liked by those who like a film, as the fit has learned."""
        if film not in self._films:
            raise HTTPException(404)
        return self.model.similar_items(film, k=k).tolist()

    def rate(self, user, film, stars):
        """Store a rating, so that the next question takes it into account."""
        if film not in self._films:
            raise HTTPException(404)
        with self._lock, self._connection() as data, data:
            data.execute(
                "DELETE FROM ratings WHERE user = ? AND film = ?", [user, film]
            )
            data.execute("INSERT INTO ratings VALUES (?, ?, ?)", [user, film, stars])
            self._known.discard(user)

    def forget(self, user):
        """Delete all that is stored about a user.

        What a fit has learned stays: its guarantee bounds what that says about the
        user. The next fit of the calendar is made without the user's ratings.
        """
        with self._lock, self._connection() as data, data:
            data.execute("DELETE FROM ratings WHERE user = ?", [user])
            data.execute("DELETE FROM tokens WHERE user = ?", [user])
            self.model.forget(user)
            self._known.discard(user)


def app_of(service):
    """The paths of the service."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    owner = Annotated[str, Depends(service.user_of)]
    number = Annotated[int, Query(ge=1, le=100)]

    @app.get("/recommend")
    def recommend(user: owner, k: number = 10):
        return service.recommend(user, k)

    @app.get("/similar")
    def similar(_: owner, film: str, k: number = 10):
        return service.similar(film, k)

    @app.put("/rating", status_code=204)
    def rate(user: owner, film: str, stars: Annotated[float, Query(ge=0.5, le=5)]):
        service.rate(user, film, stars)

    @app.delete("/me", status_code=204)
    def forget_me(user: owner):
        service.forget(user)

    return app


def main():
    """Serve on the loopback interface."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--database", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args()
    service = Service(io.load(options.model), options.database)
    # A log of accesses would hold films and times of users.
    uvicorn.run(app_of(service), port=options.port, access_log=False)


if __name__ == "__main__":
    main()
