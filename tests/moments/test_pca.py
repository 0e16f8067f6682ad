"""`MultilinearPCA`: what it reveals, what it finds, and how it is used."""

import logging
import math
import pickle
from dataclasses import replace
from functools import partial
from unittest import mock

import numpy as np
import pytest
from dp_accounting import dp_event
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from tensorly.decomposition import partial_tucker

from sktensordp.audit import audit_mechanism
from sktensordp.mechanisms import GaussianMechanism
from sktensordp.model_selection import (
    PrivateSearchCV,
    epsilon_needed,
    expected_error,
)
from sktensordp.moments import MultilinearPCA, fit_aggregated, party
from sktensordp.privacy import (
    PrivacyBudget,
    epsilon_per_release,
    planned_guarantee,
    privacy_of,
)
from tests.support import divergence
from tests.support.noise import drawing
from tests.support.replaying import accounted, largest_ratios, recorded
from tests.support.requests import Sums, header, setting, with_array
from tests.support.seams import Question, Spectrum, shares_of_modes

DIGITS = load_digits()
IMAGES = DIGITS.images / np.linalg.norm(DIGITS.images, axis=(1, 2), keepdims=True)
FEW = pytest.mark.filterwarnings("ignore:The fit got:UserWarning")
make = partial(MultilinearPCA, norm_bound=1.0, random_state=0)
free = partial(MultilinearPCA, epsilon=math.inf)
WAYS = {
    "modes": {"n_components": (2, 3)},
    "any": {},
    "core": {"n_components": 3},
    "centred": {"n_components": (2, 2), "center": True},
    "centred core": {"n_components": 4, "center": True},
}
ways = pytest.mark.parametrize("way", WAYS)


def people(n=8, shape=(3, 4), seed=0):
    """Samples of length 1 and longer."""
    X = np.random.default_rng(seed).standard_normal((n, *shape))
    return X * np.linspace(0.2, 3, n)[:, None, None] / np.linalg.norm(X[0])


def same(one, other):
    assert one.method_ == other.method_
    for mine, theirs in zip(one.components_, other.components_, strict=True):
        assert_array_equal(mine, theirs)
    assert_array_equal(one.mean_, other.mean_)
    if one.rotation_ is not None:
        assert_array_equal(one.rotation_, other.rotation_)


# --- which samples there are ----------------------------------------------------------


@pytest.mark.parametrize("axes", [(1, 2, 0), (1, 0, 2)])
def test_samples_along_another_axis_are_told(axes, caplog):
    X = np.random.default_rng(0).standard_normal((300, 8, 8)).transpose(axes)
    size = f"{len(X)} samples of shape {X.shape[1:]}"
    for fit in (
        lambda: make((1, 1)).fit(X),
        lambda: make((1, 1), epsilon=math.inf).fit(X),
        lambda: make((1, 1)).fit_batches([X[:3], X[3:]]),
        lambda: make((1, 1)).fit_batches(iter([X[:3], X[3:]])),
    ):
        caplog.clear()
        with (
            caplog.at_level(logging.INFO, "sktensordp"),
            pytest.warns(
                UserWarning, match="fewer than its longest.*np.moveaxis"
            ) as told,
        ):
            model = fit()
        assert any(size in str(one.message) for one in told)
        assert f"MultilinearPCA: {size}" in caplog.messages
    assert size not in model.privacy_guarantee_.statement  # counted after the record


def test_the_guarantee_says_how_many_samples_of_which_shape_there_were():
    X = people()
    found = {"norm_bound": None, "epsilon": 100.0}
    for params in ({}, found, {"epsilon": math.inf}):
        guarantee = make(**params).fit(X).privacy_guarantee_
        assert "8 samples of shape (3, 4)" in guarantee.statement


# --- what it reveals -----------------------------------------------------------------


