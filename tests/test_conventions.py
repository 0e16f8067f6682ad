"""What users of scikit-learn expect: frames, names, diagrams, callbacks and texts."""

import importlib
import inspect
import re
from email.message import Message
from importlib import metadata
from typing import Protocol

import numpy as np
import pytest
from sklearn import config_context
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_html_repr

from sktensordp import audit, mechanisms, model_selection, noise, privacy
from sktensordp.completion import (
    CoordinateEncoder,
    CPCompletion,
    TuckerCompletion,
    make_fold_in_scorer,
)
from sktensordp.encoding import TaskAwareEncoder
from sktensordp.papers import BiScaler, PublishedTaskAwareEncoder
from tests.support.callbacks import Listener, ProgressBar, needs_callbacks
from tests.support.every_estimator import (
    CASES,
    EVERY,
    ROWS,
    VALUES,
    WHERE,
    slow_repeats,
)
from tests.support.planted_data import is_encoder
from tests.support.points import POINTS, original
from tests.support.public import public

TENSOR = np.where(np.eye(4, 3) == 1, np.nan, VALUES.reshape(4, 3))


def named(cases):
    return [pytest.param(case, id=case.label) for case in cases]


# --- data frames and names -----------------------------------------------------------

TRANSFORMERS = [case for case in CASES if case.private in ("samples", "ids")]
OF_TENSORS = [case for case in TRANSFORMERS if case.data[0].ndim == 3]
# Samples that are rows, or may be passed as such.
OF_ROWS = [
    case
    for case in TRANSFORMERS
    if case not in OF_TENSORS or "tensor_shape" in case.estimator.get_params()
]


def rows_of(case, **params):
    """An estimator of rows, and the rows."""
    estimator, X = case.fresh(**params), case.data[0]
    if case in OF_TENSORS:
        estimator.set_params(tensor_shape=X.shape[1:])
    return estimator, X.reshape(len(X), -1)


def frame_of(library, X):
    """A data frame, and its index."""
    module, names = pytest.importorskip(library), [f"c{i}" for i in range(X.shape[1])]
    if library == "polars":
        return module.DataFrame(X, schema=names), None
    index = range(7, 7 + len(X))
    return module.DataFrame(X, columns=names, index=index), list(index)


def names_of(case, n_features):
    if isinstance(case.estimator, mechanisms.MatrixMechanism):
        return [f"matrixmechanism{i}" for i in range(n_features)]
    return [f"c{i}" for i in range(n_features)]


@pytest.mark.parametrize("case", named(OF_ROWS))
def test_frames_in_frames_out(case):
    library = ("pandas", "polars")[OF_ROWS.index(case) % 2]
    seeded = {"random_state": 0} if case.private == "samples" else {}
    estimator, X = rows_of(case, **seeded)
    frame, index = frame_of(library, X)
    expected = rows_of(case, **seeded)[0].fit(X).transform(X)
    out = estimator.set_output(transform=library).fit(frame).transform(frame)
    names = estimator.get_feature_names_out()
    assert type(out) is type(frame)
    assert list(out.columns) == list(names) == names_of(case, X.shape[1])
    assert index is None or list(out.index) == index
    # Names are all that a frame changes.
    np.testing.assert_array_equal(out.to_numpy(), expected)


@pytest.mark.parametrize("case", named(OF_ROWS))
def test_names_of_features(case):
    estimator, X = rows_of(case)
    estimator.fit(X)
    n = X.shape[1]
    own = [f"matrixmechanism{i}" for i in range(n)]
    is_own = names_of(case, n) == own
    for given in (None, [f"f{i}" for i in range(n)]):
        found = estimator.get_feature_names_out(given)
        assert found.dtype == object
        passed = [f"x{i}" for i in range(n)] if given is None else given
        assert list(found) == (own if is_own else passed)
    with pytest.raises(ValueError, match="should have length equal"):
        estimator.get_feature_names_out(["a"] * (n + 1))
    estimator.fit(frame_of("pandas", X)[0])
    with pytest.raises(ValueError, match="not equal to feature_names_in_"):
        estimator.get_feature_names_out([f"f{i}" for i in range(n)])


