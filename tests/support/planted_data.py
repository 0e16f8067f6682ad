"""Data with rare numbers for every case, and what nothing released may tell of them."""

import copy

import numpy as np
from sklearn.base import clone

from tests.support.every_estimator import UNVALUED, answer
from tests.support.leak_hunt import Secrets, numbers_in

# Numbers that nothing else has: a value, the least and the largest, an index among
# those of 1013 users, how many entries it has, and how many there are.
RARE, LEAST, LARGEST = 0.731058537012971, 0.003178210433217, 0.996813352871941
N_USERS, USER, N_OWN, N_ALL = 1013, 911, 317, 691


def tensor_data(case, seed=0):
    """Entries of a tensor, irregular and with the rare ones; others for each seed.

    Of choices, the coordinates alone.
    """
    rng = np.random.default_rng([311, seed])
    X = np.argwhere(np.ones((4, 3)))
    if case.private in ("users", *UNVALUED):
        users = rng.integers(100, 900, N_ALL)
        if seed == 0:
            users[rng.choice(N_ALL, N_OWN, replace=False)] = USER
        X = np.column_stack([users, rng.integers(0, 3, N_ALL)])
    if case.private in UNVALUED:
        return (X,)
    y = rng.uniform(0.05, 0.95, len(X))
    if seed == 0:
        y[[3, 9, 11]] = RARE, LEAST, LARGEST
    return X, y


def samples(case, seed=0):
    """Samples of the shape of the case, irregular and with the rare values."""
    rng = np.random.default_rng([312, seed])
    X = rng.uniform(0.05, 0.95, np.shape(case.data[0]))
    if seed == 0:
        X.flat[[1, 5, 11]] = RARE, LEAST, LARGEST
    return X


def is_encoder(case):
    """Whether it is fitted to people who consent, and what it learns is published."""
    return hasattr(case.estimator, "client")


def private_data(case):
    """What the case protects: X, or X and y."""
    of_samples = case.private in ("samples", "people")
    if not of_samples:
        return tensor_data(case)
    return samples(case), *(part.copy() for part in case.data[1:])


def data_of(case, seed=0):
    """What the case is fitted to; an encoder of samples to those of others."""
    if case.private not in ("samples", "people"):
        return tensor_data(case, seed)
    return samples(case, 7 if is_encoder(case) else seed), *case.data[1:]


def fresh(case, **params):
    """An estimator that is not fitted, for more users than there are."""
    has_users = case.private in ("users", *UNVALUED)
    if getattr(case.estimator, "max_records", None):  # users are no mode
        has_users = False
    shape = {"shape": (N_USERS, 3)} if has_users else {}
    return case.fresh(**shape, **params)


def tensor_of(case):
    """The same data as a tensor, NaN where nothing was observed."""
    X, y = tensor_data(case)
    tensor = np.full((N_USERS, 3) if case.private == "users" else (4, 3), np.nan)
    tensor[tuple(X.T)] = y
    return tensor


def fits_of(case, prepared=lambda estimator: estimator):
    """Yield the estimator after every way to fit it, by name."""
    yield "fit", prepared(fresh(case)).fit(*data_of(case))
    if hasattr(case.estimator, "fit_batches"):
        X, *y = data_of(case)
        halves = [(X[:5], y[0][:5]), (X[5:], y[0][5:])] if y else [X[:5], X[5:]]
        yield "batches", prepared(fresh(case)).fit_batches(halves)
    if case.private in ("values", "users") and hasattr(case.estimator, "fit_transform"):
        tensor = tensor_of(case)
        estimator = prepared(fresh(case)).fit(tensor)
        estimator.transform(tensor)
        yield "tensor", estimator


def used(case, estimator, *data):
    """Call everything there is after a fit; what comes out."""
    X = data[0]
    if case.private == "samples":
        out = [estimator.transform(X)]
        if hasattr(estimator, "variance"):
            estimator.variance(X)
        if is_encoder(case):
            out += [client := estimator.client(), client.privatize(X)]
            out += [code := estimator.privatize(X), estimator.decode(code)]
        return out
    if case.private == "people":
        # Of other people: nothing protects a projection.
        if hasattr(estimator, "predict"):
            return [estimator.predict(samples(case, 7)), estimator.coef_]
        features = estimator.transform(samples(case, 7))
        estimator.score(samples(case, 7))
        return [features, estimator.inverse_transform(np.eye(features.shape[1]))]
    if case.private == "choices":
        estimator.fold_in(X).recommend([1, -1])
        return [estimator.predict(X[:3])]
    if case.private == "rows":
        estimator.score(X)
        return [answer(estimator, X)]
    y = data[1]
    for name, arguments in (
        ("partial_fit", (X, y)), ("fold_in", (X, y)), ("scale_values", (X, y)),
        ("unscale_values", (X, y)), ("score", (X, y)), ("recommend", ([1, -1],)),
    ):  # fmt: skip
        if hasattr(estimator, name):
            getattr(estimator, name)(*arguments)
    out = []
    if hasattr(estimator, "client"):
        out += [client := estimator.client(), noisy := client.privatize(y)]
        out += [clone(estimator).fit_randomized(X, noisy)]
    if hasattr(estimator, "predict"):
        out += [estimator.predict(X[:3])]
    if hasattr(estimator, "residual_variance_"):
        out += estimator.predict(X[:3], return_std=True)
    return out