def neighbours(X):
    """One sample replaced: by its opposites, by zeros, and by extreme ones."""
    size = X[0].size
    corner, last = np.eye(size)[[0, -1]].reshape(2, *X[0].shape)
    for new in (
        -X[3], np.zeros(X[0].shape), corner, last, corner + last, corner - last,
        np.full(X[0].shape, np.finfo(float).max), 1e-300 * last,
    ):  # fmt: skip
        changed = X.copy()
        changed[3] = new
        yield (changed.copy(),)
        # Other bits of all samples would be another data set.
        changed[3] = changed[3].clip(-1e30, 1e30).astype(np.float32)
        yield (changed,)


def extreme(shape=(3, 4)):
    """Samples of which one is at a corner."""
    X = people(shape=shape)
    X[3] = 0
    X[3].flat[0] = 1
    return X


@ways
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_one_sample_moves_releases_by_what_is_accounted(way, epsilon):
    model = make(**WAYS[way], epsilon=epsilon)
    X = extreme()
    _, ratio = largest_ratios(model, (X,), neighbours(X))
    assert ratio <= 1
    if way in ("modes", "any"):
        assert ratio > 0.999


@pytest.mark.parametrize("shape", [(6,), (2, 3, 2)])
def test_the_same_of_samples_of_other_orders(shape):
    X = np.random.default_rng(1).standard_normal((8, *shape))
    X[3] = 0
    X[3].flat[0] = 1
    _, ratio = largest_ratios(make(), (X,), neighbours(X))
    assert 0.999 < ratio <= 1


@FEW
def test_one_of_the_largest_samples_does_not_show():
    """Of 2^20 cells, all at the bound; unclipped, it would be the first component.

    False alarms: below 1e-15, by the share of each sphere so near a pole.
    """
    X = np.zeros((3, 128, 128, 64))
    X[2] = 1
    components = make((1, 1, 1)).fit(X).components_
    cosines = [abs(c.sum()) / math.sqrt(len(c)) for c in components]
    assert math.prod(cosines) < 0.5


def test_twice_the_sum_is_noticed():
    X = extreme()
    _, ratio = largest_ratios(make(), (X,), neighbours(X), wrong=2)
    assert ratio > 1.9


@ways
@pytest.mark.parametrize("epsilon", [0.25, 1.0, 16.0])
def test_the_guarantee_is_that_of_the_noise(way, epsilon):
    """By an integral of two normal densities, with nothing of the package."""
    model = make(**WAYS[way], epsilon=epsilon, delta=1e-5)
    with recorded() as found:
        guarantee = model.fit(people()).privacy_guarantee_
    # All that may be rounded: a mean, moments of modes, and those again or of a core.
    rounded = (12 if model.center else 0) + 6 + 10 + 78
    largest = 1 + found.step * math.sqrt(rounded)
    mu = largest / found.sigma
    delta = divergence.gaussian_stick(mu, epsilon)
    assert 0.99 * 1e-5 < delta <= 1e-5
    assert divergence.gaussian_stick(2 * mu, epsilon) > 2e-5
    assert accounted(guarantee)[1] == pytest.approx(mu, rel=1e-6)
    assert (guarantee.epsilon, guarantee.delta) == (epsilon, 1e-5)
    assert (guarantee.unit, guarantee.relation) == ("sample", "replace-one")
    assert not guarantee.local


@ways
def test_noise_has_the_stated_size(way):
    """False alarms: below 1e-9 a way, by a chi-squared distribution."""
    model, draws = make(**WAYS[way]), []
    for seed in range(60):
        with recorded() as found:
            clone(model).set_params(random_state=seed).fit(people())
        for exact, output in zip(found.exact, found.outputs, strict=True):
            noise = output[0] / found.step - exact[0]
            draws.append(noise * found.step / found.sigma)
    draws = np.concatenate(draws)
    n = len(draws)
    assert abs(np.sum(draws**2) / n - 1) < 6.5 * math.sqrt(2 / n)


