"""Compare what seeded fits and releases give, bit by bit, before and after a change.

    python -m tests.golden --write FILE
    ... move code ...
    python -m tests.golden --compare FILE [--events] [--only TEXT]

Each case is a fit or a release with an int as random state. `--write` stores a hash of
everything that it gives: models, predictions, noise and guarantees. `--compare` runs
the cases again, prints each that differs, and exits with 1 if there is one. Use it for
changes that must not change a result, on the machine and with the packages that wrote
the file: other processors give other last bits, so that no file is kept here.

`--events` compares guarantees by their epsilon, delta and event, for changes of their
texts.
"""

import argparse
import contextlib
import hashlib
import json
import math
import sys
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPRegressor

from sktensordp import encoding, mechanisms, papers
from sktensordp.completion import (
    CoordinateEncoder,
    CPCompletion,
    ImplicitCompletion,
    NoiseShares,
    TuckerCompletion,
    fit_aggregated,
    party,
)
from sktensordp.datasets import make_choices, make_ratings
from sktensordp.model_selection import PrivateSearchCV, expected_error
from sktensordp.privacy import PrivacyGuarantee, privacy_of
from tests.support.every_estimator import CASES as EVERY_CASE
from tests.support.every_estimator import answer

RATINGS = make_ratings(n_users=60, n_items=30, n_ratings=1500, random_state=0)
X, Y, SHAPE = RATINGS.data, RATINGS.target, (60, 30)
THREE = np.column_stack([X, np.arange(len(X)) % 4])
TENSOR = np.full(SHAPE, np.nan)
TENSOR[tuple(X.T)] = Y
FEATURES = np.random.default_rng(1).standard_normal((30, 3))
SAMPLES = np.random.default_rng(2).uniform(0, 1, (20, 4, 3))
TASK = np.random.default_rng(3).standard_normal((2, 12))
RANGE, LEVELS = {"value_bounds": (1, 5)}, {"levels": RATINGS.levels}
USERS = {**LEVELS, "unit": 0, "shape": SHAPE, "delta": 1e-5}


# --- what is hashed ------------------------------------------------------------------


