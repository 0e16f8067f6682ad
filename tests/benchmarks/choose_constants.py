"""Constants of the fits beside other values of them, without any test part.

    python tests/benchmarks/choose_constants.py [--data FILE ...] [--only NAME ...]

A file is one of bench_published.py, or has choices if it has no `train_values`. Of it,
`train` is read and never `test`: each split holds out a tenth of `train`, or a fifth of
a user's choices. Of the digits, the first 1,200 are read; all else is generated, or
wines. For every constant and each of its other values, the script prints how much
larger the loss is than with today's value, in per cent: the mean over the data sets,
its standard error over these, the least and the largest of them. A loss is the error of
the fits for which the constant counts: root mean squared for ratings, recall that is
lost for choices, energy or variance that is not explained for moments, and
cross-entropy for encoders. For `_STATED_AS` and `_LEAST_RESIDUAL`, it is the negative
log density of held-out ratings, in hundredths. Today's value stays unless another one
is better by more than .1 per cent and two standard errors.
"""

import argparse
import importlib
import math
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
from sklearn.datasets import load_digits, load_wine, make_classification
from sklearn.metrics import log_loss, root_mean_squared_error
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import scale

from sktensordp.completion import (
    CPCompletion,
    ImplicitCompletion,
    make_ranking_scorer,
)
from sktensordp.datasets import make_choices, make_low_rank_tensor, make_ratings
from sktensordp.encoding import TaskAwareEncoder
from sktensordp.exceptions import AveragesOnlyWarning
from sktensordp.model_selection import ItemHoldout
from sktensordp.moments import MultilinearPCA, MultilinearRidge
from tests.benchmarks.bench_published import domain

# Of a larger file, fits to values take random users who have about so many entries.
MOST_ENTRIES = 25_000
RATINGS = (600, 2000, 30_000), (2000, 100, 30_000), (300, 3000, 15_000)
TENSORS = ("tensor", (15, 12, 10), 2), ("larger tensor", (30, 25, 20), 3)
CHOICES = (600, 2000, 40_000), (5000, 300, 30_000), (2000, 4000, 100_000)
SAMPLES = ((12, 20), (3, 4), 2000), ((6, 8, 10), (2, 3, 3), 1000), ((8, 8), (3, 3), 300)
# Seed of what is generated: no other one of ours is as large.
SEED = 7000
# Order of the first two modes of a matrix: with the other one, users have features by
# what they rated, in the place of the items.
MODES = 0, 1


# --- data -----------------------------------------------------------------------------


class Data(NamedTuple):
    """Data of a kind, and what is public of them."""

    name: str
    kind: str
    X: np.ndarray
    y: np.ndarray | None = None
    options: dict | None = None


def of_file(path):
    """Entries of the training part of a file, all and fewer; `test` is not read."""
    with np.load(path) as file:
        X, shape = file["train"].astype(np.int64), tuple(file["shape"].tolist())
        if "train_values" not in file:
            yield Data(path.stem, "choices", X, None, {"shape": shape})
            return
        y = file["train_values"].astype(float)
    options = {"shape": shape, **domain(y)}
    rank = np.random.default_rng(SEED).permutation(shape[0])
    kept = rank[X[:, 0]] < shape[0] * MOST_ENTRIES / len(y)
    yield Data(path.stem, "all ratings", X, y, options)
    yield Data(path.stem, "fewer ratings", X[kept], y[kept], options)


def times(sizes):
    """A shape in words."""
    return " x ".join(f"{size:,}" for size in sizes)