def test_what_is_published_follows_from_releases():
    """Replayed, other people's samples give the same pickle but for their number."""
    for params in WAYS.values():
        with recorded() as start:
            one = make(**params).fit(people())
        with recorded(start):
            other = make(**params).fit(people(seed=5))
        assert pickle.dumps(one) == pickle.dumps(other)


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 8])
def test_an_audit_finds_no_more_than_the_claim(times):
    """One sample alone, of two that differ most; of eight times the epsilon, it does.

    False alarms: one in 1,000.
    """
    one, other = (np.array([[1.0, sign]]) / math.sqrt(2) for sign in (1, -1))

    def release(sample, n):
        scores = []
        for _ in range(n):
            model = MultilinearPCA((1,), epsilon=times, delta=1e-5, norm_bound=1.0)
            scores.append(model.fit(sample).components_[0].prod())
        return np.array(scores)

    report = audit_mechanism(
        release, one, other, epsilon=1.0, delta=1e-5, n_trials=1000, batched=True,
        confidence=0.999, log_likelihood_ratio=np.ravel,
    )  # fmt: skip
    assert report.violated == (times > 1), report


@pytest.mark.thorough
@FEW
def test_with_half_the_noise_an_audit_would_tell():
    """Released moments, less the exact ones: 1,200 numbers of the stated size.

    False alarms: below 1e-9, by a chi-squared distribution.
    """
    X, seen = people(1), []

    def learn(_, releases, question):
        shares = shares_of_modes(question.shape, 1.0)
        seen.append(releases.ask(replace(question, shares=shares))[0][0])
        return {}, ""

    with (
        mock.patch.object(MultilinearPCA, "_learn", learn),
        recorded() as releases,
    ):
        for seed in range(400):
            make(random_state=seed).fit(X)
    exact = np.einsum("nij,nkj->ik", X, X)
    exact /= max(np.trace(exact), 1.0)
    noise = (np.array(seen) - exact)[:, *np.triu_indices(3, 1)]
    share = shares_of_modes((3, 4), 1.0)[0]
    ratio = np.mean(noise**2) * share / releases.sigma**2
    assert abs(ratio - 1) < 6.5 * math.sqrt(2 / noise.size)


def test_an_interrupted_fit_leaves_nothing():
    """The projection of the fit before would be under the guarantee of this one."""
    model = make((1, 1)).fit(people())
    with (
        mock.patch.object(Question, "read", side_effect=MemoryError),
        pytest.raises(MemoryError),
    ):
        model.set_params(epsilon=0.5).fit(people())
    assert model.privacy_guarantee_.epsilon == 0.5
    assert not hasattr(model, "components_")
    assert not hasattr(model, "_projection")
    with pytest.raises(NotFittedError):
        model.transform(people())


def test_without_noise_nothing_is_protected():
    guarantee = free().fit(people()).privacy_guarantee_
    assert isinstance(guarantee.event, dp_event.NonPrivateDpEvent)
    assert not guarantee.protects


def test_a_transform_is_not_protected_until_a_mechanism_is():
    pca = make((3, 3)).fit(IMAGES)
    report = privacy_of(pca)
    assert report.guarantee.epsilon == 1.0
    assert any("is not protected" in one for one in report.unprotected)
    said = "if projections of the samples are not shown without noise"
    assert said in str(report.guarantee)
    bare = make_pipeline(make((3, 3)), LogisticRegression()).fit(IMAGES, DIGITS.target)
    assert privacy_of(bare).guarantee.epsilon == math.inf
    whole = make_pipeline(
        make((3, 3)),
        GaussianMechanism(2.0, norm_bound=1.0, random_state=0),
        LogisticRegression(),
    ).fit(IMAGES, DIGITS.target)
    found = privacy_of(whole)
    assert 2 < found.guarantee.epsilon < 3
    assert [one.epsilon for _, _, one in found.releases] == [1.0, 2.0]


