"""What every encoder promises. A new one needs a line in ENCODERS, or a case.

Statistical tests have fixed seeds. A false-alarm rate is the probability, over the
seeds, that a correct encoder fails.
"""

import math
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline, make_union

from sktensordp import encoding, papers
from sktensordp.encoding import TaskAgnosticEncoder, TaskAwareEncoder
from sktensordp.exceptions import BudgetExceededError, UnsoundClaimWarning
from sktensordp.mechanisms import LaplaceMechanism
from sktensordp.papers import PrivacyAgnosticEncoder
from sktensordp.privacy import PrivacyBudget, privacy_of
from tests.support.every_estimator import CASES
from tests.support.refusing import refused

INF = math.inf


def shown(encoder):
    return " ".join(repr(encoder).split())


X, LABELS = load_iris(return_X_y=True)
TASK = np.array([[1.0, 0.1, 0, 0], [0, 0, 2, 1e-3]])
MODEL = LogisticRegression(max_iter=1000).fit(X, LABELS)
LINEAR = [
    *(TaskAwareEncoder(6.0, task=TASK, mechanism=m) for m in ("laplace", "l2")),
    TaskAwareEncoder(3.0, task=TASK[:1], mechanism="privunit"),
    TaskAwareEncoder(6.0, delta=1e-3, task=TASK, mechanism="gaussian"),
    TaskAgnosticEncoder(6.0, task=TASK, mechanism="privunit"),
    TaskAgnosticEncoder(6.0, delta=1e-3, task=TASK, mechanism="gaussian"),
    PrivacyAgnosticEncoder(6.0, task=TASK, mechanism="l2"),
    PrivacyAgnosticEncoder(6.0, task=TASK, mechanism="laplace"),
]
# Learned from the gradients of a model.
LEARNED = [TaskAwareEncoder(20.0, task=MODEL, n_components=1)]
ENCODERS = [*LINEAR, *LEARNED]
ALL = pytest.mark.parametrize("encoder", ENCODERS, ids=shown)
OF_LINEAR = pytest.mark.parametrize("encoder", LINEAR, ids=shown)
# One of each class, chosen by itself where nothing is said of the noise.
CLASSES = [TaskAwareEncoder(3.0), TaskAgnosticEncoder(3.0), PrivacyAgnosticEncoder(3.0)]
PUBLISHED = [
    papers.PublishedTaskAwareEncoder(3.0, task=TASK),
    papers.PublishedTaskAgnosticEncoder(3.0, task=TASK),
    papers.PublishedPrivacyAgnosticEncoder(3.0, task=TASK),
]
OF_CLASSES = pytest.mark.parametrize("encoder", CLASSES, ids=shown)
FAR = np.array([[1e300] * 4, [-1e300] * 4, [1.7e308] * 4, [1e5, 0, -1e9, 7]])


@pytest.fixture(scope="module")
def fitted():
    """Function: an encoder fitted to all rows; each is learned once."""
    known = {}

    def fit(encoder, **params):
        key = repr(encoder), repr(params)
        if key not in known:
            fresh = clone(encoder).set_params(**params).fit(X)
            known[key] = pickle.dumps(fresh)
        return pickle.loads(known[key])

    return fit


def test_no_encoder_is_forgotten():
    public = {
        n for part in (encoding, papers) for n in part.__all__
        if hasattr(getattr(part, n), "privatize") and not n.endswith("Client")
    }  # fmt: skip
    known = [*ENCODERS, *PUBLISHED]
    assert public == {type(encoder).__name__ for encoder in known}
    assert public < {type(case.estimator).__name__ for case in CASES}


