"""Perturbation of gradients: what one value moves, along any trajectory, and audits."""

import math
import pickle
import struct
from unittest import mock

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from sktensordp import _random
from sktensordp.audit import audit_estimator, audit_mechanism
from sktensordp.completion import CPCompletion, _gradient, _noisy_sums, _sums
from sktensordp.datasets import make_low_rank_tensor
from sktensordp.exceptions import PrivacyLeakWarning
from sktensordp.noise import GaussianLattice
from sktensordp.privacy import compose, privacy_of
from tests.completion import test_noisy_sums as tools

WHERE, SHAPES, make, solver_of = tools.WHERE, tools.SHAPES, tools.make, tools.solver_of
# Audits of this file raise a false alarm with probability at most 1e-3 together.
CONFIDENCE = 1 - 1e-4


def solver(order, form="cp", **params):
    where, shape = WHERE[order], SHAPES[order]
    ranks = None
    if form == "tucker":
        ranks = tools.RANKS[order] if params.get("rank", 2) else (0,) * order
    return solver_of(make(shape=shape, **params), where, shape, ranks)


# --- what one value moves ----------------------------------------------------------

DOMAINS = {
    "biases": {"rank": 2},
    "biases alone": {"rank": 0},
    "no biases": {"rank": 2, "biases": False, "gradient_clip": 0.03},
    "levels": {"rank": 1, "value_bounds": None, "levels": [0.0, 0.25, 1.0]},
    "wide clip": {"rank": 1, "gradient_clip": 3.0},
}


@pytest.mark.parametrize("factor", [0.0, 1.0, 1e3])
@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("domain", [*DOMAINS])
@pytest.mark.parametrize("form", ["cp", "tucker"])
def test_one_value_moves_the_sums_by_one(form, domain, order, factor):
    """In L2, all blocks of a release together, for all entries and trajectories.

    With the noise of the trajectory left out, as it is, and a thousand times as large.
    """
    of = solver(order, form, **DOMAINS[domain])
    start, largest = tools.largest_distance(of, WHERE[order], 2, factor=factor)
    noise = start.noise[0]
    n_changed = sum(part.shape[1] for part in start.exact[0])
    if form == "tucker" and of.problem.form:
        assert [part.shape[0] for part in start.exact[0]] == [*SHAPES[order], 1]
    bound = 1 + noise.lattice.step * math.sqrt(n_changed)
    assert np.all(largest <= bound * (1 + 1e-12))
    # Each release is about as sensitive as it may be, so that nothing is wasted; with
    # noise, the mean may be at an end of the range, where residuals have one sign.
    if domain != "wide clip" and factor == 0.0:
        assert np.all(largest > 0.9)
    # The event is about no less.
    (mu,) = tools.gaussian_mus(noise.event)
    sigma = noise.lattice.sigma
    assert np.linalg.norm(largest) / sigma <= mu


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("form", ["cp", "tucker"])
def test_twice_the_contributions_would_be_noticed(form, order):
    start, largest = tools.largest_distance(
        solver(order, form, rank=2), WHERE[order], 2, factor=0.0, wrong=2.0
    )
    (mu,) = tools.gaussian_mus(start.noise[0].event)
    assert np.linalg.norm(largest) / start.noise[0].lattice.sigma > 1.5 * mu


@pytest.mark.parametrize("form", ["cp", "tucker"])
def test_clipping_each_mode_for_itself_would_be_noticed(form, monkeypatch):
    """As is usual for each layer; the whole is then longer."""
    parts = _gradient._Descent.parts

    def by_mode(descent, values):
        found = []
        for rows, shape, of in parts(descent, values):

            def longer(part, of=of):
                own = of(part)
                length = np.linalg.norm(own, axis=1, keepdims=True)
                return own * (0.5 / np.maximum(length, 1e-9))

            found.append((rows, shape, longer))
        return found

    monkeypatch.setattr(_gradient._Descent, "parts", by_mode)
    _, largest = tools.largest_distance(solver(3, form, rank=2), WHERE[3], 2)
    assert largest.max() > 1.4