@pytest.mark.parametrize("tensor_shape", [None, (3, 4)])
@ways
def test_planned_guarantees(way, tensor_shape):
    model = make(**WAYS[way], tensor_shape=tensor_shape, random_state=None)
    planned = planned_guarantee(model)
    fitted = model.fit(people()).privacy_guarantee_
    assert fitted.epsilon <= planned.epsilon < fitted.epsilon * 1.006
    # What is planned for any shape is an upper bound at any delta.
    for delta in (1e-9, 1e-5, 1e-3):
        assert planned.epsilon_at(delta) >= fitted.epsilon_at(delta) * (1 - 1e-9)
    if tensor_shape:
        assert planned.epsilon == fitted.epsilon
        assert planned.event == fitted.event
    assert 0.3 < epsilon_per_release(1.0, 3e-6, 3, model) < 1


@pytest.mark.parametrize(
    "bad", [np.nan, np.inf, -np.inf], ids=["nan", "infinity", "minus infinity"]
)
def test_bad_samples_cost_nothing(bad):
    X = people()
    X[5, 1, 1] = bad
    with PrivacyBudget(10, 1e-5) as budget, drawing() as drawn:
        for fit in (make().fit, lambda X: make().fit_batches([X[:3], X[3:]])):
            with pytest.raises(ValueError, match=r"NaN|infinity"):
                fit(X)
    assert budget.spent is None
    assert not drawn


def test_what_is_read_only_once_is_recorded_before_it_is_read():
    X = people()
    X[5, 1, 1] = np.nan
    refused = pytest.raises(ValueError, match="NaN")
    with PrivacyBudget(10, 1e-5) as budget, drawing() as drawn, refused:
        make((2, 2)).fit_batches(iter([X[:3], X[3:]]))
    assert budget.spent is not None
    assert not drawn


# --- where samples lie ---------------------------------------------------------------


@ways
def test_chunks_batches_and_parties_give_the_same_bits(way):
    dask_array = pytest.importorskip("dask.array")
    X, model = people(30), make(**WAYS[way], tensor_shape=(3, 4))
    expected = clone(model).fit(X)
    same(clone(model).fit(X[::-1]), expected)
    same(clone(model).fit(X.reshape(30, 12)), expected)
    same(clone(model).fit(np.asfortranarray(X)), expected)
    same(clone(model).fit_batches([X[:3], X[3:4], X[4:]]), expected)
    for chunks in ((7, 3, 4), (30, 2, 2), (1, 3, 4)):
        same(clone(model).fit(dask_array.from_array(X, chunks=chunks)), expected)
    parties = [party(model, own) for own in (X[:10], X[10:29], X[29:].reshape(1, 12))]

    def ask(request):
        assert type(request) is bytes
        return sum(one.answer(request) for one in parties)

    same(fit_aggregated(clone(model), ask, n_samples=30), expected)


def test_float32_samples_are_those_in_double():
    X = people().astype(np.float32)
    same(make((2, 2)).fit(X), make((2, 2)).fit(X.astype(float)))
    found = make((2, 2)).fit(X)
    assert found.transform(X).dtype == np.float32
    assert found.transform(X.astype(float)).dtype == np.float64


def test_batches_that_are_gone_are_refused_before_a_release():
    X = people()
    same(make((2, 2)).fit_batches(iter([X[:3], X[3:]])), make((2, 2)).fit(X))
    for params in ({"center": True}, {"n_components": 2}):
        with (
            PrivacyBudget(10, 1e-5) as budget,
            pytest.raises(ValueError, match="only once"),
        ):
            make(**params).fit_batches(iter([X]))
        assert budget.spent is None
    with pytest.raises(ValueError, match="no batch"):
        make().fit_batches([])
    with pytest.raises(ValueError, match="fitted to samples of shape"):
        make().fit_batches([X, X[:, :, :2]])


class Shrinking:
    """Batches of which every pass has fewer."""

    def __init__(self, X):
        self.X, self.n_passes = X, 0

    def __iter__(self):
        self.n_passes += 1
        return iter([self.X[self.n_passes :]])


def test_batches_that_change_are_refused():
    with pytest.raises(ValueError, match="another number of samples"):
        make(2).fit_batches(Shrinking(people()))