@ALL
def test_guarantee_of_one_call(encoder, fitted):
    encoder = fitted(encoder)
    guarantee = encoder.privacy_guarantee_
    assert (guarantee.epsilon, guarantee.delta) == (encoder.epsilon, encoder.delta)
    assert (guarantee.unit, guarantee.relation) == ("sample", "replace-one")
    assert guarantee.claimed is None
    # The noise is no more than that needs.
    assert guarantee.epsilon_at(encoder.delta) > 0.97 * encoder.epsilon
    assert "Every call spends again" in guarantee.statement
    report = privacy_of(encoder)
    assert report.guarantee == guarantee
    assert any("consent" in sentence for sentence in report.unprotected)


@ALL
def test_what_leaves_is_counted_and_what_is_decoded_is_not(encoder, fitted):
    encoder = fitted(encoder)
    most = 1.001 * encoder.epsilon, 1.001 * encoder.delta
    for released in (encoder.transform, encoder.privatize, encoder.client().privatize):
        with PrivacyBudget(*most) as budget:
            codes = released(X)
            if released != encoder.transform:
                encoder.decode(codes)
            with pytest.raises(BudgetExceededError, match="nothing was drawn"):
                released(X)
        assert budget.spent.epsilon <= encoder.epsilon


@OF_LINEAR
def test_noise_and_loss_are_as_measured(encoder, fitted):
    """False-alarm rate 1e-6 for the noise of each entry, and 4e-6 for the loss.

    Noise that is 10% off is seen, and so is a loss with half of the noise.
    """
    encoder = fitted(encoder, random_state=0)
    codes = encoder.privatize(np.repeat(X[:1], 40_000, axis=0))
    squares = np.square(codes - codes.mean(axis=0)).mean(axis=1)
    error = 4.9 * squares.std() / math.sqrt(len(codes))
    assert abs(squares.mean() - encoder.noise_variance_) < max(
        error, 0.05 * encoder.noise_variance_
    )
    found, quiet = [], []
    for _ in range(60):
        code = encoder.privatize(X)
        for one, losses in ((code, found), (code / 2, quiet)):
            missing = (encoder.decode(one) - X) @ encoder.task_.T
            losses.append(np.mean(np.sum(missing**2, axis=1)))
    expected = encoder.expected_task_loss_
    error = np.std(found, ddof=1) / math.sqrt(60)
    assert abs(np.mean(found) - expected) < 5.3 * error < 0.1 * encoder.task_variance_
    assert abs(np.mean(quiet) - expected) > 6 * error


@pytest.mark.thorough
@ALL
def test_any_sample_ends_in_the_ball(encoder, fitted):
    """Beyond it the direction alone counts, and every number is taken."""
    far = [fitted(encoder, random_state=2).privatize(s * FAR[-1:]) for s in (1, 1e9)]
    assert_allclose(*far, rtol=0, atol=1e-5 * (1 + np.abs(far[0]).max()))
    encoder = fitted(encoder)
    assert np.all(np.isfinite(encoder.transform(FAR)))
    with np.errstate(all="raise", under="ignore"):
        assert np.all(np.isfinite(encoder.decode(encoder.privatize(FAR))))
    assert np.all(np.isfinite(encoder.client().privatize(FAR)))


@ALL
def test_without_noise(encoder, fitted):
    """A linear task is exact where the code has room for it; no noise is claimed."""
    free = fitted(encoder, epsilon=INF)
    assert not free.privacy_guarantee_.protects
    assert free.noise_variance_ == 0
    assert_array_equal(free.transform(X), free.transform(X))
    if encoder in LINEAR:
        assert_allclose(free.transform(X) @ free.task_.T, X @ free.task_.T, rtol=1e-7)
        assert free.expected_task_loss_ < 1e-9 * free.task_variance_
        assert math.isinf(free.clip_)
        codes = fitted(encoder, epsilon=INF, clip=0.5).privatize(X)
        lengths = np.linalg.norm(codes, axis=1)
        assert_allclose(np.mean(lengths > 1 - 1e-12), 0.5, atol=0.02)
        assert lengths.max() < 1 + 1e-14
    with PrivacyBudget(9.0), pytest.raises(BudgetExceededError):
        free.transform(X)


