"""Moments that hold little: what is said follows from released numbers alone."""

import warnings

import numpy as np
import pytest

from sktensordp.exceptions import NoiseOnlyWarning
from sktensordp.model_selection import PrivateSearchCV
from sktensordp.moments import (
    MultilinearPCA,
    MultilinearRidge,
    MultilinearRidgeClassifier,
)

RNG = np.random.default_rng(0)
N = 3000
CLASSES = np.arange(N) % 3
X = RNG.normal(scale=0.1, size=(N, 4)) + np.eye(3, 4)[CLASSES] * 0.8
Y = X @ [1.0, -1.0, 0.5, 0.0]


def classifier(classes=range(3), **changes):
    return MultilinearRidgeClassifier(
        **{"n_components": (4,), "epsilon": 4.0, "norm_bound": 1.0, "classes": classes,
           "random_state": 0, **changes}
    )  # fmt: skip


def ridge(bounds=(-2, 2), **changes):
    return MultilinearRidge(
        **{"n_components": (4,), "epsilon": 4.0, "norm_bound": 1.0,
           "target_bounds": bounds, "random_state": 0, **changes}
    )  # fmt: skip


def pca(**changes):
    return MultilinearPCA(**{"n_components": (1,), "norm_bound": 1.0, "random_state": 0,
                             **changes})  # fmt: skip


MISTAKES = {
    "ten samples": (lambda: pca().fit(X[:10]), "components hold little but noise"),
    "a norm bound of 1000": (
        lambda: pca(norm_bound=1000.0).fit(X), "components hold little but noise"
    ),
    "hardly any epsilon": (
        lambda: classifier(epsilon=0.01).fit(X, CLASSES), "holds little but noise"
    ),
    "a class that nobody has": (
        lambda: classifier(range(5)).fit(X, CLASSES), "no sample has the class 3 or 4"
    ),
    "another spelling": (
        lambda: classifier(["a", "b", "C"]).fit(X, np.array(list("abc"))[CLASSES]),
        "no sample has the class 'C'",
    ),
    "many that nobody has": (
        lambda: classifier(range(9)).fit(X, CLASSES), "the class 3 or 4 or 5 or ...:"
    ),
    "of batches": (
        lambda: classifier(range(5)).fit_batches([(X, CLASSES)]), "the class 3 or 4"
    ),
    "of people": (
        lambda: classifier(range(5)).fit(X, CLASSES, groups=np.arange(N) // 2 * 2),
        "the class 3 or 4",
    ),
    "no class": (lambda: classifier().fit(X, CLASSES + 9), "one of the classes"),
    "targets above": (lambda: ridge((-9, -5)).fit(X, Y), "the upper end"),
    "targets below": (lambda: ridge((5, 9)).fit(X, Y), "the lower end"),
    "a range a million times too wide": (
        lambda: ridge((-1e6, 1e6)).fit(X, Y), "a small part of target_bounds"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("fit", "said"), MISTAKES.values(), ids=MISTAKES)
def test_a_fit_that_holds_little_says_why(fit, said):
    with pytest.warns(NoiseOnlyWarning, match=said):
        fit()


SILENT = {
    "classes": lambda: classifier().fit(X, CLASSES),
    "a rare class": lambda: classifier(range(4)).fit(
        X, np.where(np.arange(N) < 200, 3, CLASSES)
    ),
    "targets": lambda: ridge().fit(X, Y).predict(X),
    "targets of two values": lambda: ridge((0, 1)).fit(X, CLASSES == 0),
    "no noise": lambda: classifier(epsilon=np.inf).fit(X, CLASSES),
    "components": lambda: pca().fit(X),
    "long samples of classes": lambda: classifier().fit(X, CLASSES).predict(X * 1e3),
    "some long samples": lambda: ridge().fit(X, Y).predict(
        X * np.where(np.arange(N) < 1400, 1e3, 1)[:, None]
    ),
    "no norm bound": lambda: ridge(norm_bound=None, epsilon=np.inf).fit(X, Y).predict(
        X * 1e3
    ),
}  # fmt: skip


@pytest.mark.parametrize("call", SILENT.values(), ids=SILENT)
def test_nothing_is_said_of_what_is_well(call):
    with warnings.catch_warnings(action="error"):
        call()


def test_noise_that_hides_any_class_names_none():
    with pytest.warns(NoiseOnlyWarning) as caught:
        classifier(range(5), epsilon=0.002).fit(X, CLASSES)
    assert "no sample has the class" not in str(caught[0].message)


LONG = {
    "predict": lambda model: model.predict(X * 5),
    "score": lambda model: model.score(X * 5, Y),
    "in units": lambda model: model.set_params(scale=0.2).fit(X, Y).predict(X),
    "about an offset": lambda model: model.set_params(offset=5.0).fit(X, Y).predict(X),
}


@pytest.mark.parametrize("call", LONG.values(), ids=LONG)
def test_samples_that_are_far_longer_than_those_of_the_fit(call):
    model = ridge().fit(X, Y)
    with pytest.warns(UserWarning, match="4 times as long as norm_bound_ = 1, "):
        call(model)


def test_a_private_search_says_nothing_of_its_samples():
    search = PrivateSearchCV(
        ridge(norm_bound=0.01), {"alpha": [0.1, 1.0]}, score_bounds=(0, 1), n_iter=2
    )
    with warnings.catch_warnings(record=True, action="always") as caught:
        search.fit(X, Y)
    assert not [one for one in caught if "as long as" in str(one.message)]


@pytest.mark.parametrize(
    "batches",
    [
        [X[:60], X[60:]],
        [(X[:60],)],
        list(zip(X[:60], CLASSES[:60], strict=True)),
        list(zip(X[:60], CLASSES[:60].tolist(), strict=True)),
    ],
    ids=["no targets", "no targets in tuples", "samples", "samples and numbers"],
)
def test_a_batch_is_samples_and_their_targets(batches):
    """Else it says so, and not how many components a sample has."""
    with pytest.raises(ValueError, match=r"Each batch must be a pair \(X, y\)"):
        classifier().fit_batches(batches)
    with pytest.raises(ValueError, match=r"Each batch must be a pair \(X, y\)"):
        ridge().fit_batches(batches)
