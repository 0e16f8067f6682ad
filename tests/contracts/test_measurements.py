"""What every private completion promises, whatever it perturbs.

A new measurement takes one line in `MEASUREMENTS`. What is particular to a perturbation
is in tests/completion.
"""

import math
import pickle
import struct
import warnings
from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from sktensordp.audit import audit_mechanism
from sktensordp.completion import CPCompletion, TuckerCompletion
from sktensordp.exceptions import (
    BudgetExceededError,
    PrivacyLeakWarning,
)
from sktensordp.model_selection import UserKFold
from sktensordp.noise import GaussianLattice, LaplaceLattice
from sktensordp.papers import PublishedCPCompletion, PublishedTuckerCompletion
from sktensordp.privacy import PrivacyBudget, privacy_of
from tests.support.callbacks import Listener, needs_callbacks
from tests.support.divergence import gaussian_stick
from tests.support.noise import drawing
from tests.support.points import POINTS, original
from tests.support.refusing import refused
from tests.support.replaying import (
    accounted,
    data_of,
    largest_ratios,
    neighbours,
    recorded,
)

EPSILON, DELTA = 2.0, 1e-6


@dataclass(frozen=True)
class Measurement:
    """One way to fit a completion privately.

    Attributes
    ----------
    perturbation : str
    delta : float
        That it states.
    unit : "entry" or int
    published : bool
        Whether it is an algorithm of a paper as printed.
    sound : bool
        Whether what is claimed of it holds.
    sweeps : bool
        Whether callbacks hear of every iteration.
    forms : tuple of str
        Of the decompositions, those that it fits in ways of their own.
    """

    perturbation: str
    delta: float = 0.0
    unit: str | int = "entry"
    published: bool = False
    sound: bool = True
    sweeps: bool = False
    forms: tuple[str, ...] = ("CP",)

    def __str__(self):
        return f"{self.perturbation}-{self.unit}" + "-published" * self.published

    @property
    def relation(self):
        return "replace-one" if self.unit == "entry" else "add-or-remove"


BOTH = {"forms": ("CP", "Tucker")}
MEASUREMENTS = [
    Measurement("input", sweeps=True, **BOTH),
    Measurement("gradient", DELTA, sweeps=True, **BOTH),
    Measurement("output"),
    Measurement("statistics", **BOTH),
    Measurement("sums"),
    Measurement("auto"),
    Measurement("sums", DELTA, unit=0),
    Measurement("statistics", DELTA, unit=0, sweeps=True, **BOTH),
    Measurement("auto", DELTA, unit=0),
    Measurement("input", published=True, sweeps=True),
    Measurement("gradient", published=True, sound=False, sweeps=True, **BOTH),
    Measurement("output", published=True, sound=False, sweeps=True),
]
FORMS = {
    "CP": (CPCompletion, PublishedCPCompletion, 2),
    "Tucker": (TuckerCompletion, PublishedTuckerCompletion, (2, 3, 2)),
}
SOUND = [measurement for measurement in MEASUREMENTS if measurement.sound]


def in_every_form(measurements):
    cases = [
        (form, measurement)
        for measurement in measurements
        for form in measurement.forms
    ]
    return pytest.mark.parametrize(("form", "measurement"), cases, ids=str)


of_every_measurement = pytest.mark.parametrize("measurement", MEASUREMENTS, ids=str)
of_sound_measurements = pytest.mark.parametrize("measurement", SOUND, ids=str)
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

RNG = np.random.default_rng(0)
SHAPE = (5, 6, 4)
TENSOR = RNG.uniform(0, 1, SHAPE)
TENSOR[RNG.random(SHAPE) < 0.6] = np.nan
X = np.argwhere(~np.isnan(TENSOR))
Y = TENSOR[tuple(X.T)]


def make(measurement, form="CP", **params):
    *estimators, rank = FORMS[form]
    options = {
        "rank": rank, "epsilon": EPSILON, "delta": DELTA, "value_bounds": (0, 1),
        "shape": SHAPE, "max_iter": 3, "random_state": 0, "unit": measurement.unit,
        "perturbation": measurement.perturbation, "n_pattern_components": 0, **params,
    }  # fmt: skip
    estimator = estimators[measurement.published]
    known = estimator().get_params()
    return estimator(**{name: options[name] for name in options if name in known})