def test_a_core_that_is_left_out_of_the_clipping_would_be_noticed(monkeypatch):
    """Its gradient is no part of the length, and released all the same."""
    parts = _gradient._Descent.parts

    def without_core(descent, values):
        derivative = descent._derivative
        with mock.patch.object(
            descent, "_derivative", lambda block, p: derivative(block, p) * (block < 3)
        ):
            return parts(descent, values)

    monkeypatch.setattr(_gradient, "_START_SCALE", 1.0)
    _, right = tools.largest_distance(solver(3, "tucker", biases=False), WHERE[3], 2)
    assert right.max() < 1 + 1e-3
    monkeypatch.setattr(_gradient._Descent, "parts", without_core)
    _, largest = tools.largest_distance(solver(3, "tucker", biases=False), WHERE[3], 2)
    assert largest.max() > 1.2


@pytest.mark.parametrize("max_iter", [1, 4])
@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("form", ["cp", "tucker"])
def test_releases_and_cells_are_those_of_the_event(form, order, biases, max_iter):
    planned = {}

    def plan(*args, **sizes):
        planned.update(sizes)
        return _noisy_sums.plan_gaussian_sums(*args, **sizes)

    with mock.patch.object(_gradient, "plan_gaussian_sums", plan):
        of = solver(order, form, biases=biases, max_iter=max_iter)
        values = np.linspace(0, 1, len(WHERE[order]))
        found = tools.run(of, values)
        n_releases = len(found.exact)
        n_cells = sum(part.size for release in found.exact for part in release)
        assert n_releases == max_iter == planned["n_releases"]
        assert n_cells == planned["n_cells"]
        assert planned["n_entries"] == len(values)
        # In no release does one value move more sums than planned for.
        for _, changed in tools.neighbours_of(values):
            other = tools.run(of, changed, follow=found)
            for mine, theirs in zip(found.exact, other.exact, strict=True):
                moved = sum(
                    np.count_nonzero(a != b) for a, b in zip(mine, theirs, strict=True)
                )
                assert moved <= planned["n_changed"]
        events = [event for event, _ in tools.leaves(of.guarantee.event)]
    mus = tools.gaussian_mus(of.guarantee.event)
    sigma = found.noise[0].lattice.sigma
    assert mus == [pytest.approx(math.sqrt(n_releases) / sigma, rel=1e-4)]
    assert mus[0] >= math.sqrt(n_releases) / sigma
    # The mean is one release of one sum.
    laplace = [
        (event, count)
        for event, count in tools.leaves(of.guarantee.event)
        if type(event).__name__ == "LatticeLaplaceDpEvent"
    ]
    ((event, count),) = laplace
    assert count == len(found.first) == 1
    assert event.sensitivity == found.first_lattice.n_steps
    assert event.noise_parameter == found.first_lattice.rate
    assert len(events) == 3


def test_fits_take_no_more_than_was_accounted_for():
    """No more than was asked for, and than a search counts for a candidate."""
    for epsilon in (0.3, 10.0):
        for delta in (1e-14, 1e-6):
            model = make(epsilon=epsilon, delta=delta).fit(WHERE[2], np.zeros(8))
            assert model.privacy_guarantee_.epsilon <= epsilon
            assert model.privacy_guarantee_.delta == delta
            planned = clone(model)._planned_guarantee()
            for at in (0.0, 0.5 * epsilon, epsilon):
                found = model.privacy_guarantee_.delta_at(at)
                assert planned.delta_at(at) >= found * (1 - 1e-12)


# --- audits ------------------------------------------------------------------------

X, LOW, HIGH = [[0, 0], [1, 1]], [0.0, 0.5], [1.0, 0.5]


def transcript_audit(epsilon, *, claim=None, n_trials=300):
    """Everything that a release hands on, sums included, on worst-case neighbours."""
    model = make(epsilon=epsilon, rank=0, max_iter=2, gradient_clip=0.3)
    of = solver_of(model, X, (2, 2))
    seeds = iter(range(10**9))
    release = _noisy_sums.NoisySums.release

    def mechanism(values):
        sums = []

        def note(noise, parts, source):
            found = release(noise, parts, source)
            sums.extend(found)
            return [part.copy() for part in found]

        source = _random.NoiseSource(next(seeds), 0)
        with mock.patch.object(_noisy_sums.NoisySums, "release", note):
            mean, *_ = of.release(np.array(values), source, lambda _: False)
        return np.concatenate([[mean.offset], *(part.ravel() for part in sums)])

    guarantee = of.guarantee
    return audit_mechanism(
        mechanism, LOW, HIGH, n_trials=n_trials, confidence=CONFIDENCE,
        epsilon=guarantee.epsilon if claim is None else claim, delta=guarantee.delta,
    )  # fmt: skip


