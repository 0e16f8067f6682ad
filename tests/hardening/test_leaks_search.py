"""What a private search keeps of its tries: the best, and nothing of the others."""

import gc
import warnings
import weakref

import numpy as np
import pytest
from every_estimator import CASES
from leak_hunt import Secrets, numbers_in, released
from planted_data import N_USERS, secrets_of, tensor_data
from sklearn.pipeline import make_pipeline

from sktensordp.completion import CoordinateEncoder, CPCompletion
from sktensordp.model_selection import PrivateSearchCV, _private_search

N_TRIES = 9
TENSOR = next(case for case in CASES if case.label == "CPCompletion, values, noise")
USERS = next(case for case in CASES if case.private == "users")
CLASSES = {"entries": TENSOR, "users": USERS}


class Tries:
    """What every try was: to be searched for in what is left."""

    def __init__(self):
        self.secrets = Secrets()
        self.fits, self.numbers, self.params = [], [], []
        self.totals, self.splits = [], []

    def of(self, candidate, X, split, total):
        self.fits.append(weakref.ref(candidate))
        self.numbers.append(numbers_in(candidate, skip=[X]))
        self.params.append(candidate.get_params().get("regularization"))
        self.totals.append(total)
        self.splits.append(split)
        self.secrets.add_whole("raw score", total)
        for rows in split:
            held = np.isin(np.arange(len(X)), rows)
            for raw in (rows, np.sort(rows), held, ~held, rows.astype(np.int32)):
                self.secrets.add_bytes("split", raw.tobytes())
            self.secrets.add_bytes("held out", X[rows].tobytes())

    def losers(self, best):
        """Secrets of the tries that were not the best."""
        known = np.concatenate([numbers_in(best), [best.regularization]])
        for found, param in zip(self.numbers, self.params, strict=True):
            if param != best.regularization:
                found = np.append(found, param)
                new = ~np.isclose(found[:, None], known, 1e-9, 0).any(axis=1)
                self.secrets.add("loser", found[new])
        return self.secrets


@pytest.fixture
def tries(monkeypatch):
    fit, found = _private_search._fitted, Tries()

    def recording(candidate, X, y, split, scores, planned):
        total, fitted = fit(candidate, X, y, split, scores, planned)
        found.of(fitted, X, split, total)
        return total, fitted

    def forced(*_):
        return np.array([N_TRIES])

    monkeypatch.setattr(_private_search, "_fitted", recording)
    monkeypatch.setattr(_private_search, "categorical", forced)
    return found


class LogUniform:
    """Numbers that no other try has."""

    def rvs(self, size=None, random_state=None):
        return 10 ** random_state.uniform(-3, 0, size)


def search_of(kind, **options):
    params = {"shape": (N_USERS, 3)} if kind == "users" else {"max_iter": 3}
    return PrivateSearchCV(
        CLASSES[kind].fresh(**params), {"regularization": LogUniform()},
        score_bounds=(-1, 0), **options,
    )  # fmt: skip


@pytest.mark.parametrize("refit", [True, "keep", False])
@pytest.mark.parametrize("kind", CLASSES)
def test_nothing_of_the_losers_is_kept(kind, refit, tries):
    search = search_of(kind, refit=refit).fit(*tensor_data(CLASSES[kind]))
    kept = [search.best_estimator_] if refit else []
    best = kept[0] if kept else search.estimator.set_params(**search.best_params_)
    secrets = tries.losers(best)
    assert "loser" in secrets
    local = [getattr(one, "_local", None) for one in kept]
    if refit == "keep":
        # Coordinates are public, and which of them it was fitted to.
        local += getattr(kept[0], "_observed", [])
        secrets = secrets.without("split")
    secrets.update(secrets_of(CLASSES[kind]))
    found = secrets.hunt(search, skip=local) + released(secrets, search)
    assert not found
    gc.collect()
    alive = [fit() for fit in tries.fits if fit() is not None]
    assert len(tries.fits) == N_TRIES
    assert alive == (kept if refit == "keep" else [])


@pytest.mark.parametrize("plant", ["split", "mask", "score", "parameter", "factors"])
def test_what_is_kept_of_tries_is_found(plant, tries):
    search = search_of("entries", refit=False).fit(*tensor_data(TENSOR))
    best = search.estimator.set_params(**search.best_params_)
    secrets = tries.losers(best)
    assert not secrets.hunt(search)
    loser = tries.params.index(
        next(p for p in tries.params if p != best.regularization)
    )
    search.kept_ = {
        "split": tries.splits[0],
        "mask": np.isin(np.arange(12), tries.splits[0][1]),
        "score": float(tries.totals[loser]),
        "parameter": {"of": tries.params[loser]},
        "factors": tries.numbers[loser],
    }[plant]
    assert secrets.hunt(search)


def test_tries_do_not_call_callbacks(tries):
    """How often they are called would tell how many were tried."""

    class Counter:
        n_fits = 0

        def setup(self, estimator, context):
            self.n_fits += 1

        def teardown(self, estimator, context):
            pass

        def on_fit_task_begin(self, estimator, context):
            pass

        on_fit_task_end = on_fit_task_begin

    search, counter = search_of("entries"), Counter()
    search.estimator.set_callbacks(counter)
    search.fit(*tensor_data(TENSOR))
    assert counter.n_fits == 1
    assert len(tries.fits) == N_TRIES
    pipeline = make_pipeline(CoordinateEncoder(), search.estimator)
    search = PrivateSearchCV(
        pipeline, {"cpcompletion__rank": [1]}, score_bounds=(-1, 0), refit=False
    )
    counter.n_fits = 0
    search.fit(*tensor_data(TENSOR))
    assert counter.n_fits == 0


def test_tries_do_not_warn(tries, monkeypatch):
    fit = CPCompletion.fit

    def warning(*arguments):
        warnings.warn("tried", UserWarning, stacklevel=2)
        return fit(*arguments)

    monkeypatch.setattr(CPCompletion, "fit", warning)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        search_of("entries", refit=False).fit(*tensor_data(TENSOR))
    assert not caught
    assert len(tries.fits) == N_TRIES