def others(measurement):
    """Other values; where users are protected, other entries altogether."""
    rng = np.random.default_rng(9)
    if measurement.unit == "entry":
        return X, rng.normal(0.3, 2.0, len(X))
    return X[::2] % [4, 6, 4], rng.uniform(0, 1, len(X[::2]))


def unknown(measurement):
    """Everywhere, but for an unknown user where users are protected."""
    everywhere = np.argwhere(np.ones(SHAPE))
    if measurement.unit != "entry":
        everywhere[:, measurement.unit] = -1
    return everywhere


# --- the guarantee -------------------------------------------------------------------


@pytest.mark.thorough_after_one
@in_every_form(MEASUREMENTS)
def test_the_guarantee_is_stated_before_any_data_are_seen(form, measurement):
    """It is the one that was asked for, and the same for all data."""
    model = make(measurement, form).fit(X, Y)
    found = model.privacy_guarantee_
    assert found.unit == measurement.unit
    assert found.relation == measurement.relation
    assert found.delta == measurement.delta
    assert privacy_of(model).guarantee == found
    assert clone(model).fit(*others(measurement)).privacy_guarantee_ == found
    if measurement.sound:
        assert 0.95 * EPSILON < found.epsilon <= EPSILON
        assert found.protects
        assert found.claimed is None
    else:
        assert found.epsilon == math.inf
        assert not found.protects
        assert found.claimed == (EPSILON, 0.0)
    allowed = {measurement.perturbation}
    if measurement.perturbation == "auto":
        allowed = {"input", "statistics", "sums"}
    assert model.perturbation_ in allowed


@of_every_measurement
def test_the_guarantee_is_recorded_before_any_noise_is_drawn(measurement):
    model = make(measurement)
    with PrivacyBudget(math.inf, 1e-3) as budget:
        seen = []
        with drawing(lambda _: seen.append(budget.spent)) as opened:
            model.fit(X, Y)
        assert opened
        assert set(map(str, seen)) == {str(budget.spent)}
        # Counted once.
        assert budget.spent.epsilon_at(1e-3) == model.privacy_guarantee_.epsilon_at(
            1e-3
        )


@of_every_measurement
def test_a_budget_that_is_too_small_leaves_everything_as_it_was(measurement):
    model = make(measurement).fit(X, Y)
    before = pickle.dumps(model)
    with (
        PrivacyBudget(0.5 * EPSILON, measurement.delta) as budget,
        drawing() as opened,
        recorded() as releases,
        pytest.raises(BudgetExceededError),
    ):
        model.fit(X, Y)
    assert not opened
    assert not releases.exact
    assert budget.spent is None
    assert pickle.dumps(model) == before


@of_sound_measurements
def test_a_search_counts_what_its_fits_take(measurement):
    folds = (
        2
        if measurement.unit == "entry"
        else UserKFold(2, mode=measurement.unit, random_state=0)
    )
    search = GridSearchCV(make(measurement), {"epsilon": [EPSILON]}, cv=folds).fit(X, Y)
    found = search.best_estimator_.privacy_guarantee_
    (_, of_folds, planned), (_, refit, _) = privacy_of(search).releases
    # In one of two training parts, and in the refit.
    assert (of_folds, refit) == (1, 1)
    for at in (0.0, EPSILON):
        assert planned.delta_at(at) >= found.delta_at(at) * (1 - 1e-9)


@pytest.mark.filterwarnings("ignore::sktensordp.exceptions.PrivacyLeakWarning")
@of_every_measurement
@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("value_bounds", "range of the values is read off the private values"),
        ("shape", "`shape` is not declared"),
    ],
)
def test_what_is_not_declared_voids_the_guarantee(missing, message, measurement):
    if missing == "shape" and measurement.unit == "entry":
        assert make(measurement, shape=None).fit(X, Y).privacy_guarantee_.delta < 1
        return
    if measurement.unit == "entry" and not measurement.published:
        pytest.skip("its scale is found, see below")
    model = make(measurement, **{missing: None})
    with pytest.warns(PrivacyLeakWarning, match=message) as caught:
        model.fit(X, Y)
    leaks = [one for one in caught if one.category is PrivacyLeakWarning]
    # Once, and at the line that called fit.
    assert [one.filename for one in leaks] == [__file__]
    found = model.privacy_guarantee_
    assert found.epsilon == math.inf
    assert not found.protects
    assert found.unit == measurement.unit
    assert found.claimed == (EPSILON, measurement.delta)
    assert found.delta_at(10.0) == 1
    assert "No differential privacy" in str(found)
    assert "read off" in found.statement or not measurement.sound
    # Noise there is all the same.
    with pytest.warns(PrivacyLeakWarning):
        again = make(measurement, **{missing: None}, random_state=1).fit(X, Y)
    at = unknown(measurement)
    assert np.any(model.predict(at) != again.predict(at))