@pytest.mark.parametrize("epsilon", [1.0, 6.0])
def test_the_releases_are_audited_below_the_guarantee(epsilon):
    assert not transcript_audit(epsilon).violated


def test_the_audit_would_notice_too_little_noise(monkeypatch):
    """A fortieth of the noise; the epsilon that it is shown to have is above."""
    randomize = GaussianLattice.randomize

    def too_little(lattice, values, bits, **options):
        noisy = randomize(lattice, values.copy(), bits)
        values += (noisy - values) / 40
        return values

    monkeypatch.setattr(GaussianLattice, "randomize", too_little)
    report = transcript_audit(1.0)
    assert report.violated, report


def test_fitted_objects_are_audited_below_the_guarantee():
    model = make(max_iter=2, rank=1, gradient_clip=0.3, epsilon=2.0)
    options = {"n_trials": 200, "random_state": 0, "confidence": CONFIDENCE}
    report = audit_estimator(model, X, X, LOW, HIGH, **options)
    assert not report.violated, report
    assert report.claimed <= 2.0
    assert report.delta == 1e-6


# --- the estimator -----------------------------------------------------------------

RNG = np.random.default_rng(0)
TENSOR = RNG.uniform(0, 1, (7, 6, 4))
TENSOR[RNG.random(TENSOR.shape) < 0.4] = np.nan
COORDINATES = np.argwhere(~np.isnan(TENSOR))
VALUES = TENSOR[tuple(COORDINATES.T)]


def noiseless(monkeypatch):
    """All noise off, and known to be; the accounting stays."""
    monkeypatch.setattr(_sums, "discrete_laplace", lambda *_: 0)
    monkeypatch.setattr(_sums.SumsRandomizer, "noise_variance", property(lambda _: 0.0))

    def silent(self, values, bits, columns=None, out=None):
        out[...] = values
        return out

    monkeypatch.setattr(GaussianLattice, "randomize", silent)
    plan = _gradient.plan_gaussian_sums

    def without(*args, **sizes):
        found = plan(*args, **sizes)
        return _noisy_sums.NoisySums(found.lattice, 0.0, found.event)

    monkeypatch.setattr(_gradient, "plan_gaussian_sums", without)


@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_infinite_epsilon_is_the_fit_without_noise(biases, dtype, monkeypatch):
    values = VALUES.astype(dtype)
    free = make(epsilon=math.inf, biases=biases, max_iter=5)
    free = free.fit(COORDINATES, values).predict(COORDINATES)
    assert free.dtype == dtype
    noiseless(monkeypatch)
    silent = make(epsilon=1.0, biases=biases, max_iter=5).fit(COORDINATES, values)
    np.testing.assert_allclose(silent.predict(COORDINATES), free, atol=2e-4)
    assert silent.privacy_guarantee_.epsilon <= 1.0


@pytest.mark.parametrize("biases", [True, False])
def test_infinite_epsilon_is_a_tucker_without_noise(biases, monkeypatch):
    # Of rank one, so that there is something to find.
    rows, columns, layers = np.sign(np.random.default_rng(0).standard_normal((3, 7)))
    where = COORDINATES
    values = 0.5 + 0.5 * rows[where[:, 0]] * columns[where[:, 1]] * layers[where[:, 2]]
    options = {"biases": biases, "max_iter": 30}
    shape, ranks = TENSOR.shape, (2, 3, 2)
    free = solver_of(make(epsilon=math.inf, **options), where, shape, ranks)
    free = tools.predicted(free, values)
    assert np.std(free) > 0.03
    noiseless(monkeypatch)
    silent = solver_of(make(epsilon=1.0, **options), where, shape, ranks)
    np.testing.assert_allclose(tools.predicted(silent, values), free, atol=2e-3)