def fed(digest, value):
    """Feed a value to a hash: arrays by their bits, all else by its text."""
    if isinstance(value, np.ndarray) and value.dtype != object:
        digest.update(f"{value.dtype}{value.shape}".encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    elif hasattr(value, "tocoo"):
        fed(digest, value.toarray())
    elif isinstance(value, dict):
        for key in sorted(value, key=str):
            digest.update(str(key).encode())
            fed(digest, value[key])
    elif isinstance(value, list | tuple):
        digest.update(str(len(value)).encode())
        for item in value:
            fed(digest, item)
    elif isinstance(value, PrivacyGuarantee):
        fed(digest, vars(value))
    elif hasattr(value, "factors"):
        weights = getattr(value, "weights", getattr(value, "core", None))
        fed(digest, [weights, *value.factors])
    else:
        digest.update(repr(value).encode())


def hashed(value):
    """Hash of anything that a case gives."""
    digest = hashlib.sha256()
    fed(digest, value)
    return digest.hexdigest()[:16]


def event_of(guarantee):
    """What composes of a guarantee."""
    return [guarantee.epsilon, guarantee.delta, repr(guarantee.event)]


def public(estimator):
    """The fitted attributes, without the guarantee and the ids, which are random."""
    names = {name for name in dir(estimator) if name.endswith("_") and name[0] != "_"}
    names -= {"privacy_guarantee_", "best_estimator_", "cv_results_", "refit_time_"}
    names -= {"release_ids_"}
    # Some properties are there for some fits alone.
    found = {}
    for name in names - {"estimator_"}:
        with contextlib.suppress(AttributeError):
            found[name] = getattr(estimator, name)
    return {name: value for name, value in found.items() if is_plain(value)}


def is_plain(value):
    """Whether a value is made of numbers, text, and models of numbers."""
    if isinstance(value, list | tuple):
        return all(map(is_plain, value))
    plain = np.ndarray | np.generic | str | int | float | None
    return isinstance(value, plain) or hasattr(value, "factors")


def parts(estimator, **outputs):
    """What a case gives: attributes, the guarantee, the report, and outputs."""
    report = privacy_of(estimator)
    guarantee = report.guarantee
    return {
        **outputs, "attributes": public(estimator), "guarantee": guarantee,
        "events": event_of(guarantee), "unprotected": list(report.unprotected),
    }  # fmt: skip


# --- completion ----------------------------------------------------------------------


def completion(make, at=X, y=Y, **params):
    """A fit to entries, its predictions and recommendations."""
    with_noise = {"epsilon": 4.0, "random_state": 0}
    model = make(**{**with_noise, **params}).fit(at, y)
    return fitted(model, at)


def fitted(model, at=X):
    """What a fitted completion answers."""
    with_error = {}
    with contextlib.suppress(Exception):
        with_error["deviation"] = model.predict(at[:200], return_std=True)[1]
    with contextlib.suppress(ValueError):
        # Not after a fit to Dask collections.
        with_error["ranked"] = model.recommend([0, 3, -1], 5)
    return parts(model, predictions=model.predict(at), **with_error)


def dense(make, **params):
    """A fit to an array with NaN."""
    model = make(epsilon=4.0, random_state=0, **params)
    return parts(model.fit(TENSOR), completed=model.transform(TENSOR))


def sparse_array():
    """A fit to a sparse array of SciPy."""
    from scipy.sparse import coo_array

    model = CPCompletion(2, epsilon=4.0, random_state=0, **LEVELS)
    return fitted(model.fit(coo_array((Y, tuple(X.T)), shape=SHAPE)))


def frame():
    """Ids in a data frame, through the encoder and a search."""
    import pandas as pd

    table = pd.DataFrame({"user": X[:, 0] * 7, "item": [f"i{i}" for i in X[:, 1]]})
    encoder = CoordinateEncoder().fit(table)
    model = CPCompletion(2, random_state=0, **LEVELS)
    at = encoder.transform(table)
    search = GridSearchCV(model, {"epsilon": [1.0, 4.0]}, cv=2).fit(at, Y)
    return parts(
        search, scores=search.cv_results_["mean_test_score"], at=np.asarray(at)
    )


def batches():
    """A fit to batches, continued by `partial_fit`."""
    model = CPCompletion(2, perturbation="input", epsilon=4.0, random_state=0, **LEVELS)
    model.fit_batches([(X[:400], Y[:400]), (X[400:1000], Y[400:1000])])
    return fitted(model.partial_fit(X[1000:], Y[1000:]))


def clients(**params):
    """Values that clients have randomised."""
    model = CPCompletion(2, perturbation="input", epsilon=4.0, **params)
    sent = np.concatenate(
        [model.client(seed).privatize(Y[seed::3]) for seed in range(3)]
    )
    at = np.concatenate([X[seed::3] for seed in range(3)])
    return fitted(model.fit_randomized(at, sent)) | {"sent": sent}


def dask(make=CPCompletion, **params):
    """A fit to a Dask array, in three partitions, by one thread."""
    import dask.array as da
    from dask import config

    lazy = da.from_array(X, chunks=(500, 2)), da.from_array(Y, chunks=500)
    model = make(2, epsilon=4.0, random_state=0, **params)
    with config.set(scheduler="synchronous"):
        return fitted(model.fit(*lazy))


def parties(noise_shares=None, **params):
    """A fit to sums over three parties."""
    server = CPCompletion(2, epsilon=4.0, random_state=0, **USERS, **params)
    answering = [
        party(
            server, X[X[:, 0] % 3 == k], Y[X[:, 0] % 3 == k], noise_shares=noise_shares,
            random_state=k + 1,
        )
        for k in range(3)
    ]  # fmt: skip

    def ask(request):
        total = np.sum([one.answer(request) for one in answering], axis=0)
        return total if noise_shares is None else (total, 3)

    model = fit_aggregated(server, ask, noise_shares=noise_shares)
    return fitted(model.fold_in(X[:300], Y[:300]))


def choices():
    """Recommendations from choices alone."""
    data = make_choices(n_users=300, n_items=60, n_choices=3000, random_state=0).data
    model = ImplicitCompletion(epsilon=4.0, shape=(300, 60), random_state=0).fit(data)
    return parts(
        model, predictions=model.predict(data), ranked=model.recommend(np.arange(9), 5)
    )


def scaler():
    """Rows and columns standardised."""
    scaler = papers.BiScaler(4.0, random_state=0, **RANGE)
    scaled = scaler.fit_transform(TENSOR)
    return parts(scaler, scaled=scaled)


def private_search():
    """A private choice of the rank."""
    model = CPCompletion(perturbation="input", epsilon=2.0, random_state=0, **LEVELS)
    search = PrivateSearchCV(model, {"rank": [0, 2]}, n_iter=3, random_state=0)
    return parts(search.fit(X, Y), best=search.best_params_, at=search.predict(X))


def expectation(model):
    """Errors that are expected before anything is spent."""
    return {"errors": expected_error(model, X, epsilons=[0.5, 2.0, 8.0])}


CP, TUCKER = partial(CPCompletion, 2), partial(TuckerCompletion, 2)
PUBLISHED = {"learning_rate": 1e-3, "max_iter": 4}
OF_PAPERS = {
    "CP": partial(papers.PublishedCPCompletion, 2),
    "Tucker": partial(papers.PublishedTuckerCompletion, 2),
}
ENTRY = {
    "auto": (CP, LEVELS),
    "auto, Tucker": (TUCKER, LEVELS),
    "three modes": (partial(CPCompletion, 3), LEVELS | {"at": THREE}),
    "three modes, Tucker": (partial(TuckerCompletion, 2), RANGE | {"at": THREE}),
    "input, range": (CP, RANGE | {"perturbation": "input"}),
    "input, levels": (CP, LEVELS | {"perturbation": "input"}),
    "input, Tucker": (TUCKER, RANGE | {"perturbation": "input"}),
    "input, prior of levels": (
        CP, LEVELS | {"perturbation": "input", "level_prior": np.arange(1, 11) / 55},
    ),
    "gradient": (CP, RANGE | {"perturbation": "gradient", "max_iter": 5}),
    "gradient, Tucker": (TUCKER, RANGE | {"perturbation": "gradient", "max_iter": 5}),
    "output": (CP, RANGE | {"perturbation": "output"}),
    "output, Tucker": (TUCKER, RANGE | {"perturbation": "output"}),
    "statistics": (CP, RANGE | {"perturbation": "statistics"}),
    "statistics, features": (
        CP, LEVELS | {"perturbation": "statistics", "side_information": {1: FEATURES}},
    ),
    "sums": (CP, RANGE | {"perturbation": "sums"}),
    "side information": (CP, LEVELS | {"side_information": {1: FEATURES}}),
    "smooth modes": (
        CP, LEVELS | {"at": THREE, "smooth_modes": [2], "perturbation": "input"},
    ),
    "no biases": (CP, LEVELS | {"biases": False, "n_pattern_components": 0}),
    "no noise": (CP, LEVELS | {"epsilon": math.inf}),
    "no noise, Tucker": (TUCKER, RANGE | {"epsilon": math.inf}),
    "single precision": (CP, RANGE | {"y": Y.astype(np.float32)}),
    "undeclared": (CP, {}),
}  # fmt: skip
UNITS = {
    "users": (CP, USERS),
    "users, Tucker": (TUCKER, USERS),
    "users, sums": (CP, USERS | {"perturbation": "sums"}),
    "users, statistics": (CP, USERS | {"perturbation": "statistics"}),
    "users, range": (CP, {k: v for k, v in USERS.items() if k != "levels"} | RANGE),
    "users, features": (CP, USERS | {"side_information": {1: FEATURES}}),
    "users, no noise": (CP, USERS | {"epsilon": math.inf}),
    "mode 2": (CP, LEVELS | {"at": THREE, "unit": 2, "shape": (60, 30, 4)}),
}
OF_COMPLETIONS = {
    **{
        name: partial(completion, make, **params)
        for name, (make, params) in (ENTRY | UNITS).items()
    },
    **{
        f"published {name}, {form}": partial(
            completion, make, perturbation=name, **RANGE, **PUBLISHED
        )
        for form, make in OF_PAPERS.items()
        for name in ("input", "gradient", "output")
    },
    "dense": partial(dense, CP, **LEVELS),
    "dense, Tucker": partial(dense, TUCKER, **RANGE),
    "dense, users": partial(dense, CP, **USERS),
    "sparse": sparse_array,
    "frame and search": frame,
    "batches and partial_fit": batches,
    "clients, table": partial(clients, **LEVELS),
    "clients, noise": partial(clients, **RANGE),
    "Dask": partial(dask, **LEVELS),
    "Dask, input": partial(dask, perturbation="input", **RANGE),
    "Dask, sums": partial(dask, perturbation="sums", **RANGE),
    "Dask, statistics": partial(
        dask, perturbation="statistics", side_information={1: FEATURES}, **RANGE
    ),
    "Dask, users": partial(dask, **USERS),
    "Dask, Tucker, users": partial(dask, TuckerCompletion, **USERS),
    "parties": parties,
    "parties, shares": partial(parties, NoiseShares(3), perturbation="statistics"),
    "choices": choices,
    "scaler": scaler,
    "private search": private_search,
    "expected, entry": partial(expectation, CP(**LEVELS)),
    "expected, users": partial(expectation, CP(**USERS)),
}


# --- samples -------------------------------------------------------------------------


def of_case(case):
    """A fit, and two releases where it is a transformer."""
    estimator, released = case.release(**case.seeded())
    return parts(estimator, releases=[released, answer(estimator, case.data[0])])


def sample(estimator, data=SAMPLES):
    """Two releases of a transformer."""
    estimator = clone(estimator).set_params(random_state=0).fit(data)
    releases = [estimator.transform(data), estimator.transform(data)]
    return parts(estimator, releases=releases)


BOX = {"bounds": (0, 1)}
FLAT = SAMPLES.reshape(20, 12)
WEIGHTS = {"utility": [np.array([1.0, 0.5, 0.5, 0.1]), None], **BOX}
ROTATED = {
    "utility": [np.random.default_rng(4).standard_normal((4, 4)), None],
    "directions": "singular_vectors", **BOX,
}  # fmt: skip
ONE_MODE = {"mode": 0, "utility": [1.0, 0.5, 0.5, 0.1], **BOX}
COVARIANCES = {"row_covariance": np.diag([1.0, 1.0, 4.0, 4.0]), **BOX}
# With parameters that no case of every_estimator.py has.
OF_SAMPLES = {
    "Gaussian, classic": mechanisms.GaussianMechanism(
        0.5, calibration="classic", **BOX
    ),
    **{
        f"{make.__name__}, {name}": make(**params)
        for make, name, params in [
            (mechanisms.TensorVariateGaussian, "weights", WEIGHTS),
            (mechanisms.TensorVariateGaussian, "rotated", ROTATED),
            (papers.PublishedTensorVariateGaussian, "weights", WEIGHTS),
            (papers.PublishedTensorVariateGaussian, "rotated", ROTATED),
            (mechanisms.MatrixGaussian, "weights", WEIGHTS),
            (papers.PublishedMatrixGaussian, "weights", WEIGHTS),
            (mechanisms.UnimodalDirectionalNoise, "weights", ONE_MODE),
            (papers.PublishedUnimodalDirectionalNoise, "weights", ONE_MODE),
            (mechanisms.IndependentDirectionalNoise, "weights", ONE_MODE),
            (papers.PublishedIndependentDirectionalNoise, "weights", ONE_MODE),
            (papers.MatrixVariateGaussian, "covariances", COVARIANCES),
            (papers.PublishedMatrixVariateGaussian, "covariances", COVARIANCES),
        ]
    },
    "response, Gaussian": mechanisms.TensorRandomizedResponse(
        4.0, n_levels=4, noise="gaussian", **BOX
    ),
    "response, weights": mechanisms.TensorRandomizedResponse(
        4.0, n_levels=3, weights=[0, 0.5, 1, 1], **BOX
    ),
    "response, levels, published": papers.PublishedTensorRandomizedResponse(
        4.0, delta=1e-5, n_levels=4, noise="gaussian", **BOX
    ),
}
OF_CODES = {
    f"{make.__name__}, {mechanism}": make(
        2.0, mechanism=mechanism, task=TASK, delta=delta
    )
    for make in (
        encoding.TaskAwareEncoder, encoding.TaskAgnosticEncoder,
        papers.PrivacyAgnosticEncoder,
    )
    for mechanism, delta in {"laplace": 0, "gaussian": 1e-5, "auto": 0}.items()
}  # fmt: skip


def cells():
    """Histograms through a workload."""
    workload = np.tril(np.ones((12, 12)))
    mechanism = mechanisms.MatrixMechanism(delta=1e-5, workload=workload)
    return sample(mechanism, np.eye(12)[[0, 3, 3, 7]])


def learned(task, make=encoding.TaskAwareEncoder, **params):
    """An encoder that learns its task from labels."""
    y = FLAT @ TASK.T
    if task == "network":
        network = MLPRegressor(hidden_layer_sizes=(6,), max_iter=40, random_state=0)
        params["task"] = network.fit(FLAT, y)
    elif task == "linear":
        params["task"] = Ridge().fit(FLAT, y)
    encoder = make(2.0, random_state=0, **params).fit(FLAT, y)
    codes = encoder.privatize(FLAT)
    return parts(encoder, codes=codes, decoded=encoder.decode(codes))


CASES = {
    **OF_COMPLETIONS,
    **{
        case.label: partial(of_case, case)
        for case in EVERY_CASE
        if case.private in ("samples", "people")
    },
    **{name: partial(sample, one) for name, one in OF_SAMPLES.items()},
    **{name: partial(sample, one, FLAT) for name, one in OF_CODES.items()},
    "matrix mechanism": cells,
    "task from labels": partial(learned, None),
    "task of a model": partial(learned, "linear"),
    "task of a network": partial(learned, "network", n_components=2),
    "task of a network, published": partial(
        learned, "network", papers.PublishedTaskAwareEncoder, n_components=2
    ),
}


# --- the command ---------------------------------------------------------------------


def results(only):
    """Hashes of what each case gives; the type of its error if it ends in one."""
    found = {}
    for name, case in CASES.items():
        if only not in name:
            continue
        start = time.perf_counter()
        with warnings.catch_warnings(action="ignore"):
            try:
                found[name] = {part: hashed(value) for part, value in case().items()}
            except Exception as error:
                found[name] = {"error": f"{type(error).__name__}: {error}"}
        print(f"{time.perf_counter() - start:6.1f} s  {name}", file=sys.stderr)
    return found


def main():
    """Write the hashes, or compare with those that were written."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", type=Path)
    action.add_argument("--compare", type=Path)
    parser.add_argument("--events", action="store_true")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    found = results(options.only)
    errors = {name: one["error"] for name, one in found.items() if "error" in one}
    for name, error in errors.items():
        print(f"{name}: {error}")
    if options.write:
        options.write.write_text(json.dumps(found, indent=1))
        print(f"{len(found)} cases, {len(errors)} errors")
        return bool(errors)
    texts = {"guarantee", "unprotected"} if options.events else set()
    differing = 0
    for name, before in json.loads(options.compare.read_text()).items():
        if options.only not in name:
            continue
        after = found.get(name, {})
        keys = [k for k in before | after if before.get(k) != after.get(k)]
        if keys := [key for key in keys if key not in texts]:
            differing += 1
            print(f"{name}: {', '.join(keys)} differ")
    print(f"{len(found)} cases, {differing} differ")
    return bool(differing)


if __name__ == "__main__":
    sys.exit(main())