@in_every_form([m for m in SOUND if m.unit == "entry" and not m.published])
def test_a_scale_that_is_not_declared_is_found_within_epsilon(form, measurement):
    with refused("too few to find their scale"):
        make(measurement, form, value_bounds=None).fit(X, Y)
    options = {"value_bounds": None, "epsilon": 50.0}
    model = make(measurement, form, **options).fit(X, Y)
    found = model.privacy_guarantee_
    assert found.epsilon <= 50.0
    assert found.delta == measurement.delta
    low, high = model.value_bounds_
    assert low <= Y.min() < Y.max() <= high
    if measurement.perturbation != "auto":
        assert model.perturbation_ == measurement.perturbation
    planned = make(measurement, form, **options).__privacy_plan__()
    for at in (0.0, 1.0, 10.0, 49.0, 50.0):
        assert planned.delta_at(at) >= found.delta_at(at) * (1 - 1e-9)


# --- what one value or user moves ----------------------------------------------------


@pytest.mark.thorough_after_one
@in_every_form(SOUND)
def test_one_unit_moves_all_releases_by_what_is_accounted_for(form, measurement):
    factor = 0.0 if form == "CP" else 1.0
    model, unit = make(measurement, form), measurement.unit
    where, data = data_of(SHAPE, unit)
    values = data["extreme"]
    changed = neighbours(where, values, unit, step=10)
    found = largest_ratios(model, (where, values), changed, factor=factor)
    found = found[~np.isnan(found)]
    assert np.all(found <= 1 + 1e-9)
    # Not much less, or noise is wasted.
    assert np.all(found > 0.8)
    # Which is what the guarantee says, of pure or of Gaussian releases at least.
    guarantee = model.fit(X, Y).privacy_guarantee_
    pure, mu = accounted(guarantee)
    if measurement.delta:
        for at in (0.0, EPSILON):
            assert guarantee.delta_at(at) >= gaussian_stick(mu, at) * (1 - 1e-9)
    else:
        assert mu == 0
        assert guarantee.epsilon == pytest.approx(pure, rel=1e-9)


# --- what gets out -------------------------------------------------------------------


@in_every_form(MEASUREMENTS)
def test_all_that_is_stored_is_a_function_of_the_releases(form, measurement):
    """Two data sets, the same releases: not a byte of what is stored differs."""
    # A CP with features of where there are entries, where these are public.
    model = make(measurement, form, n_pattern_components=2 if form == "CP" else 0)
    with recorded() as start:
        one = clone(model).fit(X, Y)
    with recorded(start) as found:
        two = clone(model).fit(*others(measurement))
    if not measurement.sound:
        # As is said of them: the data show beside what got noise.
        assert pickle.dumps(one) != pickle.dumps(two)
        return
    assert len(found.exact) == len(start.exact)
    assert np.any(start.flat != found.flat)
    assert pickle.dumps(one) == pickle.dumps(two)
    assert repr(one) == repr(two)
    assert str(privacy_of(one)) == str(privacy_of(two))
    assert vars(one).keys() == vars(two).keys()
    at = unknown(measurement)
    assert_array_equal(one.predict(at), two.predict(at))


@in_every_form(MEASUREMENTS)
def test_no_value_and_no_sum_is_stored(form, measurement):
    values = Y.copy()
    values[::5] = 0.7234567
    with recorded() as found:
        model = make(measurement, form, random_state=None).fit(X, values)
    stored = pickle.dumps(model)
    secrets = [*values, *(2 * values - 1), values.sum(), values.mean()]
    for lattice, parts in zip(found.lattices, found.exact, strict=True):
        if hasattr(lattice, "step"):
            secrets += [s * lattice.step for part in parts for s in part.ravel()]
    for mode in range(3):
        sums, counts = np.bincount(X[:, mode], values), np.bincount(X[:, mode])
        secrets += [*sums, *(sums / counts)]
    # Those that no other number could be by chance: some are a few whole steps.
    packed = {struct.pack("<d", secret) for secret in secrets}
    packed = [number for number in packed if number.count(0) <= 4]
    assert len(packed) > 80
    assert not any(number in stored for number in packed)
    assert b"7234567" not in stored