def test_a_tucker_starts_as_a_cp_of_two_modes():
    """Its core has ones on its diagonal."""
    of = solver(2, epsilon=math.inf)
    other = solver_of(make(epsilon=math.inf), WHERE[2], SHAPES[2], (2, 2))
    values = np.linspace(-1, 1, len(WHERE[2]))
    one = _gradient._Descent(of.problem, 0.0)
    two = _gradient._Descent(other.problem, 0.0)
    for mine, theirs in zip(one.parameters, two.parameters, strict=False):
        np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_allclose(one._predicted(slice(None)), two._predicted(slice(None)))
    mine, theirs = one.parts(values), two.parts(values)
    assert (len(mine), len(theirs)) == (2, 3)
    for block in range(2):
        a, b = (parts[block][2](slice(None)) for parts in (mine, theirs))
        # In the same direction; those of the core shorten all others where they clip.
        share = np.linalg.norm(b, axis=1) / np.linalg.norm(a, axis=1)
        np.testing.assert_allclose(a * share[:, np.newaxis], b, rtol=1e-9)
        assert np.all(share <= 1 + 1e-12)


def test_gradients_are_those_of_the_cost():
    """By differences in every number of every block, where nothing is clipped."""
    of = solver(3, "tucker", gradient_clip=1e6, max_iter=2)
    descent = _gradient._Descent(of.problem, 0.0)
    values = np.linspace(-1, 1, len(WHERE[3]))
    descent.move([np.ones_like(own) * 1e-7 for own in descent.parameters])

    def cost():
        return np.sum((values - descent._predicted(slice(None))) ** 2)

    for block, (rows, shape, of_part) in enumerate(descent.parts(values)):
        gradient = 2 * descent.clip * _noisy_sums.row_sums(rows, shape, of_part)
        own = descent.parameters[block]
        for index in np.ndindex(own.shape):
            before, costs = own[index], []
            for step in (1e-6, -1e-6):
                own[index] = before + step
                costs.append(cost())
            own[index] = before
            slope = (costs[0] - costs[1]) / 2e-6
            assert -2 * gradient[index] == pytest.approx(slope, abs=1e-6)


@pytest.mark.parametrize("epsilon", [200.0, math.inf])
def test_a_tucker_of_a_tensor_is_better_than_its_mean(epsilon):
    for seed in range(3):
        made = make_low_rank_tensor(
            decomposition="tucker", snr=math.inf, random_state=seed
        )
        # That most values are in: beside all of the range, their variance is small.
        bounds = made.truth.mean() + np.array([-0.1, 0.1])
        values = made.target.clip(*bounds)
        model = make(
            rank=3, epsilon=epsilon, value_bounds=bounds, max_iter=50, gradient_clip=1.0
        )
        of = solver_of(model, made.data, made.shape, (3, 3, 3))
        left = values - tools.predicted(of, values)
        assert np.std(left) < 0.95 * np.std(values)


@pytest.mark.parametrize("epsilon", [1e-4, 1.0, 300.0, math.inf])
@pytest.mark.parametrize("clip", [1e-12, 1.0, 1e6])
def test_tuckers_stay_finite(epsilon, clip):
    for order in (2, 3):
        for rank in (0, 2):
            of = solver(
                order, "tucker", epsilon=epsilon, gradient_clip=clip, max_iter=30,
                rank=rank,
            )  # fmt: skip
            values = np.linspace(0, 1, len(WHERE[order]))
            assert np.all(np.isfinite(tools.predicted(of, values)))


def test_it_learns():
    """Without noise it explains what rows and columns explain, clipped or not."""
    rng = np.random.default_rng(0)
    rows, columns = rng.standard_normal((2, 40))
    where = np.argwhere(rng.random((40, 40)) < 0.6)
    values = np.clip(0.5 + 0.1 * (rows[where[:, 0]] + columns[where[:, 1]]), 0, 1)
    for clip in (0.5, 5.0):
        model = make(epsilon=math.inf, rank=1, max_iter=40, gradient_clip=clip)
        left = np.var(values - model.fit(where, values).predict(where))
        assert left < 0.1 * np.var(values)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_fitted_object(dtype):
    model = make(shape=TENSOR.shape).fit(COORDINATES, VALUES.astype(dtype))
    assert model.perturbation_ == "gradient"
    assert model.n_iter_ == 3
    assert model.predict(COORDINATES).dtype == dtype
    low, high = model.value_bounds_
    rebuilt = model.offset_ + np.sum(
        np.prod([f[c] for f, c in zip(model.factors_, COORDINATES.T, strict=True)], 0),
        axis=1,
    )
    np.testing.assert_allclose(
        model.predict(COORDINATES), np.clip(rebuilt, low, high), rtol=1e-5, atol=1e-6
    )
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(COORDINATES), model.predict(COORDINATES))
    with pytest.raises(ValueError, match="standard deviations"):
        model.predict(COORDINATES, return_std=True)
    with pytest.raises(AttributeError, match="partial_fit"):
        model.partial_fit(COORDINATES, VALUES)
    params = clone(model).get_params()
    assert params["perturbation"] == "gradient"
    assert params["gradient_clip"] == 0.5