@pytest.mark.parametrize("case", named(filter(is_encoder, TRANSFORMERS)))
def test_names_of_codes(case):
    estimator, X = rows_of(case, output="code")
    frame, index = frame_of("pandas", X)
    out = estimator.set_output(transform="pandas").fit(frame).transform(frame)
    prefix = type(estimator).__name__.lower()
    names = [f"{prefix}{i}" for i in range(estimator.n_components_)]
    assert list(out.columns) == list(estimator.get_feature_names_out()) == names
    assert list(out.index) == index
    with pytest.raises(ValueError, match="not equal to feature_names_in_"):
        estimator.get_feature_names_out(["a"] * X.shape[1])


@pytest.mark.parametrize("case", named(OF_TENSORS))
def test_tensors_are_refused_as_frames(case):
    X, estimator = case.data[0], case.fresh().fit(*case.data)
    with privacy.PrivacyBudget(1e6, 0.9) as budget:
        for library in ("pandas", "polars"):
            refused = pytest.raises(ValueError, match="do not fit into a data frame")
            with config_context(transform_output=library), refused:
                estimator.transform(X)
            estimator.set_output(transform=library)
            with refused:
                estimator.transform(X)
    assert budget.spent is None
    with pytest.raises(ValueError, match="no feature names"):
        estimator.get_feature_names_out()
    # As the message says.
    out = estimator.set_output(transform="default").transform(X)
    assert type(out) is np.ndarray


@pytest.mark.parametrize(
    "estimator",
    [
        CPCompletion(0, value_bounds=(0, 1), perturbation="input"),
        TuckerCompletion(1, value_bounds=(0, 1), perturbation="input", max_iter=1),
        BiScaler(1.0, value_bounds=(0, 1)),
    ],
    ids=str,
)
def test_a_completed_tensor_of_two_modes_is_a_frame(estimator):
    for library in ("pandas", "polars"):
        frame, index = frame_of(library, TENSOR)
        out = estimator.set_output(transform=library).fit_transform(frame)
        assert type(out) is type(frame)
        assert list(out.columns) == list(frame.columns)
        assert index is None or list(out.index) == index
    out = estimator.set_output(transform="pandas").fit_transform(TENSOR)
    assert list(out.columns) == ["x0", "x1", "x2"]
    tensor = np.stack([TENSOR, TENSOR])
    estimator.fit(tensor)
    with pytest.raises(ValueError, match="do not fit into a data frame"):
        estimator.transform(tensor)
    out = estimator.set_output(transform="default").transform(tensor)
    assert type(out) is np.ndarray
    pipeline = make_pipeline(estimator, FunctionTransformer())
    assert type(pipeline.set_output(transform="pandas")[0]) is type(estimator)


# --- diagrams ------------------------------------------------------------------------

CLASSES = list({type(case.estimator): case for case in CASES}.values())


@pytest.fixture
def published(monkeypatch):
    address = "https://documentation.test/stable"
    monkeypatch.setattr(*POINTS["address of the documentation"], lambda: address)
    return address


@pytest.mark.parametrize("case", named(CLASSES))
def test_diagrams_link_to_the_documentation(case, published):
    name = type(case.estimator).__name__
    link = case.estimator._get_doc_link()
    module, _, last = link.removeprefix(f"{published}/modules/generated/").rpartition(
        f".{name}"
    )
    assert last == ".html"
    # The page is that of a public name.
    assert name in importlib.import_module(module).__all__
    for shown in (
        case.estimator._repr_html_(),
        estimator_html_repr(make_pipeline(FunctionTransformer(), case.estimator)),
    ):
        assert f'href="{link}"' in shown


