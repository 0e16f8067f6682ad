"""Perturbation of statistics and output: what one value moves, and audits."""

import math
import pickle
import struct
from unittest import mock

import numpy as np
import pytest
from sklearn.base import clone

from sktensordp import _random
from sktensordp.audit import audit_mechanism
from sktensordp.completion import CPCompletion, _blocks, _noisy_sums, _sums
from sktensordp.datasets import make_low_rank_tensor
from sktensordp.exceptions import PrivacyLeakWarning
from sktensordp.noise import LaplaceLattice
from sktensordp.tensor import TuckerForm
from tests.completion import test_noisy_sums as tools

WHERE, SHAPES, make, solver_of = tools.WHERE, tools.SHAPES, tools.make, tools.solver_of
NAMES = ["statistics", "output"]
# Of the four rows of the second mode and of an unknown one. One row is zero, so that an
# entry may have no weight at all, and they are of very different lengths.
FEATURES = np.array([[0.3, -1.0], [0.0, 0.0], [20.0, 0.5], [0.01, 0.02], [0.0, 0.0]])
# Audits of this file raise a false alarm with probability at most 1e-3 together.
CONFIDENCE = 1 - 1e-4


def solver(name, order, form="cp", **params):
    where, shape = WHERE[order], SHAPES[order]
    params = {"n_pattern_components": 0, **params}
    ranks = None
    if form == "tucker":
        ranks = tools.RANKS[order] if params.get("rank", 2) else (0,) * order
    return solver_of(make(name, shape=shape, **params), where, shape, ranks)


def with_features(name, order, features, **params):
    """A solver whose pattern has given features."""
    of = solver(name, order, n_pattern_components=2, **params)
    with tools.features_are(features):
        assert of.problem.features is not None
    return of


def unit_steps(noise, n_columns):
    """The distance, in whole steps, that is accounted for."""
    ((event, _),) = tools.leaves(noise.event)
    assert event.noise_parameter == noise.lattice.rate
    # Contributions one apart in L1, and one step for every sum that is rounded.
    assert event.sensitivity >= 1 / noise.lattice.step + n_columns
    assert event.sensitivity < 1.01 / noise.lattice.step + n_columns + 2
    return event.sensitivity


# --- what one value moves ----------------------------------------------------------

DOMAINS = {
    "biases": {"rank": 2},
    "no biases": {"rank": 2, "biases": False},
    "levels": {"rank": 1, "value_bounds": None, "levels": [0.0, 0.25, 1.0]},
}


def check_sensitivity(of, order, factor, **options):
    """Largest distance in L1, over all neighbours, in what is accounted for."""
    start, largest = tools.largest_distance(
        of, WHERE[order], 1, factor=factor, **options
    )
    noise = start.noise[0]
    assert all(one is noise for one in start.noise)
    n_columns = max(sums.shape[1] for (sums,) in start.exact)
    return largest / noise.lattice.step / unit_steps(noise, n_columns)


@pytest.mark.parametrize("factor", [0.0, 1.0, 1e3])
@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("domain", [*DOMAINS])
@pytest.mark.parametrize("form", ["cp", "tucker"])
@pytest.mark.parametrize("name", NAMES)
def test_one_value_moves_the_sums_by_one(name, form, domain, order, factor):
    """In L1, for all entries and trajectories; of the row of the value alone."""
    of = solver(name, order, form, **DOMAINS[domain])
    used = check_sensitivity(of, order, factor)
    # Every mode, and the core, whose one row all values are in.
    assert len(used) == order + (form == "tucker")
    assert np.all(used <= 1)
    # So that nothing is wasted. Noise may put all residuals on one side; and around
    # their mean alone, those of one side do not reach the clip.
    if factor == 0.0:
        assert np.all(used > (0.7 if domain == "no biases" else 0.9))


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("name", NAMES)
def test_one_value_moves_the_sums_of_features_by_one(name, order):
    for factor in (0.0, 1.0, 1e3):
        of = with_features(name, order, FEATURES)
        used = check_sensitivity(of, order, factor)
        # One release, of the first mode's rows.
        assert len(used) == 1
        assert used[0] <= 1
        if factor == 0.0:
            assert used[0] > 0.9


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("name", NAMES)
def test_twice_the_contributions_would_be_noticed(name, order):
    for of in (solver(name, order), with_features(name, order, FEATURES)):
        assert check_sensitivity(of, order, 0.0, wrong=2.0).max() > 1.5
    # In every block of a Tucker, the core included.
    of = solver(name, order, "tucker")
    assert check_sensitivity(of, order, 0.0, wrong=2.0).min() > 1.5