@of_every_measurement
def test_a_fit_without_noise_is_the_plain_one(measurement):
    """Infinite epsilon, against a large one with the noise left out."""
    large = 300.0 if measurement.delta else 1e4
    options = {"gradient_clip": 1e9} if measurement.published else {}
    model = make(measurement, epsilon=math.inf, **options)
    with drawing() as opened:
        free = model.fit(X, Y)
    # But for the start of what begins at random.
    assert bool(opened) == measurement.published
    found = free.privacy_guarantee_
    assert found.epsilon == math.inf
    assert not found.protects
    assert found.claimed is None
    with recorded(factor=0.0):
        # The same as "auto" takes there.
        silent = make(measurement, epsilon=large, **options)
        silent.set_params(perturbation=free.perturbation_).fit(X, Y)
    at = unknown(measurement)
    # Of users there are few for so much noise.
    tolerance = 5e-3 if measurement.unit == "entry" else 0.03
    assert_allclose(silent.predict(at), free.predict(at), atol=tolerance)
    assert np.std(free.predict(X)) > 0.05
    # Another range than the data's is not asked for, nor warned of.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "perturbation=.* does not use")
        clone(model).set_params(value_bounds=None, shape=None).fit(X, Y)


@pytest.mark.thorough_after_one
@in_every_form(MEASUREMENTS)
def test_every_release_has_a_key_of_its_own(form, measurement):
    model, at = make(measurement, form), unknown(measurement)
    found, opened = [], []
    for _ in range(2):
        with drawing() as streams:
            found.append(model.fit(X, Y).predict(at))
        assert len({key for key, _ in streams}) == 1
        opened += streams
    assert len(set(opened)) == len(opened)
    assert np.any(found[0] != found[1])
    # A fresh object repeats both of them, and None never does.
    again = clone(model)
    for expected in found:
        assert_array_equal(again.fit(X, Y).predict(at), expected)
    with drawing() as streams:
        for _ in range(2):
            clone(model).set_params(random_state=None).fit(X, Y)
    assert len(set(streams)) == len(streams)
    assert len({key for key, _ in streams}) == 2


@pytest.mark.thorough_after_one
@pytest.mark.parametrize("late", [False, True])
@of_every_measurement
def test_an_interrupted_fit_counts_and_leaves_nothing(measurement, late):
    model = make(measurement, epsilon=math.inf).fit(X, Y).set_params(epsilon=EPSILON)
    with drawing() as opened:
        whole = make(measurement).fit(X, Y)

    def interrupt(number):
        if number == (len(opened) - 1 if late else 0):
            raise KeyboardInterrupt

    with PrivacyBudget(math.inf, 1e-3) as budget:
        with drawing(interrupt), pytest.raises(KeyboardInterrupt):
            model.fit(X, Y)
        spent = whole.privacy_guarantee_
        assert budget.spent.epsilon_at(1e-3) == spent.epsilon_at(1e-3)
    # The statement cannot say yet what will be chosen.
    statement = model.privacy_guarantee_.statement
    assert model.privacy_guarantee_ == replace(spent, statement=statement)
    assert not hasattr(model, "factors_")
    assert not hasattr(model, "n_iter_")
    # No more than of other data.
    other = make(measurement, epsilon=math.inf).fit(X, Y).set_params(epsilon=EPSILON)
    with drawing(interrupt), pytest.raises(KeyboardInterrupt):
        other.fit(*others(measurement))
    assert pickle.dumps(model) == pickle.dumps(other)


# --- refusals ------------------------------------------------------------------------

BAD_DATA = {
    "outside": ([[0, 6, 0]], [0.123456789], "outside the tensor"),
    "far outside": ([[987654, 1, 0]], [0.5], "outside the tensor"),
    "negative": ([[-1, 0, 0]], [0.5], "Negative values"),
    "fraction": ([[0.123456789, 0, 0]], [0.5], "fractional"),
    "NaN coordinate": ([[np.nan, 0, 0]], [0.5], "NaN"),
    "NaN": ([[0, 0, 0]], [np.nan], "NaN"),
    "infinity": ([[0, 0, 0]], [np.inf], "infinity"),
    "words": ([[0, 0, 0]], ["12345 is secret"], "must hold numbers"),
    "column": ([[0]], [0.5], r"minimum of 2|is expecting"),
    "columns": ([[0, 0, 0, 0]], [0.5], r"has 4 (columns|features), but"),
    "lengths": ([[0, 0, 0]], [0.123456789, 0.123456789], "same length"),
}
BAD_PARAMS = {
    "epsilon of zero": {"epsilon": 0.0},
    "tiny epsilon": {"epsilon": 1e-300},
    "range": {"value_bounds": (1, 0)},
    "levels": {"levels": [1, 1], "value_bounds": None},
    "rank": {"rank": 20},
    "shape": {"shape": (5, 6)},
    "smooth mode that is not there": {"smooth_modes": [7]},
}