def statistics(values):
    """Sums, means and scales of numbers."""
    parts = [np.sum(values), np.mean(values), np.var(values), np.std(values)]
    parts += [np.sum(values**2), np.linalg.norm(values), np.median(values)]
    return [*parts, np.var(values, ddof=min(1, len(values) - 1))]


def secrets_of(case):
    """What nothing that a case releases may tell."""
    secrets = Secrets().plant("planted", RARE, LEAST, LARGEST)
    if case.private == "samples":
        return secrets_of_samples(secrets, samples(case))
    if case.private == "people":
        secrets_of_samples(secrets, X := samples(case))
        secrets.add("moments of a mode", np.einsum("nij,nkj->ik", X, X))
        secrets.add("moments of a mode", np.einsum("nij,nik->jk", X, X))
        return secrets.add("noise-free fit", noise_free(case))
    if case.private == "choices":
        # How many chose an item is a number that pages have by chance.
        X = np.unique(tensor_data(case)[0], axis=0)
        secrets.add_whole("user", USER).add_whole("entries", len(X))
        # Shares of items are multiples of 2^-14: in one of 300 fits, a noisy share
        # equals a noise-free one by chance.
        free = noise_free(case)
        return secrets.add("noise-free fit", free[free * 2**14 % 1 != 0])
    if case.private == "rows":
        # Without noise, tables have these numbers.
        secrets.add_whole("entries of the user", N_OWN).add_whole("entries", N_ALL)
        of_items = np.bincount(tensor_data(case)[0][:, 1])
        return secrets.add_whole("entries of an item", *of_items)
    X, y = tensor_data(case)
    groups = [X[:, mode] == k for mode in (0, 1) for k in np.unique(X[:, mode])]
    for name, t in (("y", y), ("scaled", 2 * y - 1), ("centred", y - y.mean())):
        secrets.add(name, t).add(f"squares of {name}", t**2)
        for group in [np.ones(len(t), dtype=bool), *groups]:
            secrets.add(f"statistics of {name}", statistics(t[group]))
    secrets.add("standardized", (y - y.mean()) / y.std())
    if case.private == "users":
        secrets.add_whole("user", USER).add_whole("entries of the user", N_OWN)
        secrets.add_whole("entries", N_ALL).add_whole("users", len(np.unique(X[:, 0])))
        secrets.add_whole("entries of an item", *np.bincount(X[:, 1]))
    if case.has_epsilon:
        secrets.add("noise-free fit", noise_free(case))
    return secrets


def add_code_and_noise(secrets, case, estimator, noisy):
    """What a release of samples was made of: the code without noise, and the noise."""
    X = samples(case)
    if is_encoder(case):
        plan = estimator._randomizer
        rows = X.reshape(len(X), -1)
        code = plan.encoder((rows - plan.mean) / plan.scale)
        secrets.add("code", code).add("decoded code", estimator.decode(code))
    if np.shape(noisy) == X.shape:
        secrets.add("noise", noisy - X)
    return secrets


def secrets_of_samples(secrets, X):
    """What is told by numbers that are computed of samples."""
    rows = X.reshape(len(X), -1)
    if X.ndim == 3:
        secrets.add("covariance", np.swapaxes(X, 1, 2) @ X)
    for name, x in (("samples", rows), ("scaled", 2 * rows - 1)):
        secrets.add(name, x).add(name, x - x.mean(axis=0))
        secrets.add(f"moments of {name}", [x.T @ x, np.cov(x.T)])
        secrets.add(f"gram of {name}", x @ x.T)
        secrets.add(f"directions of {name}", x / np.linalg.norm(x, axis=1)[:, None])
        for lines in (x, x.T, x.reshape(1, -1)):
            secrets.add(f"statistics of {name}", [statistics(one) for one in lines])
    return secrets


def noise_free(case):
    """Numbers of a fit without noise, without those that other data give as well."""
    own, others = (
        numbers_in(copy.deepcopy(fresh(case, epsilon=np.inf).fit(*data_of(case, k))))
        for k in (0, 1)
    )
    return own[~np.isclose(own[:, np.newaxis], others, 1e-9, 0).any(axis=1)]