@pytest.mark.parametrize("name", NAMES)
def test_lengths_in_the_wrong_norm_would_be_noticed(name, monkeypatch):
    """Of L2, which Laplace noise in every sum does not hide."""
    release = _blocks.Block.release

    def in_l2(block, residuals, noise, source):
        def length(x, *args, **kwargs):
            # A vector whose entries all are its share of the L2 norm.
            size = np.linalg.norm(x, axis=-1, keepdims=True)
            return np.broadcast_to(size / x.shape[-1], x.shape)

        with mock.patch.object(_blocks.np, "abs", length):
            return release(block, residuals, noise, source)

    monkeypatch.setattr(_blocks.Block, "release", in_l2)
    found = check_sensitivity(solver(name, 2, rank=3), 2, 0.0)
    assert found.max() > 1.2


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("form", ["cp", "tucker"])
def test_releases_are_those_of_the_event(form, order, biases, name):
    planned = {}

    def plan(*args, **sizes):
        planned.update(sizes)
        return _noisy_sums.plan_laplace_sums(*args, **sizes)

    with mock.patch.object(_blocks, "plan_laplace_sums", plan):
        of = solver(name, order, form, biases=biases)
        values = np.linspace(0, 1, len(WHERE[order]))
        found = tools.run(of, values)
    n_releases = len(found.exact)
    assert n_releases == planned["n_releases"]
    sizes = [sums.shape for (sums,) in found.exact]
    assert sizes == of.problem.form.blocks(SHAPES[order])
    assert planned["n_entries"] == len(values)
    for _, changed in tools.neighbours_of(values):
        other = tools.run(of, changed, follow=found)
        for mine, theirs in zip(found.exact, other.exact, strict=True):
            moved = sum(
                np.count_nonzero(a != b) for a, b in zip(mine, theirs, strict=True)
            )
            assert moved <= planned["n_changed"]
    (first, n_first), (event, count) = tools.leaves(of.guarantee.event)
    assert count == n_releases
    assert event.noise_parameter == found.noise[0].lattice.rate
    # The sums of each mode, or the one of all.
    assert n_first == (order if biases else 1)
    assert first.noise_parameter == found.first_lattice.rate
    assert first.sensitivity == found.first_lattice.n_steps
    # Pure, and all of it spent.
    spent = count * event.sensitivity * event.noise_parameter
    spent += n_first * first.sensitivity * first.noise_parameter
    assert spent <= 1.0
    assert spent > 0.999
    assert of.guarantee.delta == 0
    assert spent * (1 - 1e-9) <= of.guarantee.epsilon <= 1.0


@pytest.mark.parametrize("name", NAMES)
def test_with_features_one_release_is_counted(name):
    of = with_features(name, 3, FEATURES)
    found = tools.run(of, np.linspace(0, 1, 7))
    assert [part.shape for part in found.exact[0]] == [(3, 2)]
    assert len(found.exact) == 1
    assert [count for _, count in tools.leaves(of.guarantee.event)] == [3, 1]
    assert of.guarantee.epsilon == pytest.approx(1.0, rel=1e-3)


@pytest.mark.parametrize("form", ["cp", "tucker"])
@pytest.mark.parametrize("name", NAMES)
def test_biases_alone_have_all_of_the_budget(name, form):
    of = solver(name, 2, form, rank=0)
    found = tools.run(of, np.linspace(0, 1, 8))
    assert not found.exact
    assert [count for _, count in tools.leaves(of.guarantee.event)] == [2]
    assert of.guarantee.epsilon == pytest.approx(1.0, rel=1e-3)


