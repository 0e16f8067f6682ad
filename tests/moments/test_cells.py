"""No fit of moments releases more numbers than its noise was planned for."""

import itertools
import math
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from unittest import mock

import numpy as np
import pytest
from sklearn.base import clone

from sktensordp.measure import Releases, SumFields
from sktensordp.moments import (
    MultilinearPCA,
    MultilinearRidge,
    MultilinearRidgeClassifier,
    fit_aggregated,
    party,
)
from sktensordp.privacy import PrivacyBudget, planned_guarantee
from tests.support.replaying import recorded
from tests.support.seams import (
    LARGEST_CORE,
    MomentsEstimator,
    message,
    moments_base,
    moments_pca,
    moments_regression,
    moments_requests,
    read_message,
)

COMMON = {"norm_bound": 3.0, "delta": 1e-5}
CLASSES = list(range(5))
MAKERS = {
    "pca": partial(MultilinearPCA, **COMMON),
    "centred": partial(MultilinearPCA, **COMMON, center=True),
    "ridge": partial(MultilinearRidge, **COMMON, target_bounds=(0, 4)),
    "centred ridge": partial(
        MultilinearRidge, **COMMON, target_bounds=(0, 4), center=True
    ),
    "classes": partial(MultilinearRidgeClassifier, **COMMON, classes=CLASSES),
}
SHAPES = [(30,), (5,), (3, 4), (4, 4), (2, 3, 4), (1, 20)]
MOST = 12


@pytest.fixture
def small_cores(monkeypatch):
    """Cores have at most 12 cells, so that larger ones are quickly tried."""
    for module in (moments_base, moments_pca, moments_regression, moments_requests):
        monkeypatch.setattr(module, "LARGEST_CORE", MOST)


@contextmanager
def plans():
    """The numbers for which noise is planned while this lasts."""
    found, plan = [], MomentsEstimator._planned_noise

    def planned(*args):
        noise = plan(*args)
        found.append(noise.n_moved)
        return noise

    with mock.patch.object(MomentsEstimator, "_planned_noise", planned):
        yield found


def choices(shape):
    """Numbers of components: none, one, and one for each mode."""
    size = math.prod(shape)
    yield from (None, 1, 4, MOST, MOST + 1, size, size + 1)
    yield from itertools.product(*({1, n // 2 + 1, n - 1 or 1, n} for n in shape))


def is_possible(name, shape, n_components):
    """By the rules of the documentation."""
    has_core = name in ("ridge", "centred ridge", "classes")
    if n_components is None:
        return True
    if isinstance(n_components, tuple):
        return not has_core or math.prod(n_components) <= MOST
    most = math.prod(shape)
    return n_components <= (min(most, MOST) if has_core or len(shape) > 1 else most)


def ways(model, X, y):
    """Fits to the same samples here, in batches and of parties."""
    has_targets = not isinstance(model, MultilinearPCA)

    def to_sums():
        one = party(model, X, y)
        return fit_aggregated(clone(model), one.answer, n_samples=len(X))

    yield lambda: clone(model).fit(X, y)
    batches = [(X[:9], y[:9]), (X[9:], y[9:])]
    batches = batches if has_targets else [batch[0] for batch in batches]
    yield lambda: clone(model).fit_batches(batches)
    yield to_sums


@pytest.mark.thorough_after_one
@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_no_more_numbers_are_released_than_planned(name, shape, small_cores):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, *shape)), rng.integers(0, 5, 40)
    for n_components, epsilon in itertools.product(choices(shape), [1.0, 600.0]):
        model = MAKERS[name](n_components, epsilon=epsilon, tensor_shape=shape)
        for fit in ways(model, X, y):
            with PrivacyBudget(1e4, 1e-3) as budget, plans() as planned:
                with recorded() as found:
                    if not is_possible(name, shape, n_components):
                        with pytest.raises(ValueError, match=r"at most \d+ (comp|cel)"):
                            fit()
                        with pytest.raises(ValueError, match=r"at most \d+ (comp|cel)"):
                            planned_guarantee(model)
                        assert not found.exact
                        assert budget.spent is None
                        continue
                    event = fit().privacy_guarantee_.event
                assert planned_guarantee(model).event == event
            assert 0 < found.flat.size <= planned[0]


@pytest.mark.parametrize(
    ("shape", "allowed", "refused"),
    [
        ((5000,), LARGEST_CORE, LARGEST_CORE + 1),
        ((5000,), (LARGEST_CORE,), (LARGEST_CORE + 1,)),
        ((81, 81), LARGEST_CORE, LARGEST_CORE + 1),
        ((81, 81), (64, 32), (80, 80)),
        ((3, 683), (3, 682), (3, 683)),
        ((3, 683), (3, 682), 3 * 683),
        ((16, 16, 16), (16, 16, 8), (16, 16, 9)),
    ],
)
def test_larger_cores_are_refused_before_people_are_read(shape, allowed, refused):
    for name in ("ridge", "classes"):
        planned_guarantee(MAKERS[name](allowed, tensor_shape=shape))
        model = MAKERS[name](refused, tensor_shape=shape)
        for use in (planned_guarantee, lambda m: m.fit(np.zeros((2, *shape)), [0, 1])):
            with (
                mock.patch.object(Releases, "ask", side_effect=AssertionError),
                pytest.raises(ValueError, match=rf"at most {LARGEST_CORE} c"),
            ):
                use(model)


@pytest.mark.parametrize(
    ("shape", "ranks", "is_allowed"),
    [((81, 81), (64, 32), True), ((3, 683), (3, 683), False)],
)
def test_parties_do_not_answer_for_larger_cores(shape, ranks, is_allowed):
    model = MAKERS["pca"](epsilon=1.0, tensor_shape=shape)
    terms, arrays = model._terms(), {}
    bases = tuple(map(np.zeros, zip(shape, ranks, strict=True)))
    question = replace(terms.question, shares=(1.0,), bases=bases, is_joint=True)
    fields, _ = terms.written(question, arrays)
    fields, arrays = read_message(message(fields, arrays), "a question")
    asked = fields, arrays, question.step, [SumFields(1.0, None)]
    if is_allowed:
        assert terms.read(*asked).sums[0].sides == (LARGEST_CORE,)
    else:
        with pytest.raises(ValueError, match="not a question"):
            terms.read(*asked)