def test_parties_and_servers_need_what_is_public():
    asked = []
    for params, message in (
        ({"tensor_shape": None}, "Pass tensor_shape"),
        ({"norm_bound": None}, "Pass norm_bound"),
        ({"n_components": (9, 9)}, "n_components must have"),
    ):
        model = make(tensor_shape=(3, 4)).set_params(**params)
        with pytest.raises(ValueError, match=message):
            party(model, people())
        with pytest.raises(ValueError, match=message):
            fit_aggregated(model, asked.append, n_samples=8)
    model = make(tensor_shape=(3, 4))
    for n_samples in (None, 8.0, 0):
        with pytest.raises(ValueError, match="n_samples must be an integer"):
            fit_aggregated(model, asked.append, n_samples=n_samples)
    assert not asked


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros((2, 4, 3)), "needs samples of that shape or rows of 12"),
        (np.zeros((2, 11)), "needs samples of that shape or rows of 12"),
        (np.full((2, 3, 4), np.nan), "NaN"),
        (np.full((2, 12), np.inf), "infinity"),
        ([["a"] * 12], "must hold numbers"),
    ],
)
def test_parties_refuse_bad_samples(X, message):
    with pytest.raises(ValueError, match=message):
        party(make(tensor_shape=(3, 4)), X)


def test_parties_project_on_unit_vectors_of_whole_numbers():
    """Products with others would not be exact, so people could change them more."""
    model = make(3, tensor_shape=(3, 4), epsilon=200.0)
    sums = Sums([party(model, people())])
    fit_aggregated(clone(model), sums, n_samples=8)
    request = sums.requests[-1]
    assert header(request)["question"]["kind"] == "core"
    for change, message in (
        (lambda basis: basis + 0.5, "bases.0 is missing or not as it must be"),
        (lambda basis: 2 * basis, "must be unit vectors"),
    ):
        with pytest.raises(ValueError, match=message):
            party(model, people()).answer(with_array(request, "bases.0", change))
    arrays = header(request)["arrays"]
    for shape in ([3, 0], [3, 4], [2, 1], [3]):
        wrong = setting(request, "arrays", 0, 2, to=shape)
        assert arrays[0][0] == "bases.0"
        with pytest.raises(ValueError, match="not a request"):
            party(model, people()).answer(wrong)


def test_a_fit_to_sums_forgets_names_of_an_earlier_fit():
    pd = pytest.importorskip("pandas")
    model = make((1, 1), tensor_shape=(3, 4))
    X = people()
    model.fit(pd.DataFrame(X.reshape(len(X), -1), columns=list("abcdefghijkl")))
    assert len(model.feature_names_in_) == 12
    one = party(model, X)
    fit_aggregated(model, one.answer, n_samples=len(X))
    assert not hasattr(model, "feature_names_in_")
    assert model.transform(X).shape == (len(X), 1)


# --- what it finds -------------------------------------------------------------------


def spanned(one, other):
    """Whether two orthonormal bases span the same space."""
    assert_allclose(one @ one.T, other @ other.T, atol=1e-9)


@pytest.mark.parametrize("n", [1, 5, None])
def test_without_noise_one_mode_is_the_pca_of_scikit_learn(n):
    X = IMAGES.reshape(len(IMAGES), -1)[:300]
    own, other = free(n, center=True).fit(X), PCA(n).fit(X)
    assert_allclose(own.components_[0].T[:50], other.components_[:50], atol=1e-8)
    assert_allclose(
        own.explained_variance_ratio_, other.explained_variance_ratio_, atol=1e-12
    )
    assert_allclose(own.mean_, other.mean_)
    features = own.transform(X)
    assert_allclose(features[:, :50], other.transform(X)[:, :50], atol=1e-8)
    assert_allclose(
        own.inverse_transform(features),
        other.inverse_transform(other.transform(X)),
        atol=1e-8,
    )
    # The same on either side of noise: as many samples as features decide.
    assert free(center=True).fit(X[:9]).n_components_ == 9