@pytest.mark.parametrize("published", PUBLISHED, ids=shown)
def test_a_published_claim_is_told_to_be_false(published):
    with pytest.warns(UnsoundClaimWarning, match="fitting data"):
        guarantee = clone(published).fit(X).privacy_guarantee_
    assert math.isinf(guarantee.epsilon)
    assert guarantee.claimed == (3.0, 0.0)


@ALL
@pytest.mark.parametrize("seed", [None, 5])
def test_no_two_calls_share_their_noise(encoder, seed, fitted):
    encoder = fitted(encoder, random_state=seed)
    copied = pickle.loads(pickle.dumps(encoder))
    client = encoder.client(random_state=seed)
    shipped = pickle.loads(pickle.dumps(client))
    calls = [encoder.privatize, encoder.privatize, client.privatize, client.privatize]
    outputs = [call(X) for call in calls]
    again = [copied.privatize(X), shipped.privatize(X)]
    if seed is None:
        outputs += again
    else:  # a client and its encoder count their releases each on their own
        assert_array_equal(again, [outputs[0], outputs[0]])
        assert_array_equal(outputs[2:], outputs[:2])
        outputs = outputs[:2]
        assert any("integer random_state" in s for s in privacy_of(encoder).unprotected)
    for i, one in enumerate(outputs):
        # Shared noise coincides everywhere, that of the coarsest lattice in 2 of 10,000
        # numbers: false alarms, 6 of 150, have a probability below 1e-10.
        assert all(np.mean(one == other) < 0.04 for other in outputs[:i])


@ALL
def test_transform_is_both_halves(encoder, fitted):
    encoders = [fitted(encoder, random_state=1) for _ in range(2)]
    whole, noisy = encoders[0].transform(X), encoders[1].privatize(X)
    assert (whole.shape, noisy.shape) == (X.shape, (150, encoders[0].n_components_))
    assert_array_equal(whole, encoders[1].decode(noisy))
    code = fitted(encoder, random_state=1, output="code")
    assert_array_equal(noisy, code.transform(X))
    with pytest.raises(ValueError, match="components"):
        code.decode(np.ones((3, 9)))


@OF_CLASSES
def test_tensors_are_their_rows(encoder):
    tensors = X.reshape(150, 2, 2)
    one = clone(encoder).set_params(random_state=1).fit(tensors)
    flat = clone(encoder).set_params(random_state=1, tensor_shape=(2, 2)).fit(X)
    assert_array_equal(one.transform(tensors).reshape(150, 4), flat.transform(X))
    assert one.client().privatize(tensors).shape == (150, one.n_components_)
    assert one.transform(tensors.astype(np.float32)).dtype == np.float32
    flat.set_params(output="code").fit(X)
    assert flat.transform(X.astype(np.float32)).dtype == np.float32
    with pytest.raises(ValueError, match="feature names"):
        one.get_feature_names_out()
    with refused("data frame"):
        one.set_output(transform="pandas").transform(tensors)


@ALL
def test_bad_samples_are_refused_before_anything_is_drawn(encoder, fitted):
    encoder = fitted(encoder)
    client, broken = encoder.client(), np.repeat(X[np.newaxis], 2, axis=0)
    broken[:, 3, 3] = np.nan, INF
    calls = encoder.transform, encoder.privatize, client.privatize
    for bad in (X[:, :3], X[0], np.full((2, 4), "secret")):
        for call in calls:
            with refused(r".", secret="secret"):
                call(bad)
    for bad in broken:
        for call in calls[:2]:
            with refused("NaN|infinity"):
                call(bad)
        # Whoever made a client may see whether it answers.
        assert np.all(np.isfinite(client.privatize(bad)))


BAD = {
    "epsilon": [0, -1.0, math.nan, 1e-30],
    "delta": [1.0, -0.1, math.nan],
    "n_components": [0],
    "mechanism": ["geometric", "gaussian"],  # the latter needs a delta
    "clip": [0.0, 1.1],
    "output": ["half"],
    "tensor_shape": [(5,)],
    "random_state": [-1, "0"],
}