def test_solutions_are_those_of_ridge_regressions():
    """What "output" releases, without noise, by the normal equations of each row."""
    of = solver("output", 2)
    found = tools.run(of, np.linspace(0, 1, 8), factor=0.0)
    noise, problem = found.noise[0], of.problem
    step = noise.lattice.step
    first = of.sums.complete((found.first_output, np.dtype(float)), None)
    values = np.linspace(0, 1, 8) - first.offset - first.model.predict(WHERE[2])
    clip = 0.5 * problem.scale
    values = np.clip(values / clip, -1, 1)
    ridge = first.model.noise_variance / problem.scale**2 / 0.05
    other = np.random.default_rng(0)
    other.standard_normal((3, 2))
    columns = other.standard_normal((4, 2))
    for row in range(3):
        own = WHERE[2][:, 0] == row
        h = columns[WHERE[2][own, 1]]
        inverse = np.linalg.inv(h.T @ h + ridge * np.eye(2))
        q = h @ inverse
        solution = inverse @ h.T @ values[own]
        unit = 2 * np.abs(q).sum(axis=1).max()
        np.testing.assert_allclose(
            found.exact[0][0][row] * step * unit, solution, atol=1e-5
        )


# --- audits ------------------------------------------------------------------------

X, LOW, HIGH = [[0, 0], [1, 1]], [0.0, 0.5], [1.0, 0.5]


def transcript_audit(name, epsilon, *, n_trials=160, **params):
    """Everything that the blocks hand on, sums included, on worst-case neighbours."""
    model = make(name, epsilon=epsilon, rank=1, n_pattern_components=0, **params)
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
            outcome, *_ = of.release(np.array(values), source, lambda _: False)
        means = outcome.model.means.ravel()
        return np.concatenate([[outcome.offset], means, *(s.ravel() for s in sums)])

    return audit_mechanism(
        mechanism, LOW, HIGH, n_trials=n_trials, confidence=CONFIDENCE,
        epsilon=of.guarantee.epsilon, delta=0.0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "biases"), [("statistics", False), ("output", False), ("output", True)]
)
def test_the_releases_are_audited_below_the_guarantee(name, biases):
    """The fitted object is a function of what is audited."""
    assert not transcript_audit(name, 1.0, biases=biases).violated


def test_the_audit_would_notice_too_little_noise(monkeypatch):
    """A fortieth of the noise; the epsilon that it is shown to have is above."""
    randomize = LaplaceLattice.randomize

    def too_little(lattice, values, bits, out=None):
        noisy = randomize(lattice, values.copy(), bits)
        values += (noisy - values) / 40
        return values

    monkeypatch.setattr(LaplaceLattice, "randomize", too_little)
    report = transcript_audit("statistics", 1.0, biases=False)
    assert report.violated, report


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

    monkeypatch.setattr(LaplaceLattice, "randomize", silent)
    plan = _blocks.plan_laplace_sums

    def without(*args, **sizes):
        found = plan(*args, **sizes)
        return _noisy_sums.NoisySums(found.lattice, 0.0, found.event)

    monkeypatch.setattr(_blocks, "plan_laplace_sums", without)