def test_batches_and_dense_tensors_are_fitted_alike():
    model = make(shape=TENSOR.shape)
    one = clone(model).fit(COORDINATES, VALUES)
    two = clone(model).fit_batches(
        zip(np.array_split(COORDINATES, 5), np.array_split(VALUES, 5), strict=True)
    )
    dense = clone(model).fit(TENSOR)
    for other in (two, dense):
        for a, b in zip(one.factors_, other.factors_, strict=True):
            np.testing.assert_array_equal(a, b)
    completed = dense.transform(TENSOR)
    assert completed.shape == TENSOR.shape
    assert np.all(np.isfinite(completed))


def test_two_fits_never_share_their_noise():
    for random_state in (None, 0):
        model = make(random_state=random_state)
        first = model.fit(COORDINATES, VALUES).factors_[0]
        second = model.fit(COORDINATES, VALUES).factors_[0]
        assert not np.array_equal(first, second)


def test_no_value_and_no_sum_survives_without_its_noise():
    values = VALUES.copy()
    values[::5] = 0.7234567
    exact, release = [], _noisy_sums.NoisySums.release

    def note(noise, parts, source):
        for rows, shape, contributions in parts:
            total = np.zeros(shape)
            np.add.at(total, rows, contributions(slice(None)))
            exact.append(total)
            step = noise.lattice.step
            exact.append(_noisy_sums.row_sums(rows, shape, contributions, step))
        return release(noise, parts, source)

    with mock.patch.object(_noisy_sums.NoisySums, "release", note):
        stored = pickle.dumps(make(random_state=None).fit(COORDINATES, values))
    secrets = [*values, *(2 * values - 1), values.sum(), values.mean()]
    secrets += [x for part in exact for x in part.ravel() if x != 0]
    assert len(secrets) > 200
    # Those that no other number could be by chance: some are a few whole steps.
    packed = {struct.pack("<d", secret) for secret in secrets}
    packed = [number for number in packed if number.count(0) <= 4]
    assert len(packed) > 100
    assert not any(number in stored for number in packed)
    assert b"7234567" not in stored


def test_an_interrupted_fit_counts_and_leaves_no_model():
    model = make().fit(COORDINATES, VALUES)
    release, calls = _noisy_sums.NoisySums.release, []

    def interrupted(noise, parts, source):
        calls.append(None)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return release(noise, parts, source)

    model.set_params(epsilon=3.0)
    with (
        mock.patch.object(_noisy_sums.NoisySums, "release", interrupted),
        pytest.raises(KeyboardInterrupt),
    ):
        model.fit(COORDINATES, VALUES)
    whole = make(epsilon=3.0).fit(COORDINATES, VALUES).privacy_guarantee_
    assert model.privacy_guarantee_ == whole
    assert not hasattr(model, "factors_")
    assert not hasattr(model, "_model")
    stored = pickle.dumps(model)
    assert not any(struct.pack("<d", value) in stored for value in VALUES)


def test_a_callback_that_ends_the_fit_leaves_the_guarantee_of_all():
    of = solver(2, max_iter=9)
    source = _random.NoiseSource(0, 0)
    asked = []

    def stop(step):
        asked.append(step)
        return step == 1

    released = of.release(np.zeros(8), source, stop)
    assert asked == [0, 1]
    assert np.all(np.isfinite(np.concatenate(released[1])))
    assert tools.gaussian_mus(of.guarantee.event)[0] > 3 / math.sqrt(
        of._noise.noise_variance
    )