@pytest.mark.parametrize("ranks", [(1, 1), (3, 4), (8, 8)])
def test_without_noise_modes_are_those_of_tensorly(ranks):
    own = free(ranks).fit(IMAGES)
    (core, factors), _ = partial_tucker(IMAGES, ranks, modes=[1, 2], n_iter_max=0)
    for mine, theirs in zip(own.components_, factors, strict=True):
        spanned(mine, theirs)
    assert_allclose(np.linalg.norm(own.transform(IMAGES)), np.linalg.norm(core))


def test_without_noise_one_number_is_the_flat_pca():
    flat = IMAGES.reshape(len(IMAGES), -1)
    own, other = free(7).fit(IMAGES), free(7).fit(flat)
    assert own.method_ == "flat"
    assert other.method_ == "modes"
    eye = np.eye(7)
    spanned(own.inverse_transform(eye).reshape(7, -1).T, other.inverse_transform(eye).T)
    assert_allclose(own.explained_variance_ratio_, other.explained_variance_ratio_)


def test_a_bound_that_clips_nothing_changes_nothing_without_noise():
    own, other = free((2, 2)).fit(IMAGES), free((2, 2), norm_bound=5.0).fit(IMAGES)
    for mine, theirs in zip(own.components_, other.components_, strict=True):
        assert_allclose(mine, theirs, atol=1e-12)


def test_with_little_noise_it_is_nearly_the_same():
    for params in WAYS.values():
        own = make(**params, epsilon=200.0).fit(IMAGES)
        other = free(**params, norm_bound=1.0).fit(IMAGES)
        assert own.score(IMAGES) == pytest.approx(other.score(IMAGES), abs=0.01)


@pytest.mark.thorough
@pytest.mark.parametrize("n_components", [(4, 4), 16])
def test_more_budget_finds_more_energy(n_components):
    """Means of five fits; their standard errors are below .01."""
    scores = [
        np.mean(
            [
                make(n_components, epsilon=e, random_state=s).fit(IMAGES).score(IMAGES)
                for s in range(5)
            ]
        )
        for e in (0.05, 0.5, 8.0)
    ]
    assert scores[0] + 0.02 < scores[1] < scores[2] - 0.005


def test_the_number_of_components_follows_from_noise():
    """Components that stand out are taken: more of them with less noise."""
    found = [
        [f.shape[1] for f in make(epsilon=e).fit(IMAGES).components_]
        for e in (0.02, 1.0, 100.0)
    ]
    assert np.all(np.diff(found, axis=0) >= 0)
    assert np.prod(found[0]) < 10 < np.prod(found[2])


def test_flattening_is_chosen_where_it_is_better():
    """Few cells and a large epsilon; with little budget, the modes."""
    methods = {
        epsilon: {
            make(25, epsilon=epsilon, random_state=s).fit(IMAGES).method_
            for s in range(3)
        }
        for epsilon in (0.5, 200.0)
    }
    assert methods == {0.5: {"modes"}, 200.0: {"flat"}}


@pytest.mark.thorough
@pytest.mark.parametrize("way", ["modes", "core"])
def test_explained_energy_is_free_of_the_noises_bias(way):
    """Means of 40 fits against the truth, within .02 (five standard errors or more)."""
    X = IMAGES[:400]
    truth, said = [], []
    for seed in range(40):
        model = make(**WAYS[way], epsilon=2.0, random_state=seed).fit(X)
        ratio = model.explained_variance_ratio_
        if model.method_ == "modes":
            said.append([np.sum(one) for one in ratio])
            along = [
                np.tensordot(X, f, (k, 0))
                for k, f in enumerate(model.components_, start=1)
            ]
            truth.append([np.square(one).sum() / len(X) for one in along])
        else:
            said.append([np.sum(ratio)])
            truth.append([model.score(X)])
    bias = np.mean([np.mean(s) - np.mean(t) for s, t in zip(said, truth, strict=True)])
    assert abs(bias) < 0.02


def test_estimated_energies_add_up_to_the_total():
    """Even if those above the edge have more, or less than the rest of them would."""
    for values, total in (((9, 4, 1), 8), ((9, 3.5, 0.1), 20), ((1, 0.5, -1), 3)):
        found = Spectrum(np.diag(values), 0.9)
        for estimates in (found.energies(total), found.true_values(total)):
            assert_allclose(estimates.sum(), total)
            assert np.all(np.diff(estimates) <= 0)


