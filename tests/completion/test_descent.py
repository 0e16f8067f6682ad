"""Sums of clipped gradients: what an entry adds, and where steps along them lead."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sktensordp.completion import CPCompletion, TuckerCompletion
from sktensordp.measure import EntrySums, Releases
from tests.support.guarantees import guarantee
from tests.support.noise import source_of
from tests.support.people import Summed
from tests.support.seams import (
    BIAS_VARIANCE,
    RESIDUAL_VARIANCE,
    Entries,
    Problem,
    measurements_gradient,
)

SHAPE = (4, 5, 3)
FORMS = {
    "CP": (CPCompletion, 2), "Tucker": (TuckerCompletion, (2, 2, 2)),
    "biases": (CPCompletion, 0),
}  # fmt: skip


def problem_of(form, n=40, epsilon=math.inf, **params):
    kind, rank = FORMS[form]
    options = {"value_bounds": (-1, 1), "n_pattern_components": 0, **params}
    model = kind(rank, epsilon=epsilon, perturbation="gradient", shape=SHAPE, **options)
    rng = np.random.default_rng(0)
    where = np.column_stack([rng.integers(0, size, n) for size in SHAPE])
    entries = Entries(where.astype(np.int32), None, SHAPE)
    return Problem.from_estimator(model, SHAPE, entries)


def descent_of(form, noise_variance=0.0, **params):
    return measurements_gradient._Descent(problem_of(form, **params), noise_variance)


def summed(descent, residuals, step=0.0):
    """Sums of what all entries contribute, by block."""
    sums = EntrySums(tuple(descent.shapes), "l2", step)
    total = sums.zeros()
    measurements_gradient.GradientQuestion((sums,), descent).add(residuals, total)
    return sums.parts(sums.on_lattice(total))


def jacobian(descent):
    """Derivatives of the predictions by every parameter, by differences."""
    found = []
    for own in descent.parameters:
        for index in np.ndindex(own.shape):
            before, predicted = own[index], []
            for move in (1e-6, -1e-6):
                own[index] = before + move
                predicted.append(descent._predicted(slice(None)))
            own[index] = before
            found.append((predicted[0] - predicted[1]) / 2e-6)
    return np.array(found).T


@pytest.mark.parametrize("form", FORMS)
def test_gradients_are_clipped_as_a_whole_to_half_a_length(form):
    """Over twice the clip: whatever the value, two of them are one apart at most."""
    descent = descent_of(form)
    values = np.resize([0.05, -0.02, 1.0, -1.0, 1e9, -1e9], 40)
    parts = descent.contributions(slice(None), values)
    lengths = np.sqrt(sum((part**2).sum(axis=1) for part in parts))
    slopes = jacobian(descent)
    of_slopes = np.linalg.norm(slopes, axis=1)
    residuals = values - descent._predicted(slice(None))
    whole = np.abs(residuals) * of_slopes / 0.5
    assert_allclose(lengths, np.minimum(whole, 1) / 2, rtol=1e-6)
    assert whole.min() < 0.9
    assert np.mean(lengths > 0.5 - 1e-9) > 0.5
    # All blocks together point where the squared residual falls.
    gradients = slopes * (residuals / (2 * 0.5 * np.maximum(whole, 1)))[:, np.newaxis]
    for entry in range(40):
        rows = [int(of_block[entry]) for of_block in descent.rows]
        own = [np.zeros(shape) for shape in descent.shapes]
        for block, row in enumerate(rows):
            own[block][row] = parts[block][entry]
        own = np.concatenate([block.ravel() for block in own])
        assert_allclose(own, gradients[entry], atol=1e-7)


@pytest.mark.parametrize("step", [0.0, 2.0**-20])
@pytest.mark.parametrize("form", FORMS)
def test_every_entry_is_summed_once(monkeypatch, form, step):
    """In whole steps, in chunks that do not divide their number."""
    descent = descent_of(form)
    values = np.linspace(-1, 1, 40)
    expected = [np.zeros(shape) for shape in descent.shapes]
    parts = descent.contributions(slice(None), values)
    for total, rows, part in zip(expected, descent.rows, parts, strict=True):
        np.add.at(total, rows, np.rint(part / step) * step if step else part)
    n_columns = sum(n for _, n in descent.shapes)
    monkeypatch.setattr(measurements_gradient, "_CHUNK", 7 * n_columns)
    assert len(descent.chunks()) == 6
    for found, total in zip(summed(descent, values, step), expected, strict=True):
        assert_allclose(found, total, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("noise_variance", [0.0, 3.0])
def test_steps_lead_to_the_ridge_regression(noise_variance):
    """Of biases alone, where nothing is clipped; noise counts as residual variance."""
    descent = descent_of("biases", noise_variance, max_iter=100)
    values = np.random.default_rng(1).uniform(-0.2, 0.2, 40)
    design = np.concatenate(
        [np.eye(size)[rows] for size, rows in zip(SHAPE, descent.rows, strict=True)],
        axis=1,
    )
    for _ in range(100):
        descent.move(summed(descent, values))
    counts = design.sum(axis=0)
    variance = np.full(len(counts), RESIDUAL_VARIANCE)
    # Of a sum of gradients, over twice the clip, averaged over all steps.
    variance += noise_variance / 100 / counts
    gram = design.T @ design + np.diag(variance / BIAS_VARIANCE)
    expected = np.linalg.solve(gram, design.T @ values)
    assert_allclose(np.concatenate(descent.parameters)[:, 0], expected, atol=1e-9)
    assert_allclose(np.concatenate(descent.average())[:, 0], expected, atol=1e-6)


def test_a_step_goes_half_the_way_in_every_block():
    """Along the sums, over their curvature, and back to the prior means."""
    descent = descent_of("Tucker", 2.0, max_iter=10)
    before = [own.copy() for own in descent.parameters]
    slopes = jacobian(descent)
    sums = [np.full(shape, 0.3) for shape in descent.shapes]
    descent.move(sums)
    curvature = np.maximum((slopes**2).sum(axis=0), 1e-6)
    # The third mode modulates the product of the others, and so does the core.
    core = np.zeros((2, 2, 2))
    core[[0, 1], [0, 1], 0] = 1
    rows = [[0, 0, 0], [0, 0, 0], [0, 1, 0], core.ravel()]
    of_factors = [0.04, 0.04]
    priors = 3 * [[BIAS_VARIANCE, *of_factors]] + [4 * of_factors]
    centres, variances = (
        np.concatenate(
            [np.tile(own, n) for own, (n, _) in zip(each, descent.shapes, strict=True)]
        )
        for each in (rows, priors)
    )
    ridge = (RESIDUAL_VARIANCE + 2.0 / 10 / curvature) / variances
    start = np.concatenate([own.ravel() for own in before])
    step = 0.3 - ridge * (start - centres)
    expected = start + 0.5 * step / (curvature + ridge)
    found = np.concatenate([own.ravel() for own in descent.parameters])
    assert_allclose(found, expected, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize(("max_iter", "n_averaged"), [(1, 1), (4, 2), (5, 3)])
def test_the_last_half_of_the_steps_is_averaged(max_iter, n_averaged):
    descent, trace = descent_of("CP", max_iter=max_iter), []
    for number in range(max_iter):
        descent.move([np.full(shape, 0.1 * number) for shape in descent.shapes])
        trace.append([own.copy() for own in descent.parameters])
    for block, mean in enumerate(descent.average()):
        last = [step[block] for step in trace[-n_averaged:]]
        assert_allclose(mean, np.mean(last, axis=0), rtol=1e-12)


def test_the_noise_is_planned_for_all_iterations_and_no_more():
    problem = problem_of("CP", epsilon=1.0, max_iter=3)
    measurement = measurements_gradient.GradientPerturbation(problem)
    noise, descent = measurement._noise, measurements_gradient._Descent(problem, 0.0)
    releases = Releases(noise, source_of(0), number=1)
    sums = EntrySums(tuple(descent.shapes), "l2", noise.step)
    question = measurements_gradient.GradientQuestion((sums,), descent)
    for _ in range(3):
        ((found, _),) = releases.ask(Summed(), question)
        assert found.shape == sums.shape
    with pytest.raises(RuntimeError, match="more than the budget"):
        releases.ask(Summed(), question)
    assert 0.9 < measurement.guarantee.epsilon <= 1


@pytest.mark.parametrize("scale", [1.0, 3.0])
def test_parameters_become_a_model_in_the_unit_of_the_values(scale):
    """Predictions are those of the descent, which are in half ranges."""
    problem = problem_of("Tucker", value_bounds=(-scale, scale))
    descent = measurements_gradient._Descent(problem, 0.0)
    descent.move([np.full(shape, 0.1) for shape in descent.shapes])
    predicted = descent._predicted(slice(None))
    released = None, 0.25, descent.parameters, 7, np.dtype(float)
    measurement = measurements_gradient.GradientPerturbation(problem)
    outcome = measurement.complete(released, None)
    found = outcome.model.predict(problem.entries.coordinates)
    assert_allclose(found, scale * predicted, rtol=1e-9)
    assert (outcome.offset, outcome.n_iter) == (0.25, 7)
    assert outcome.model.noise == pytest.approx(RESIDUAL_VARIANCE * scale**2)


@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize(("form", "rank"), [("CP", 2), ("Tucker", 2), ("biases", 0)])
def test_a_descent_starts_near_the_prior_means(form, rank, biases):
    """Every row has a bias, if there are any, and factors; the core starts exactly."""
    if form == "biases" and not biases:
        return
    descent = descent_of(form, biases=biases)
    *modes, core = descent.shapes if form == "Tucker" else (*descent.shapes, None)
    assert modes == [(size, biases + rank) for size in SHAPE]
    assert core in (None, (1, 8))
    for mode, own in enumerate(descent.parameters[:3]):
        assert not own[:, :biases].any()
        factors = own[:, int(biases) :]
        # The third mode modulates the product of the others.
        centre = np.zeros(rank)
        if mode == 2:
            centre[:] = 1
            if form == "Tucker":
                centre[1:] = 0
        assert np.all(np.abs(factors - centre) < 4 * 0.2)
        assert rank == 0 or np.std(factors - centre) > 0.05
    if core:
        diagonal = np.zeros((2, 2, 2))
        diagonal[[0, 1], [0, 1], 0] = 1
        assert_allclose(descent.parameters[3], diagonal.reshape(1, 8))


@pytest.mark.parametrize("last", [0, 2, None])
def test_a_fit_descends_from_its_mean_in_half_ranges(last):
    """Values are clipped before; whoever watches the steps may end them."""
    problem = problem_of("CP", max_iter=6, value_bounds=(1, 5))
    values = np.random.default_rng(3).uniform(-1, 7, 40)
    entries = Entries(problem.entries.coordinates, values, SHAPE)
    steps = []

    def on_sweep(step):
        steps.append(step)
        return step == last

    measurement = measurements_gradient.GradientPerturbation(problem)
    released = measurement.measure(entries, None, on_sweep)
    offset, n_iter = released.offset, released.n_iter
    assert n_iter == (6 if last is None else last + 1)
    assert steps == [*range(n_iter)]
    assert 1 < offset < 5
    descent = measurements_gradient._Descent(problem, 0.0)
    for _ in range(n_iter):
        descent.move(summed(descent, (np.clip(values, 1, 5) - offset) / 2))
    for found, expected in zip(released.parameters, descent.average(), strict=True):
        assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.thorough
def test_what_is_planned_before_any_data_is_what_fits_take_at_most():
    epsilon, delta = 2.0, 1e-6
    event = measurements_gradient.GradientPerturbation.planned_event(epsilon, delta)
    mean, _ = event.events
    assert mean.epsilon == pytest.approx(measurements_gradient.SHARE_OF_MEAN * epsilon)
    planned = guarantee(event, delta)
    problem = problem_of("CP", epsilon=epsilon, max_iter=3, delta=delta)
    fitted = measurements_gradient.GradientPerturbation(problem).guarantee
    for larger in (0.5, 1.5):
        assert fitted.delta_at(larger) <= planned.delta_at(larger) * (1 + 1e-9)
    assert planned.epsilon <= epsilon