def others():
    """What is generated, wines, and digits that no page tests on."""
    for *shape, n in RATINGS:
        made = make_ratings(*shape, n, random_state=SEED)
        options = {"shape": tuple(shape), "levels": made.levels}
        name = f"made, {times(shape)}"
        yield Data(name, "made ratings", made.data, made.target, options)
    for kind, shape, rank in TENSORS:
        made = make_low_rank_tensor(shape, rank, snr=3.0, random_state=SEED)
        options, values = {"shape": shape, "value_bounds": (0, 1)}, made.target
        name = f"made, {times(shape)}"
        yield Data(name, kind, made.data, np.clip(values, 0, 1), options)
    for *shape, n in CHOICES:
        made = make_choices(*shape, n, random_state=SEED)
        options = {"shape": tuple(shape)}
        yield Data(f"made, {times(shape)}", "choices", made.data, None, options)
    for shape, ranks, n in SAMPLES:
        X, y = samples(shape, ranks, n)
        yield Data(f"made, {times(shape)}", "samples", X, y)
    images = load_digits().images[:1200]
    ink = np.clip(images[:, :4].sum(axis=(1, 2)) / images.sum(axis=(1, 2)), 0, 1)
    yield Data("digits", "samples", unit(images), 2 * ink - 1)
    made = make_classification(500, 12, n_informative=6, random_state=SEED)
    yield Data("made", "features", scale(made[0]), made[1])
    wines = load_wine()
    yield Data("wines", "features", scale(wines.data), wines.target)


def samples(shape, ranks, n):
    """Noisy tensors of small cores with decreasing sizes, and a target of each."""
    rng = np.random.default_rng(SEED)
    sizes = np.ones(())
    for rank in ranks:
        sizes = np.multiply.outer(sizes, 1 / np.sqrt(1 + np.arange(rank)))
    cores = X = rng.normal(0.5, 1.0, size=(n, *ranks)) * sizes
    for mode, (size, rank) in enumerate(zip(shape, ranks, strict=True), start=1):
        factor = np.linalg.qr(rng.normal(size=(size, rank)))[0]
        X = np.moveaxis(np.tensordot(X, factor, (mode, 1)), -1, mode)
    X = unit(X + 0.5 * np.sqrt(np.mean(X**2)) * rng.normal(size=X.shape))
    y = cores.reshape(n, -1) @ rng.normal(size=math.prod(ranks))
    y += 0.5 * y.std() * rng.normal(size=n)
    return X, np.clip(y / (3 * y.std()), -1, 1)


def unit(X):
    """The same samples, each of length one."""
    flat = X.reshape(len(X), -1)
    return (flat / np.linalg.norm(flat, axis=1, keepdims=True)).reshape(X.shape)


# --- losses, or logarithms of them ----------------------------------------------------


def fitted(data, options, split):
    """A completion of nine tenths of the entries, and the others."""
    X, test = data.X, np.random.default_rng(SEED + split).random(len(data.y)) < 0.1
    options = {**data.options, **options, "random_state": split}
    if X.shape[1] == 2:
        X, options["shape"] = X[:, MODES], tuple(np.take(options["shape"], MODES))
    return CPCompletion(**options).fit(X[~test], data.y[~test]), X[test], data.y[test]


def of_ratings(data, options, split):
    model, X, y = fitted(data, options, split)
    return math.log(root_mean_squared_error(y, model.predict(X)))


def of_densities(data, options, split):
    model, X, y = fitted(data, options, split)
    mean, deviation = model.predict(X, return_std=True)
    return float(np.mean(((y - mean) / deviation) ** 2 / 2 + np.log(deviation)))


def of_choices(data, options, split):
    holdout = ItemHoldout(0.2, n_splits=1, random_state=SEED + split)
    ((train, test),) = holdout.split(data.X)
    model = ImplicitCompletion(**data.options, **options, random_state=split)
    if math.isinf(model.epsilon):
        # More take half a minute.
        model.set_params(max_items=min(1500, data.options["shape"][1]))
    test = test[np.isin(data.X[test, 0], data.X[train, 0])]
    scorer = make_ranking_scorer("recall", k=20, fold_in_fraction=0)
    return -math.log(scorer(model.fit(data.X[train]), data.X[test]))