def test_centring_is_on_the_released_mean():
    model = make((3, 3), center=True, epsilon=200.0).fit(IMAGES + 0.05)
    assert_allclose(model.mean_, IMAGES.mean(axis=0) + 0.05, atol=0.1)
    assert np.all(make((3, 3)).fit(IMAGES).mean_ == 0)


# --- how it is used ------------------------------------------------------------------


def test_features_and_names():
    rows = IMAGES.reshape(len(IMAGES), -1)
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(rows).add_prefix("pixel")
    model = make((2, 3), tensor_shape=(8, 8)).fit(frame)
    out = model.set_output(transform="pandas").transform(frame)
    assert list(out.columns) == [f"multilinearpca{k}" for k in range(6)]
    assert_array_equal(out, make((2, 3)).fit(IMAGES).transform(IMAGES))
    assert model.inverse_transform(out).shape == rows.shape
    assert make((2, 3)).fit(IMAGES).inverse_transform(out).shape == IMAGES.shape


@ways
def test_components_are_orthonormal_and_projections_repeat(way):
    model = make(**WAYS[way]).fit(people(30))
    basis = model.inverse_transform(np.eye(model.n_components_)) - model.mean_
    basis = basis.reshape(model.n_components_, -1)
    assert_allclose(basis @ basis.T, np.eye(len(basis)), atol=1e-12)
    Z = model.transform(people(5, seed=3))
    assert_allclose(model.transform(model.inverse_transform(Z)), Z, atol=1e-12)
    assert Z.shape == (5, model.n_components_)
    assert model.get_feature_names_out().shape == (model.n_components_,)
    centred = people(5, seed=3) - model.mean_
    share = np.square(Z).sum() / np.square(centred).sum()
    assert model.score(people(5, seed=3)) == pytest.approx(share)


def test_a_lazy_transform_is_that_in_memory():
    dask_array = pytest.importorskip("dask.array")
    model = make((2, 2)).fit(IMAGES)
    lazy = model.transform(dask_array.from_array(IMAGES, chunks=(100, 8, 8)))
    assert_allclose(lazy.compute(), model.transform(IMAGES), atol=1e-14)
    assert model.score(dask_array.from_array(IMAGES, chunks=(100, 8, 8))) == (
        pytest.approx(model.score(IMAGES))
    )


WRONG = {
    "too many": ({"n_components": (9, 1)}, "one number for each mode"),
    "too few modes": ({"n_components": (2,)}, "one number for each mode"),
    "zero": ({"n_components": (0, 1)}, "one number for each mode"),
    "in all": ({"n_components": 65}, "at most 64 components"),
    "shape": ({"tensor_shape": (3, 3)}, "needs samples of that shape"),
    "budget": ({"epsilon": 1e-6}, "too small|so small"),
    "huge norms": ({"norm_bound": 1.1e50}, "'norm_bound' parameter"),
    "tiny norms": ({"norm_bound": 0.9e-50}, "'norm_bound' parameter"),
}


@pytest.mark.parametrize("which", WRONG)
def test_wrong_parameters_are_refused_before_a_release(which):
    params, message = WRONG[which]
    with PrivacyBudget(10, 1e-5) as budget, pytest.raises(ValueError, match=message):
        make(**params).fit(IMAGES)
    assert budget.spent is None


def test_samples_of_another_shape_are_refused():
    model = make((2, 2)).fit(IMAGES)
    with pytest.raises(ValueError, match=r"fitted to samples of shape \(8, 8\)"):
        model.transform(IMAGES[:, :, :4])
    with pytest.raises(ValueError, match="4 components"):
        model.inverse_transform(np.zeros((2, 5)))


@FEW
def test_zeros_and_single_samples_have_components():
    for X in (np.zeros((5, 3, 4)), people(1)):
        for params in WAYS.values():
            for epsilon in (1.0, math.inf):
                model = make(**params, epsilon=epsilon).fit(X)
                assert np.isfinite(model.transform(people())).all()