def test_an_estimator_of_a_user_has_no_page_here(published):
    class Own(CPCompletion):
        pass

    assert Own(0)._get_doc_link() == ""


def test_the_address_is_that_of_the_metadata(monkeypatch):
    asked = original("address of the documentation").__wrapped__
    for urls, address in (
        ([], ""),
        (["Source, https://source.test"], ""),
        (
            ["Source, https://s.test", "Documentation, https://d.test/"],
            "https://d.test",
        ),
    ):
        found = Message()
        for url in urls:
            found["Project-URL"] = url
        monkeypatch.setattr(metadata, "metadata", {"sktensordp": found}.__getitem__)
        assert asked() == address
    monkeypatch.setattr(*POINTS["address of the documentation"], lambda: "")
    assert "href=" not in estimator_html_repr(CoordinateEncoder())


# --- callbacks -----------------------------------------------------------------------


def heard(estimator, *data, **options):
    listener = Listener(**options)
    estimator.set_callbacks(listener).fit(*data)
    assert listener.heard[0] == "begin fit"
    assert listener.heard[-2:] == ["fit", "over"]
    assert listener.max_tasks is None or listener.n_tasks <= listener.max_tasks
    assert "callback" not in " ".join(vars(estimator).keys() - {"_skl_callbacks"})
    return listener


@pytest.mark.parametrize("case", slow_repeats(EVERY))
@needs_callbacks
def test_every_fit_calls_callbacks(case):
    listener = heard(case.fresh(), *case.data)
    if "n_iter" not in case.estimator.get_params(deep=False):
        assert listener.n_tasks or listener.max_tasks == 0
    else:
        # How many were tried, nobody learns.
        assert listener.heard == ["begin fit", "fit", "over"]


@pytest.mark.parametrize(
    ("estimator", "data"),
    [
        (
            make_pipeline(
                CoordinateEncoder(), CPCompletion(0, value_bounds=(0, 1), max_iter=2)
            ),
            (WHERE, VALUES),
        ),
        (
            make_pipeline(
                mechanisms.LaplaceMechanism(bounds=(0, 1)),
                TaskAwareEncoder(1.0, task=[[1.0, 1.0, 0.0]]),
            ),
            (ROWS,),
        ),
    ],
    ids=["ratings", "samples"],
)
@needs_callbacks
def test_a_pipeline_passes_callbacks_on(estimator, data, capsys):
    # scikit-learn warns of steps that have none.
    estimator.set_callbacks(ProgressBar()).fit(*data)
    shown = capsys.readouterr().out
    assert all(f"{type(step).__name__} - fit" in shown for step in estimator)


class Squares:
    """A task that is not linear."""

    def outputs(self, X):
        return np.square(X).sum(axis=1, keepdims=True)

    def value_and_gradient(self, X_hat, targets):
        missing = self.outputs(X_hat) - targets
        return float(np.mean(missing**2)), 4 * missing * X_hat / len(X_hat)


X = np.random.default_rng(0).normal(size=(60, 3))
LONG = {
    "L-BFGS": (TaskAwareEncoder(2.0, task=Squares(), n_components=1), (X,)),
    "Adam": (PublishedTaskAwareEncoder(2.0, task=Squares()), (X,)),
    "raw scaling": (BiScaler(), (WHERE[1:9], VALUES[::-1][:8] ** 3)),
    "sweeps": (
        CPCompletion(1, perturbation="input", value_bounds=(0, 1), max_iter=9),
        (WHERE, VALUES),
    ),
}


@pytest.mark.filterwarnings("ignore:PublishedTask", "ignore:epsilon is None")
@pytest.mark.parametrize("which", LONG)
@needs_callbacks
def test_a_callback_ends_a_long_fit(which):
    estimator, data = LONG[which]
    listener = heard(estimator, *data, stop_after=4)
    # Where there are several trainings, each ends.
    assert 4 <= listener.n_tasks <= 8
    output = getattr(estimator, "unscale_values", estimator.fit)
    assert output(*data) is not None
    estimator.set_callbacks()