@pytest.mark.parametrize("way", ["fit", "fit_batches"])
@of_every_measurement
def test_bad_data_are_refused_and_not_shown(measurement, way):
    model = make(measurement).fit(X, Y)
    before = pickle.dumps(model)
    for bad, values, message in BAD_DATA.values():
        data = (bad, values) if way == "fit" else ([(X, Y), (bad, values)],)
        with refused(message, secret=("12345", "98765")):
            getattr(model, way)(*data)
        # Nothing of the earlier fit has changed.
        assert pickle.dumps(model) == before


@in_every_form(MEASUREMENTS)
def test_bad_parameters_are_refused_before_anything_is_drawn(form, measurement):
    bad = dict(BAD_PARAMS)
    if form == "CP":
        # It may have more terms than rows.
        del bad["rank"]
    if measurement.published:
        bad = {k: v for k, v in bad.items() if {*v} <= {"epsilon", "rank", "shape"}}
        bad["range"] = BAD_PARAMS["range"]
        bad["clip"] = {"gradient_clip": 0.0}
    elif measurement not in (MEASUREMENTS[0], MEASUREMENTS[5]):
        bad["smooth modes"] = {"smooth_modes": [1]}
    if measurement.delta:
        bad["delta"] = {"delta": 0.0}
        bad["tiny delta"] = {"delta": 1e-300}
    if measurement.perturbation == "sums":
        bad["nothing to fit"] = {"biases": False}
    values = np.full(len(Y), 0.123456789)
    model = make(measurement, form).fit(X, Y)
    fitted, attributes = pickle.dumps(model), model.get_params()
    for params in bad.values():
        model.set_params(**params)
        with refused(r".{20}", secret="0.12345"):
            model.fit(X, values)
        assert pickle.dumps(model.set_params(**attributes)) == fitted
        fresh = make(measurement, form, **params)
        with pytest.raises(ValueError, match=r".{20}"):
            fresh.fit(X, values)
        assert not hasattr(fresh, "privacy_guarantee_")


# --- the estimator -------------------------------------------------------------------


@pytest.mark.thorough_after_one
@in_every_form(MEASUREMENTS)
def test_the_fitted_object(form, measurement):
    for dtype in (np.float64, np.float32):
        model = make(measurement, form, value_bounds=(0.2, 0.8)).fit(X, Y.astype(dtype))
        at = unknown(measurement)
        found = model.predict(at)
        if measurement.unit == "entry":
            assert found.dtype == dtype
        assert np.all((found >= 0.2) & (found <= 0.8))
        loaded = pickle.loads(pickle.dumps(model))
        assert_array_equal(loaded.predict(at), found)
        assert loaded.privacy_guarantee_ == model.privacy_guarantee_
        assert str(loaded.privacy_guarantee_) == str(model.privacy_guarantee_)
        assert np.all(np.isfinite(model.predict([[-1, -1, -1], [0, -1, 2]])))
        assert len(model.recommend([0, 1], 3, context=[0])) == 2
    if measurement.perturbation != "auto":
        assert model.perturbation_ == measurement.perturbation
    # "auto" may choose it too.
    of_entries = measurement.unit == "entry" and not measurement.published
    streams = of_entries and model.perturbation_ == "input"
    assert hasattr(model, "partial_fit") == streams
    if not streams and model.perturbation_ != "input":
        with pytest.raises(ValueError, match="standard deviations"):
            model.predict(X, return_std=True)
    assert hasattr(model, "fold_in") != measurement.published
    assert clone(model).get_params() == model.get_params()