@pytest.mark.thorough
def test_searches_count_every_fit():
    pipeline = make_pipeline(
        make((2, 2), random_state=None),
        GaussianMechanism(2.0, norm_bound=1.0),
        LogisticRegression(),
    )
    grid = {
        "multilinearpca__n_components": [(2, 2), (3, 3)],
        "multilinearpca__epsilon": [0.5, 1.0],
    }
    search = GridSearchCV(pipeline, grid, cv=3).fit(IMAGES, DIGITS.target)
    report = privacy_of(search)
    assert sum("fit of MultilinearPCA" in name for name, _, _ in report.releases) == 5
    assert math.isfinite(report.guarantee.epsilon)
    own = GridSearchCV(make(random_state=None), {"epsilon": [0.5, 1.0]}, cv=3)
    found = privacy_of(own.fit(IMAGES))
    assert [count for _, count, _ in found.releases] == [2, 2, 1]
    assert math.isfinite(found.guarantee.epsilon)
    # Labels are not what it protects.
    folds = GridSearchCV(pipeline, grid, cv=StratifiedKFold(3))
    assert math.isfinite(privacy_of(folds.fit(IMAGES, DIGITS.target)).guarantee.epsilon)


def residuals(model, X, y):
    """Minus the energy of every sample that is not explained."""
    rows = np.asarray(X)
    return -np.square(rows - model.inverse_transform(model.transform(rows))).sum((1, 2))


@pytest.mark.thorough
def test_a_private_search_chooses_among_numbers_of_components():
    search = PrivateSearchCV(
        make((1, 1), random_state=None, epsilon=2.0),
        {"n_components": [(1, 1), (5, 5), 3]},
        n_iter=3,
        scoring=residuals,
        score_bounds=(-1.0, 0.0),
    )
    planned = search.planned_guarantee(IMAGES)
    search.fit(IMAGES, np.zeros(len(IMAGES)))
    assert search.privacy_guarantee_.epsilon == planned.epsilon
    assert math.isfinite(planned.epsilon)
    assert search.best_params_["n_components"] in [(1, 1), (5, 5), 3]


@pytest.mark.thorough
@pytest.mark.parametrize("n_components", [(4, 5), 20])
def test_the_expected_error_is_that_of_such_samples(n_components):
    """Samples with equal energy in all components, and nothing beside them."""
    rng = np.random.default_rng(0)
    bases = [
        np.linalg.qr(rng.standard_normal((n, r)))[0] for n, r in ((24, 4), (48, 5))
    ]
    X = np.einsum("nab,fa,tb->nft", rng.standard_normal((1400, 4, 5)), *bases)
    X /= np.linalg.norm(X, axis=(1, 2), keepdims=True)
    epsilons = [0.25, 1.0, 4.0]
    model = make(n_components)
    expected = expected_error(model, np.zeros((1400, 24, 48)), epsilons=epsilons)
    for epsilon, error in zip(epsilons, expected.errors, strict=True):
        found = [
            1 - clone(model).set_params(epsilon=epsilon, random_state=s).fit(X).score(X)
            for s in range(3)
        ]
        assert np.mean(found) == pytest.approx(error, rel=0.25, abs=0.01)
    assert expected_error(model, X, epsilons=[math.inf]).errors[0] == 0
    needed = epsilon_needed(model, X, error=0.1)
    assert 0.25 < needed < 4
    household = expected_error(model, X, epsilons=[4.0], group=4)
    # Not randomised one by one: a group of four has four times the distance.
    assert household.unit_epsilons[0] < 1.1
    with pytest.raises(ValueError, match="Pass them"):
        expected_error(make(), X, epsilons=[1.0])


def test_groups_and_shuffling_are_those_of_a_central_release():
    guarantee = make().fit(people()).privacy_guarantee_
    assert guarantee.for_group(4).epsilon > 4
    with pytest.raises(ValueError, match=r"shuffle|message"):
        guarantee.shuffled(1000)