@pytest.mark.thorough
@needs_callbacks
def test_listening_changes_nothing():
    alone, watched = (
        TaskAwareEncoder(2.0, task=Squares(), n_components=1, random_state=0)
        for _ in range(2)
    )
    assert heard(watched, X).n_tasks > 20
    np.testing.assert_array_equal(watched.transform(X), alone.fit(X).transform(X))


# --- texts ---------------------------------------------------------------------------


def has_address(shown):
    return re.search(r"<[^<>]*( at 0x|\bobject\b)[^<>]*>", shown)


@pytest.mark.parametrize("case", named(CLASSES))
def test_what_is_fitted_prints(case):
    estimator, _ = case.release()
    shown = {name: repr(value) for name, value in vars(estimator).items()
             if not name.startswith("_")}  # fmt: skip
    shown["self"] = repr(estimator)
    if hasattr(estimator, "client"):
        client = estimator.client()
        shown["client"] = repr(client)
        guarantee = client.privacy_guarantee_
        numbers = f"epsilon={guarantee.epsilon:g}, delta={guarantee.delta:g}"
        assert shown["client"] in (
            f"EncoderClient(sample_shape=(3,), {numbers})",
            "CompletionClient(epsilon=1)",
        )
    assert not {name: text for name, text in shown.items() if has_address(text)}


def test_what_is_found_prints():
    laplace = mechanisms.LaplaceMechanism(bounds=(0, 1)).fit(ROWS)
    with privacy.PrivacyBudget(3.0) as budget:
        released = laplace.transform(ROWS)
    found = [
        budget,
        laplace.privacy_guarantee_,
        privacy.privacy_of(laplace),
        mechanisms.estimate_mean(released),
        model_selection.expected_error(laplace, ROWS, epsilons=[1.0, 2.0]),
        audit.audit_mechanism(lambda x: x, 0.0, 1.0, n_trials=100),
        noise.laplace_lattice(0, 1, 1.0),
        noise.gaussian_lattice(1.0, 3, 1.0, 1e-5),
        make_fold_in_scorer("neg_root_mean_squared_error", fold_in_fraction=0.5),
    ]
    for one in found:
        assert not has_address(repr(one)), repr(one)
        assert not has_address(str(one))


def test_no_public_class_prints_as_an_address():
    """But for displays, which scikit-learn's do, too, and what others inherit."""
    assert not [
        name
        for name, value in public()
        if inspect.isclass(value) and value.__repr__ is object.__repr__
        if not name.startswith("plotting.")
        if not (name.endswith("Mixin") or Protocol in value.__bases__)
    ]


def conditional_methods(estimator):
    """Names of our methods that a condition hides here, with the errors."""
    for name in dir(type(estimator)):
        method = inspect.getattr_static(estimator, name)
        # Searches inherit some of scikit-learn's.
        if hasattr(method, "check") and method.fn.__module__.startswith("sktensordp."):
            try:
                getattr(estimator, name)
            except AttributeError as error:
                yield name, error


def test_a_method_that_is_missing_says_why():
    """Of every estimator as it is made, and of those that a fit takes methods from."""
    estimators = [case.fresh() for case in CASES]
    estimators += [BiScaler(1.0, value_bounds=(0, 1)).fit(WHERE, VALUES)]
    estimators += [CPCompletion(0, value_bounds=(0, 1)).fit(WHERE, VALUES)]
    seen = set()
    for estimator in estimators:
        kind = type(estimator).__name__
        for name, error in conditional_methods(estimator):
            prefix = f"This {kind!r} has no attribute {name!r}: "
            assert str(error).startswith(prefix)
            assert len(str(error)) > len(prefix) + 20
            seen.add(name)
    assert seen >= {
        "client", "fit_randomized", "fit_transform", "fold_in",
        "inverse_transform", "partial_fit", "score", "transform",
    }  # fmt: skip