@pytest.mark.thorough_after_one
@in_every_form(MEASUREMENTS)
def test_batches_and_tensors_are_fitted_alike(form, measurement):
    one = make(measurement, form).fit(X, Y)
    batches = zip(np.array_split(X, 5), np.array_split(Y, 5), strict=True)
    two = make(measurement, form).fit_batches(batches)
    dense = make(measurement, form).fit(TENSOR)
    for other in (two, dense):
        assert_allclose(other.predict(X), one.predict(X), rtol=1e-9, atol=1e-12)
        assert other.privacy_guarantee_ == one.privacy_guarantee_
    assert_allclose(
        dense.transform(TENSOR)[tuple(X.T)], one.predict(X), rtol=1e-9, atol=1e-12
    )


@of_every_measurement
@needs_callbacks
def test_a_callback_that_ends_a_fit_leaves_the_guarantee_of_all(measurement):
    whole = make(measurement).fit(X, Y)
    model = clone(whole).set_callbacks(Listener(stop_after=2)).fit(X, Y)
    assert model.privacy_guarantee_ == whole.privacy_guarantee_
    assert np.all(np.isfinite(model.predict(X)))
    if measurement.sweeps:
        assert model.n_iter_ == 2 < whole.n_iter_


@pytest.mark.slow
@in_every_form(SOUND)
def test_models_stay_finite(form, measurement):
    """Of values that are all the same, and of one entry, for all epsilons."""
    options = {"learning_rate": 1e-6, "biases": measurement.perturbation == "sums"}
    for epsilon, n, values in ((1e-3, 1, Y), (300.0, len(Y), np.full(len(Y), 0.5))):
        model = make(measurement, form, epsilon=epsilon, **options).fit(
            X[:n], values[:n]
        )
        assert np.all(np.isfinite(model.predict(unknown(measurement))))


@of_sound_measurements
def test_the_scale_of_values_does_not_matter(measurement):
    """A power of two keeps the noise; likelihoods are found to some digits."""
    scale = 2.0**10
    if measurement.published:
        pytest.skip("its learning rate and regularization have a scale")
    at = unknown(measurement)
    one = make(measurement).fit(X, Y).predict(at)
    other = make(measurement, value_bounds=(0, scale)).fit(X, scale * Y).predict(at)
    assert_allclose(other / scale, one, atol=3e-3)


# --- audits --------------------------------------------------------------------------

# A false alarm in 1e-3 for all audits of this file together.
CONFIDENCE = 1 - 2e-4
AUDITED = [s for s in SOUND if s.unit == "entry" and not s.published][:5]


def audited(measurement, epsilon):
    """Everything that is released, on neighbours as different as can be."""
    model = make(
        measurement, rank=1, epsilon=epsilon, shape=(2, 2), random_state=None,
        max_iter=2, n_pattern_components=0,
    )  # fmt: skip
    X, guarantee = [[0, 0], [1, 1]], model.fit([[0, 0]], [0.5]).privacy_guarantee_

    def mechanism(values):
        with recorded() as found:
            model.fit(X, values)
        return found.transcript

    return audit_mechanism(
        mechanism, [0.0, 0.5], [1.0, 0.5], n_trials=120, confidence=CONFIDENCE,
        epsilon=guarantee.epsilon, delta=guarantee.delta,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("measurement", AUDITED, ids=str)
def test_releases_are_audited_below_the_guarantee(measurement):
    """What is fitted is a function of what is audited."""
    report = audited(measurement, 1.0)
    assert not report.violated, report


@pytest.mark.slow
@pytest.mark.parametrize("measurement", AUDITED[:2], ids=str)
def test_the_audit_would_notice_too_little_noise(measurement, monkeypatch):
    """A fortieth of it; the epsilon that it is shown to have is above."""
    for lattice in (LaplaceLattice, GaussianLattice):

        def too_little(self, values, bits, *args, randomize=lattice.randomize, **to):
            before = values.copy()
            noisy = before + (randomize(self, values, bits, *args, **to) - before) / 40
            if to.get("out") is not None:
                to["out"][...] = noisy
            return noisy

        monkeypatch.setattr(lattice, "randomize", too_little)
    draws = original("draws of a table")

    def too_certain(bits, weights, rows):
        # All odds within a row to the power of 40.
        shares = (weights / weights.max(axis=1, keepdims=True)) ** 40
        shares /= shares.sum(axis=1, keepdims=True)
        others = np.rint(shares * 2.0**40).astype(np.int64)
        others[range(len(others)), others.argmax(axis=1)] += 2**40 - others.sum(axis=1)
        return draws(bits, others, rows)

    monkeypatch.setattr(*POINTS["draws of a table"], too_certain)
    report = audited(measurement, 1.0)
    assert report.violated, report