@pytest.mark.filterwarnings("ignore::sktensordp.exceptions.PrivacyLeakWarning")
def test_a_range_read_off_the_values_voids_the_guarantee():
    with pytest.warns(PrivacyLeakWarning, match="read off the private values"):
        model = make(value_bounds=None).fit(COORDINATES, VALUES)
    assert model.privacy_guarantee_.epsilon == math.inf
    assert model.privacy_guarantee_.claimed == (1.0, 1e-6)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"delta": 0}, "delta > 0"),
        ({"delta": 1e-300}, "delta"),
        ({"epsilon": 1e-9}, "too small to be represented"),
        ({"epsilon": 2000.0}, "delta"),
        ({"smooth_modes": [1]}, "no smooth modes"),
        ({"rank": 0, "biases": False}, "nothing to fit"),
        ({"gradient_clip": 0.0}, "gradient_clip"),
    ],
)
def test_what_cannot_be_kept_is_refused_before_anything_is_drawn(
    params, message, monkeypatch
):
    def draw(*_):
        raise AssertionError("noise was drawn")

    monkeypatch.setattr(_random.NoiseSource, "stream", draw)
    with pytest.raises(ValueError, match=message):
        make(**params).fit(COORDINATES, VALUES)


def test_a_search_over_perturbations_counts_every_fit(monkeypatch):
    fits, fit = [], CPCompletion.fit

    def note(model, *args, **options):
        fitted = fit(model, *args, **options)
        fits.append(fitted.privacy_guarantee_)
        return fitted

    monkeypatch.setattr(CPCompletion, "fit", note)
    grid = {
        "perturbation": ["gradient", "statistics", "output", "sums"],
        "epsilon": [0.5, 2.0],
    }
    model = make(shape=TENSOR.shape)
    search = GridSearchCV(model, grid, cv=3, error_score="raise")
    search.fit(COORDINATES, VALUES)
    assert len(fits) == 8 * 3 + 1
    report = privacy_of(search)
    # One entry is in two of the three training parts, and in the refit.
    assert [count for _, count, _ in report.releases] == [2] * 8 + [1]
    seen = []
    for number, (_, count, planned) in enumerate(report.releases):
        for one in fits[3 * number : 3 * number + count]:
            seen.append(one)
            for at in (0.0, 0.2, 0.5, 2.0):
                assert planned.delta_at(at) >= one.delta_at(at) * (1 - 1e-9)
    total = compose(*seen)
    assert report.guarantee.epsilon_at(1e-4) >= total.epsilon_at(1e-4) * (1 - 1e-9)
    assert report.guarantee.epsilon_at(1e-4) > max(one.epsilon for one in fits)


@pytest.mark.parametrize("scale", [2.0**-10, 2.0**10])
def test_units_do_not_matter(scale):
    """Values over another range are fitted alike; a power of two keeps the noise."""
    one = make().fit(COORDINATES, VALUES).predict(COORDINATES)
    other = make(value_bounds=(0, scale)).fit(COORDINATES, scale * VALUES)
    found = other.predict(COORDINATES) / scale
    np.testing.assert_allclose(found, one, atol=1e-5)


@pytest.mark.parametrize("epsilon", [1e-4, 1.0, 300.0])
@pytest.mark.parametrize("clip", [1e-12, 1.0, 1e6])
def test_models_stay_finite(epsilon, clip):
    for order in (2, 3):
        model = make(epsilon=epsilon, gradient_clip=clip, max_iter=30)
        model.fit(WHERE[order], np.linspace(0, 1, len(WHERE[order])))
        assert all(np.all(np.isfinite(f)) for f in model.factors_)
        assert np.all(np.isfinite(model.predict(WHERE[order])))


class StopsAfterTwo:
    """A callback that ends a fit after its second iteration."""

    def __init__(self):
        self.seen = 0

    def setup(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context, **_):
        pass

    def on_fit_task_end(self, estimator, context, **_):
        self.seen += context.task_name == "sweep"
        return self.seen >= 2

    def teardown(self, estimator, context):
        pass


def test_a_fit_that_is_stopped_says_after_how_many_iterations():
    """The guarantee still counts all that were planned."""
    options = {"perturbation": "gradient", "value_bounds": (0, 1), "random_state": 0}
    model = CPCompletion(1, max_iter=6, **options).set_callbacks(StopsAfterTwo())
    model.fit([[0, 0], [1, 1]], [0.2, 0.8])
    assert model.n_iter_ == 2
    whole = CPCompletion(1, max_iter=6, **options).fit([[0, 0], [1, 1]], [0.2, 0.8])
    assert model.privacy_guarantee_ == whole.privacy_guarantee_