def of_components(data, options, split):
    order = np.random.default_rng(SEED + split).permutation(len(data.X))
    train, test = np.split(order, [len(order) * 3 // 4])
    model = MultilinearPCA(**options, norm_bound=1.0, random_state=split)
    return math.log(1 - model.fit(data.X[train]).score(data.X[test]))


def of_found_norms(data, options, split):
    """Of samples of many lengths."""
    lengths = np.exp(np.random.default_rng(SEED).normal(0, 0.5, len(data.X)))
    X = data.X * lengths.reshape(-1, *[1] * (data.X.ndim - 1))
    train, test = np.split(X, [len(X) * 3 // 4])
    model = MultilinearPCA(**options, random_state=split)
    return math.log(1 - model.fit(train).score(test))


def of_targets(data, options, split):
    order = np.random.default_rng(SEED + split).permutation(len(data.X))
    train, test = np.split(order, [len(order) * 3 // 4])
    model = MultilinearRidge(
        **options, norm_bound=1.0, target_bounds=(-1, 1), random_state=split
    )
    model.fit(data.X[train], data.y[train])
    return math.log(1 - model.score(data.X[test], data.y[test]))


def of_codes(data, options, split):
    order = np.random.default_rng(SEED + split).permutation(len(data.X))
    train, test = np.split(order, [len(order) * 7 // 10])
    task = MLPClassifier((10,), max_iter=1000, alpha=1e-2, random_state=split)
    task.fit(data.X[train], data.y[train])
    model = TaskAwareEncoder(**options, task=task, encoder="mlp", random_state=split)
    model.fit(data.X[train])
    answers = (task.predict_proba(model.transform(data.X[test])) for _ in range(20))
    return math.log(np.mean([log_loss(data.y[test], answer) for answer in answers]))


# --- constants ------------------------------------------------------------------------


class Fits(NamedTuple):
    """Settings of fits, the kinds of data that they suit, and what they lose."""

    kinds: Sequence[str]
    loss: Callable
    settings: list[dict]


def settings(epsilons, **options):
    """The same options at each of some epsilons."""
    return [{"epsilon": epsilon, **options} for epsilon in epsilons]


OF_VALUES = settings([math.inf, 4.0], perturbation="input")
OF_SUMS = settings([0.5, 1.0, 4.0], perturbation="sums")
OF_STATISTICS = settings([1.0, 4.0, 16.0], perturbation="statistics")
OF_FACTORS = settings(
    [4.0, 16.0, 64.0], perturbation="statistics", n_pattern_components=0, rank=3
)
OF_OWN = settings([0.25, 0.5, 1.0, 2.0], perturbation="sums", personal=True)
OF_OWN_STATISTICS = settings([1.0], perturbation="statistics", personal=True)
OF_AUTO = [*settings([1.0, 3.0]), *settings([1.0, 3.0], personal=True)]
# Without a declared domain; the smallest set is too small for a lower epsilon.
OF_FOUND = settings(
    [0.3, 1.0, 4.0], perturbation="sums", levels=None, value_bounds=None
)
OF_USERS = {
    name: settings([4.0], perturbation=name, unit=0, delta=1e-5)
    for name in ("sums", "statistics")
}

FEWER, ALL = ("fewer ratings", "made ratings"), ("all ratings", "made ratings")
VALUES = Fits((*FEWER, "tensor"), of_ratings, OF_VALUES)
FEW_TERMS = Fits(FEWER, of_ratings, [{**options, "rank": 1} for options in OF_VALUES])
DENSITIES = Fits((*FEWER, "tensor"), of_densities, OF_VALUES)
SUMS = Fits(ALL, of_ratings, OF_SUMS)
STATISTICS = Fits(ALL, of_ratings, [*OF_STATISTICS, *OF_OWN_STATISTICS])
FACTORS = Fits(("tensor", "larger tensor", "made ratings"), of_ratings, OF_FACTORS)
OWN = Fits(ALL, of_ratings, OF_OWN)
RELEASES = Fits(ALL, of_ratings, [*OF_SUMS, *OF_STATISTICS])
ANY = Fits(FEWER, of_ratings, [*OF_VALUES, *OF_SUMS])
FOUND = Fits(FEWER, of_ratings, OF_FOUND)
AUTO = Fits(FEWER, of_ratings, OF_AUTO)
USERS = Fits(FEWER, of_ratings, [*OF_USERS["sums"], *OF_USERS["statistics"]])
AUTO_OF_USERS = Fits(FEWER, of_ratings, settings([1.0, 4.0, 16.0], unit=0, delta=1e-5))
ITEMS_OF_USERS = Fits(FEWER, of_ratings, OF_USERS["sums"])
FACTORS_OF_USERS = Fits(FEWER, of_ratings, OF_USERS["statistics"])
CHOSEN = Fits(("choices",), of_choices, settings([1.0, 4.0, 16.0], delta=1e-6))
UNPROTECTED = Fits(("choices",), of_choices, settings([math.inf]))
COMPONENTS = Fits(
    ("samples",),
    of_components,
    settings([0.5, 2.0, 8.0], delta=1e-6, n_components=12),
)
CENTRED = Fits(
    ("samples",),
    of_components,
    settings([0.5, 2.0, 8.0], delta=1e-6, n_components=12, center=True),
)
FOUND = Fits(
    ("samples",),
    of_found_norms,
    settings([3.0, 8.0], delta=1e-6, n_components=12),
)
TARGETS = Fits(("samples",), of_targets, settings([0.5, 2.0, 8.0], delta=1e-6))
CODES = Fits(("features",), of_codes, settings([1.0, 10.0]))


class Constant(NamedTuple):
    """A constant of a module below sktensordp, and other values of it."""

    module: str
    name: str
    others: tuple
    fits: Fits


CONSTANTS = [
    Constant(module if module == __name__ else f"sktensordp.{module}", *rest)
    for module, *rest in [
        ("tensor._rows", "_FITTED_AS", (30.0, 1e9), VALUES),
        ("tensor._rows", "_LEAST_RESIDUAL", (0.01, 0.2), DENSITIES),
        ("tensor._rows", "_STATED_AS", (1.0, 10.0, 30.0), DENSITIES),
        ("tensor._pattern", "_STANDS_OUT", (1.0, 1.05, 1.2, 1e9), VALUES),
        ("tensor._pattern", "_CLEARLY", (1.1, 1.4, 1e9), RELEASES),
        (__name__, "MODES", ((1, 0),), ANY),
        ("tensor._pattern", "FIRST_COMPONENTS", (4, 16), ANY),
        ("tensor._pattern", "_SPREAD_OF_COUNTS", (0.125, 0.5), VALUES),
        ("tensor._pattern", "_TYPICAL", (0.0, 0.5, 2.0, 4.0), VALUES),
        ("tensor._cp_rows", "_BEFORE_LEARNING", (2, 5), VALUES),
        ("tensor._cp_rows", "_FIRST_TERMS", (5, 20), VALUES),
        ("tensor._cp_rows", "_MORE_TERMS", (0, 2, 8), FEW_TERMS),
        ("tensor._cp_rows", "_START_VARIANCE", (1.0, 4.0), VALUES),
        ("tensor._cp_rows", "_SWEEPS_OF_TERMS", (8, 16), VALUES),
        ("tensor._cp_rows", "_LEAST_PROGRESS", (0.003, 0.03), VALUES),
        ("tensor._leading_terms", "_TERM_STANDS_OUT", (1.0, 1.1, 1.4), VALUES),
        ("tensor._priors", "BIAS_PRECISION", (5.0, 80.0), VALUES),
        ("tensor._priors", "BIAS_VARIANCE", (0.01, 0.02, 0.08), SUMS),
        ("tensor._priors", "RESIDUAL_VARIANCE", (0.1, 0.4), SUMS),
        ("tensor._priors", "E_FOLDS", (0.75, 3.0), SUMS),
        ("tensor._priors", "INTERACTION_VARIANCE", (0.02, 0.09), AUTO),
        (
            "completion.measurements._statistics",
            "_BEFORE_WEIGHTS",
            (0.6, 0.9, 0.95),
            STATISTICS,
        ),
        (
            "completion.measurements._statistics",
            "_BEFORE_FACTORS",
            (0.6, 0.9),
            FACTORS,
        ),
        ("completion.measurements._statistics", "_CLIP", (0.35, 0.7), STATISTICS),
        ("completion.measurements._statistics", "_CLIP", (0.35, 0.7), FACTORS),
        ("tensor._priors", "OWN_BIAS_VARIANCE", (0.03, 0.045, 0.08, 0.12), OWN),
        ("tensor._priors", "OWN_WEIGHT_VARIANCE", (0.005, 0.01, 0.04), OWN),
        ("tensor._priors", "OWN_RESIDUAL_VARIANCE", (0.1, 0.2), OWN),
        ("completion.measurements._expectation", "_RESIDUAL", (0.1, 0.2), AUTO),
        ("completion.measurements._expectation", "_OF_FEATURE", (0.001, 0.004), AUTO),
        ("completion.measurements._expectation", "_OF_ITEM", (0.01, 0.04), AUTO),
        (
            "completion.measurements.units._first",
            "_UNKNOWN",
            (0.0, 0.3, 0.6, 1.0),
            USERS,
        ),
        (
            "completion.measurements.units._first",
            "_EVENED",
            (0.0, 0.06, 0.24),
            ITEMS_OF_USERS,
        ),
        ("completion._scales", "_PRICE_OF_WIDTH", (5, 20), FOUND),
        ("completion._scales", "_PRICE_OF_LEVELS", (10, 40), FOUND),
        ("completion._scales", "_PRICE_OF_NONE", (500, 900), FOUND),
        (
            "completion.measurements._found_scale",
            "_SPENT_ON_ALL",
            (150, 300, 1200),
            FOUND,
        ),
        (
            "completion.measurements._found_scale",
            "MOST_SPENT",
            (0.05, 0.2),
            FOUND,
        ),
        ("completion.measurements.units._rounds", "BOUND", (0.5, 1.0), USERS),
        ("completion.measurements.units._rounds", "_DRIFT", (0.01, 0.1), USERS),
        ("completion.measurements.units._rounds", "_OF_TOTALS", (0.02, 0.1), USERS),
        (
            "completion.measurements.units._expected",
            "_LEAST_GAIN",
            (0.0, 0.005, 0.02, 0.04),
            AUTO_OF_USERS,
        ),
        (
            "completion.measurements.units._rounds",
            "_NEW_RESIDUALS",
            (0.01, 0.2),
            FACTORS_OF_USERS,
        ),
        (
            "completion.measurements.units._rounds",
            "BIAS_PASSES",
            (2, 8),
            ITEMS_OF_USERS,
        ),
        (
            "completion.measurements.units._rounds",
            "FACTOR_PASSES",
            (4, 12),
            FACTORS_OF_USERS,
        ),
        (
            "completion.measurements.units._cooccurrence",
            "_EIGENVALUES",
            (0.25, 0.7, 1.0),
            CHOSEN,
        ),
        (
            "completion.measurements.units._cooccurrence",
            "_ITEMS_PER_ROOT",
            (3.5, 14.0),
            CHOSEN,
        ),
        (
            "completion.measurements.units._cooccurrence",
            "_LEAST_COUNTS",
            (0.075, 0.3),
            CHOSEN,
        ),
        *[
            (f"completion.measurements.units._{module}", *constant, fits)
            for module, fits, constants in [
                (
                    "item_model",
                    CHOSEN,
                    [
                        ("_ON_DIAGONAL", (0.0, 0.05, 0.2)),
                        ("_OF_NOISE", (0.3, 1.2)),
                        ("_RIDGE", (1.0, 9.0)),
                    ],
                ),
                (
                    "unprotected_weights",
                    UNPROTECTED,
                    [
                        (
                            "_RIDGES",
                            (
                                (20.0,),
                                (10.0, 20.0, 40.0),
                                (2.5, 5.0, 10.0, 20.0, 40.0, 80.0),
                            ),
                        ),
                        ("_EXPONENTS", ((0.1,), (0.0, 0.1, 0.2, 0.3))),
                        ("_HIDDEN", (0.1, 0.4)),
                        ("_N_USERS", (500, 8000)),
                        ("_N_POPULAR", (500,)),
                        ("_SURELY", (0.0, 2.0, 4.0)),
                        ("_OF_SIZE", (-1.0, -0.75, -0.25, 0.0)),
                    ],
                ),
            ]
            for constant in constants
        ],
        ("moments._spectrum", "_AS_GOOD", (0.0, 0.01), COMPONENTS),
        ("moments._pca", "_FIRST_SHARE", (0.25, 0.75), COMPONENTS),
        ("moments._pca", "_MEAN_SHARE", (0.05, 0.15, 0.25), CENTRED),
        ("moments._norm", "_NEEDED", (60.0, 240.0), FOUND),
        ("moments._norm", "_MOST", (0.05, 0.2), FOUND),
        ("moments._regression", "_MODES_SHARE", (0.1, 0.4), TARGETS),
        ("encoding._training", "_PENALTY", (1e-3, 1e-2), CODES),
        ("encoding._training", "_SMOOTHING", (0.1, 0.6), CODES),
    ]
]


def shown(value):
    """A value in short."""
    return f"{value:g}" if isinstance(value, int | float) else str(value)


@contextmanager
def changed(constant, value):
    """All modules that have the constant have another value of it."""
    today = getattr(importlib.import_module(constant.module), constant.name)
    with ExitStack() as stack:
        for name, module in list(sys.modules.items()):
            is_ours = name.startswith(("sktensordp", __name__))
            if is_ours and vars(module).get(constant.name) is today:
                stack.enter_context(patch.object(module, constant.name, value))
        yield


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="*", type=Path, default=[], metavar="FILE")
    parser.add_argument("--only", nargs="*", metavar="NAME", help="these constants")
    parser.add_argument("--splits", type=int, default=1)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", AveragesOnlyWarning)
    sets = [*chain.from_iterable(map(of_file, arguments.data)), *others()]

    @cache
    def today(place, loss, options, split):
        return loss(sets[place], dict(options), split)

    print(f"{'constant':22}{'value':>14}{'change':>8}{'error':>7}{'least':>8}  largest")
    for constant in CONSTANTS:
        if arguments.only and constant.name not in arguments.only:
            continue
        module, fits = importlib.import_module(constant.module), constant.fits
        print(f"{constant.name:22} {shown(getattr(module, constant.name))}", flush=True)
        for value in constant.others:
            found = {}
            for place, data in enumerate(sets):
                if data.kind not in fits.kinds:
                    continue
                changes = []
                for options in fits.settings:
                    for split in range(arguments.splits):
                        known = tuple(options.items())
                        before = today(place, fits.loss, known, split)
                        with changed(constant, value):
                            after = fits.loss(data, options, split)
                        changes.append(100 * (after - before))
                found[data.name] = np.mean(changes)
            each = np.array(list(found.values()))
            error = each.std(ddof=1) / math.sqrt(len(each))
            least, largest = min(found, key=found.get), max(found, key=found.get)
            print(
                f"{shown(value):>36}{each.mean():8.2f}{error:7.2f}{found[least]:8.2f} "
                f"{least}, {found[largest]:.2f} {largest}",
                flush=True,
            )


if __name__ == "__main__":
    main()