@pytest.mark.parametrize("encoder", [*CLASSES, LEARNED[0]], ids=shown)
def test_bad_parameters_are_refused_before_anything_is_learned(encoder):
    for name in BAD.keys() & encoder.get_params(deep=False).keys():
        for value in BAD[name]:
            bad = clone(encoder).set_params(**{name: value})
            match = f"{name}|honour|too small|delta|tensors of shape"
            with pytest.raises(ValueError, match=match):
                bad.fit(X)
            assert not hasattr(bad, "privacy_guarantee_")


@ALL
def test_fits_are_functions_of_the_data_and_keep_none_of_them(encoder, fitted):
    encoder = fitted(encoder, random_state=3)
    again = clone(encoder).fit(X)
    assert again.expected_task_loss_ == encoder.expected_task_loss_
    assert_array_equal(again.transform(X), encoder.transform(X))
    dumps = [pickle.dumps(encoder), pickle.dumps(encoder.client())]
    for row in X:
        assert not any(row.tobytes() in dump for dump in dumps)
    # A person's half has no decoder, and its size does not depend on the data.
    many = clone(encoder).fit(np.tile(X, (4, 1))) if encoder.task is TASK else encoder
    assert abs(len(pickle.dumps(many.client())) - len(dumps[1])) < 50
    assert len(dumps[1]) < len(dumps[0]) < 9000


def test_frozen_in_a_pipeline_and_a_search():
    """Two training folds and a test fold for each candidate, and the refit."""
    public, people = X[: len(X) // 2], X[len(X) // 2 :]
    frozen = [
        FrozenEstimator(
            TaskAwareEncoder(epsilon, random_state=0).fit(public[:, :3], public[:, 3])
        )
        for epsilon in (0.5, 20.0)
    ]
    model = Pipeline([("encode", frozen[0]), ("predict", Ridge())])
    search = GridSearchCV(model, {"encode": frozen}, cv=3)
    search.fit(people[:, :3], people[:, 3])
    assert search.best_params_ == {"encode": frozen[1]}
    report = privacy_of(search)
    assert_allclose(report.guarantee.epsilon, 3 * (0.5 + 20) + 20, rtol=1e-9)
    assert any("consent" in sentence for sentence in report.unprotected)
    # A frozen encoder is never cloned: this one has made the releases of all its fits,
    # of three training and three test sets, and of the refit.
    report = privacy_of(search.best_estimator_)
    assert_allclose(report.guarantee.epsilon, 7 * 20, rtol=1e-9)


@pytest.mark.thorough
@pytest.mark.parametrize("encoder", [*CLASSES, LEARNED[0]], ids=shown)
@pytest.mark.parametrize("after_noise", [False, True])
def test_fitted_to_the_rows_that_it_releases(encoder, after_noise):
    """It protects nobody, in a pipeline or search; after noise, the noise does."""
    noise = [LaplaceMechanism(1.0, bounds=(-3, 3))] * after_noise
    model = make_pipeline(*clone(noise), clone(encoder), Ridge())
    columns = make_column_transformer((clone(encoder), [0, 1, 2, 3]))
    for whole in (
        model,
        make_pipeline(*clone(noise), make_union(clone(encoder)), Ridge()),
        make_pipeline(*clone(noise), columns, Ridge()),
        GridSearchCV(model, {"ridge__alpha": [1.0, 2.0]}, cv=2),
    ):
        report = privacy_of(clone(whole).fit(X, X[:, 0]))
        assert math.isfinite(report.guarantee.epsilon) == after_noise
        learned = f"{type(encoder).__name__} learned from data without noise"
        assert (learned in report.guarantee.statement) == (not after_noise)
    # Alone, it may have been fitted to public data; the report says what if not.
    report = privacy_of(clone(encoder).fit(X))
    assert math.isfinite(report.guarantee.epsilon)
    assert any("consent" in sentence for sentence in report.unprotected)