@pytest.mark.parametrize(
    "params",
    [{}, {"biases": False}, {"n_pattern_components": 0}],
    ids=["biases", "no biases", "no features"],
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", NAMES)
def test_infinite_epsilon_is_the_fit_without_noise(name, dtype, params, monkeypatch):
    values = VALUES.astype(dtype)
    free = make(name, epsilon=math.inf, **params).fit(COORDINATES, values)
    free = free.predict(COORDINATES)
    assert free.dtype == dtype
    noiseless(monkeypatch)
    # Enough for as many rounds.
    silent = make(name, epsilon=200.0, **params).fit(COORDINATES, values)
    np.testing.assert_allclose(silent.predict(COORDINATES), free, atol=2e-3)
    assert silent.privacy_guarantee_.epsilon <= 200.0


@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_infinite_epsilon_is_a_tucker_without_noise(name, biases, monkeypatch):
    shape, ranks = TENSOR.shape, (2, 3, 2)

    def fitted(epsilon):
        model = make(name, epsilon=epsilon, biases=biases, n_pattern_components=0)
        of = solver_of(model, COORDINATES, shape, ranks)
        return tools.predicted(of, VALUES), len(of._blocks)

    (free, n_blocks) = fitted(math.inf)
    noiseless(monkeypatch)
    # Enough for as many rounds.
    (silent, n_others) = fitted(2000.0)
    assert n_blocks == n_others == 8 * 4
    np.testing.assert_allclose(silent, free, atol=2e-3)
    assert np.std(free) > 0.03


def test_rounds_of_tuckers_come_later():
    """In ranks, rows of the core are longer: 27 numbers, not 3, for a rank of three."""
    for epsilon, rounds in ((0.1, 1), (287.0, 1), (288.0, 2), (math.inf, 8)):
        model = make(epsilon=epsilon, perturbation="statistics", n_pattern_components=0)
        of = solver_of(model, COORDINATES, TENSOR.shape, (3, 3, 3))
        assert of._blocks == rounds * [0, 1, 2, 3]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("epsilon", [1e4, math.inf])
def test_a_tucker_tensor_is_found(name, epsilon):
    """By blocks alone, from a start at random, with little noise and without."""
    shares = []
    for seed in range(6):
        made = make_low_rank_tensor(decomposition="tucker", random_state=seed)
        model = make(name, epsilon=epsilon, biases=False)
        of = solver_of(model, made.data, made.shape, (3, 3, 3))
        found = tools.predicted(of, made.target)
        truth = made.truth[tuple(made.data.T)]
        shares.append(np.std(found - truth) / np.std(truth))
    assert np.mean(shares) < 0.5
    assert max(shares) < 0.95


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("epsilon", [1e-4, 1.0, 1000.0, math.inf])
def test_tuckers_stay_finite(name, epsilon):
    """Also of values that are all the same, and of one entry."""
    for order in (2, 3):
        n, ranks = len(WHERE[order]), tools.RANKS[order]
        for values in (np.linspace(0, 1, n), np.full(n, 0.5), np.ones(1)):
            for biases in (True, False):
                model = make(
                    name, epsilon=epsilon, biases=biases, n_pattern_components=0
                )
                where = WHERE[order][: len(values)]
                of = solver_of(model, where, SHAPES[order], ranks)
                assert np.all(np.isfinite(tools.predicted(of, values)))


def test_regressors_do_not_depend_on_what_they_are_computed_with():
    """Bit for bit, where they cancel: lengths are known from other slices."""
    rng, form = np.random.default_rng(0), TuckerForm((2, 3, 4, 2))
    shape = (5, 6, 4, 3)
    blocks = [rng.standard_normal(block) for block in form.blocks(shape)]
    for own in blocks:
        own[:, -1] = -own[:, :-1].sum(axis=1)
    where = np.column_stack([rng.integers(0, n, 50) for n in shape])
    rows = form.rows(where)
    for block in range(5):
        whole = form.regressors(block, blocks, rows)
        for size in (1, 7):
            parts = [
                form.regressors(block, blocks, [own[at : at + size] for own in rows])
                for at in range(0, 50, size)
            ]
            np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_what_rounding_adds_to_weights_is_cut_off(monkeypatch):
    """Weights that come out longer than when their lengths were found."""
    weights = _blocks.Block.weights

    def longer(block, part):
        found = weights(block, part)
        return found * (1.0 if part.stop > len(WHERE[3]) else 1.7)

    monkeypatch.setattr(_blocks.Block, "weights", longer)
    used = check_sensitivity(solver("statistics", 3, "tucker"), 3, 0.0)
    assert 0.9 < used.max() <= 1


def test_normalizing_a_tucker_leaves_its_direction():
    """Its values but for their scale; and columns are orthogonal, of mean square 1."""
    rng = np.random.default_rng(0)
    form, where = TuckerForm((2, 3, 2)), WHERE[3]
    blocks = [rng.standard_normal(block) for block in form.blocks(SHAPES[3])]
    # Of two directions alone.
    blocks[1][:, 2] = blocks[1][:, 0] + 1e-3 * blocks[1][:, 1]
    rows = form.rows(where)

    def values():
        return np.sum(form.regressors(3, blocks, rows) * blocks[3], axis=1)

    before = values()
    for block in range(4):
        form.normalize(block, blocks)
        scale = np.linalg.norm(values()) / np.linalg.norm(before)
        np.testing.assert_allclose(values(), scale * before, rtol=1e-6, atol=1e-9)
        assert np.sum(blocks[3] ** 2) == pytest.approx(2)
    for block, n_directions in enumerate((2, 2, 2)):
        gram = blocks[block].T @ blocks[block] / SHAPES[3][block]
        expected = np.r_[np.zeros(len(gram) - n_directions), np.ones(n_directions)]
        np.testing.assert_allclose(gram, np.diag(expected), atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_rounds_come_with_epsilon(name):
    """Every mode is fitted again for every 16 of it, eight times at most."""
    for epsilon, rounds in ((0.1, 1), (31.9, 1), (32, 2), (1000, 8), (math.inf, 8)):
        model = make(name, epsilon=epsilon, n_pattern_components=0)
        assert model.fit(COORDINATES, VALUES).n_iter_ == rounds * len(TENSOR.shape)


@pytest.mark.parametrize("name", NAMES)
def test_a_tensor_of_low_rank_is_found_without_noise(name):
    """By blocks alone, from factors that start at random; not always all of it."""
    shares = []
    for seed in range(6):
        made = make_low_rank_tensor(random_state=seed)
        model = CPCompletion(
            3, perturbation=name, epsilon=math.inf, biases=False, value_bounds=(0, 1)
        ).fit(made.data, made.target)
        found = model.predict(np.argwhere(np.ones(made.shape)))
        shares.append(np.std(found - made.truth.ravel()) / np.std(made.truth))
    assert np.mean(shares) < 0.55
    assert max(shares) < 0.75


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_fitted_object(name, dtype):
    model = make(name, shape=TENSOR.shape).fit(COORDINATES, VALUES.astype(dtype))
    assert model.perturbation_ == name
    assert model.predict(COORDINATES).dtype == dtype
    low, high = model.value_bounds_
    rebuilt = model.offset_ + np.sum(
        np.prod([f[c] for f, c in zip(model.factors_, COORDINATES.T, strict=True)], 0),
        axis=1,
    )
    np.testing.assert_allclose(
        model.predict(COORDINATES), np.clip(rebuilt, low, high), rtol=1e-5, atol=1e-6
    )
    # Rows of which nothing is known.
    assert np.all(np.isfinite(model.predict([[-1, -1, -1], [0, -1, 2]])))
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(COORDINATES), model.predict(COORDINATES))
    with pytest.raises(ValueError, match="standard deviations"):
        model.predict(COORDINATES, return_std=True)
    with pytest.raises(AttributeError, match="partial_fit"):
        model.partial_fit(COORDINATES, VALUES)
    assert clone(model).get_params()["perturbation"] == name


@pytest.mark.parametrize("name", NAMES)
def test_batches_and_dense_tensors_are_fitted_alike(name):
    model = make(name, shape=TENSOR.shape)
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


@pytest.mark.parametrize("name", NAMES)
def test_no_value_and_no_sum_survives_without_its_noise(name):
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

    model = make(name, random_state=None, n_pattern_components=0)
    with mock.patch.object(_noisy_sums.NoisySums, "release", note):
        stored = pickle.dumps(model.fit(COORDINATES, values))
    secrets = [*values, *(2 * values - 1), values.sum(), values.mean()]
    for mode in range(3):
        sums = np.bincount(COORDINATES[:, mode], values)
        secrets += [*sums, *(sums / np.bincount(COORDINATES[:, mode]))]
    secrets += [x for part in exact for x in part.ravel() if x != 0]
    assert len(secrets) > 200
    # Those that no other number could be by chance: some are a few whole steps.
    packed = {struct.pack("<d", secret) for secret in secrets}
    packed = [number for number in packed if number.count(0) <= 4]
    assert len(packed) > 100
    assert not any(number in stored for number in packed)
    assert b"7234567" not in stored


@pytest.mark.parametrize("name", NAMES)
def test_an_interrupted_fit_counts_and_leaves_no_model(name):
    model = make(name, n_pattern_components=0).fit(COORDINATES, VALUES)
    release, calls = _noisy_sums.NoisySums.release, []

    def interrupted(noise, parts, source):
        calls.append(None)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return release(noise, parts, source)

    model.set_params(epsilon=3.0)
    with (
        mock.patch.object(_noisy_sums.NoisySums, "release", interrupted),
        pytest.raises(KeyboardInterrupt),
    ):
        model.fit(COORDINATES, VALUES)
    whole = clone(model).fit(COORDINATES, VALUES).privacy_guarantee_
    assert model.privacy_guarantee_ == whole
    assert whole.epsilon == pytest.approx(3.0, rel=1e-3)
    assert not hasattr(model, "factors_")
    assert not hasattr(model, "_model")
    stored = pickle.dumps(model)
    assert not any(struct.pack("<d", value) in stored for value in VALUES)


@pytest.mark.parametrize("name", NAMES)
def test_delta_is_not_used(name):
    one = make(name, delta=0).fit(COORDINATES, VALUES)
    two = make(name, delta=1e-3).fit(COORDINATES, VALUES)
    np.testing.assert_array_equal(one.predict(COORDINATES), two.predict(COORDINATES))
    assert one.privacy_guarantee_.delta == two.privacy_guarantee_.delta == 0


@pytest.mark.filterwarnings("ignore::sktensordp.exceptions.PrivacyLeakWarning")
@pytest.mark.parametrize("name", NAMES)
def test_a_range_read_off_the_values_voids_the_guarantee(name):
    with pytest.warns(PrivacyLeakWarning, match="read off the private values"):
        model = make(name, value_bounds=None).fit(COORDINATES, VALUES)
    assert model.privacy_guarantee_.epsilon == math.inf
    assert model.privacy_guarantee_.claimed == (1.0, 0.0)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"epsilon": 1e-12}, "too small to be represented"),
        ({"smooth_modes": [1]}, "no smooth modes"),
        ({"rank": 0, "biases": False}, "nothing to fit"),
    ],
)
def test_what_cannot_be_kept_is_refused_before_anything_is_drawn(
    params, message, name, monkeypatch
):
    def draw(*_):
        raise AssertionError("noise was drawn")

    monkeypatch.setattr(_random.NoiseSource, "stream", draw)
    with pytest.raises(ValueError, match=message):
        make(name, **params).fit(COORDINATES, VALUES)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scale", [2.0**-10, 2.0**10])
def test_units_do_not_matter(name, scale):
    """Values over another range are fitted alike; a power of two keeps the noise."""
    one = make(name).fit(COORDINATES, VALUES).predict(COORDINATES)
    other = make(name, value_bounds=(0, scale)).fit(COORDINATES, scale * VALUES)
    found = other.predict(COORDINATES) / scale
    # As far as the likelihood's maximum is found.
    np.testing.assert_allclose(found, one, atol=3e-3)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("epsilon", [1e-4, 1.0, 300.0, math.inf])
def test_models_stay_finite(name, epsilon):
    """Also of values that are all the same, and of one entry."""
    for order in (2, 3):
        for values in (np.linspace(0, 1, len(WHERE[order])), np.ones(1)):
            where = WHERE[order][: len(values)]
            model = make(name, epsilon=epsilon, rank=1).fit(where, values)
            assert all(np.all(np.isfinite(f)) for f in model.factors_)
        model = make(name, epsilon=epsilon).fit(
            WHERE[order], np.full(len(WHERE[order]), 0.5)
        )
        assert np.all(np.isfinite(model.predict(WHERE[order])))
