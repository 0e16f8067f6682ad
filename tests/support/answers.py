"""Every public answer of a fitted estimator that draws no fresh noise."""

import warnings

import numpy as np

from sktensordp.privacy import privacy_of
from tests.golden import hashed, parts

# By method, what it is asked: a function of the method, X, and y or None. Those that
# change the estimator come last.
ASKED = {
    "client": lambda ask, X, y: ask(random_state=0).to_json(),
    "decision_function": lambda ask, X, y: ask(X),
    "decode": lambda ask, X, y: ask(np.ones((2, 3))) if X.ndim == 2 else None,
    "encode": lambda ask, X, y: ask([*X.T]),
    "expected_std": lambda ask, X, y: ask([0]),
    "get_feature_names_out": lambda ask, X, y: ask(),
    "ids": lambda ask, X, y: [ask(np.unique(X[:, 1]), 1), ask([0], 0)],
    "interval": lambda ask, X, y: ask(0.9),
    "inverse_transform": lambda ask, X, y: ask(X),
    "marginal": lambda ask, X, y: ask([0], return_std=True),
    "planned_guarantee": lambda ask, X, y: repr(ask(X)),
    "predict": lambda ask, X, y: ask(X),
    "predict_proba": lambda ask, X, y: ask(X),
    "recommend": lambda ask, X, y: ask([0, 3, 2], k=2),
    "sample_users": lambda ask, X, y: ask(5, random_state=0),
    "scale_values": lambda ask, X, y: ask(X, y),
    "score": lambda ask, X, y: ask(X) if y is None else ask(X, y),
    "similar_items": lambda ask, X, y: ask([0, 1], k=2),
    "split": lambda ask, X, y: ask(X),
    "table": lambda ask, X, y: ask([0]),
    "total": lambda ask, X, y: ask({0: [0]}, return_std=True),
    "unscale_values": lambda ask, X, y: ask(X, np.zeros(len(X))),
    "variance": lambda ask, X, y: ask(X),
    # With an int as random state, noise follows from it and the number of releases.
    "transform": lambda ask, X, y: ask(X),
    "privatize": lambda ask, X, y: ask(X),
    "fold_in": lambda ask, X, y: _after(ask(*_some(X, y)), X),
    "forget": lambda ask, X, y: _after(ask([0]), X),
}  # fmt: skip
# What fits, sets, or asks an estimator that a search has found.
NOT_ASKED = {
    "fit", "fit_batches", "fit_randomized", "fit_transform", "partial_fit",
    "get_metadata_routing", "get_params", "predict_log_proba", "score_samples",
    "to_json", "from_json",
}  # fmt: skip


def _some(X, y):
    return (X[:2],) if y is None else (X[:2], y[:2])


def _after(estimator, X):
    return [estimator.predict(X), estimator.recommend([0, 3], k=2)]


def methods_of(kind):
    """Public methods of a class, without the setters of scikit-learn."""
    public = {name for name in dir(kind) if name[0] != "_" and name[:4] != "set_"}
    return {name for name in public if callable(getattr(kind, name, None))}


def answers_of(estimator, X, y=None):
    """Hashes of every answer, by the method; of its message where it refuses."""
    said = {name: hashed(value) for name, value in _told(estimator).items()}
    for name, asked in ASKED.items():
        ask = getattr(estimator, name, None)
        if ask is None:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                said[name] = hashed(asked(ask, X, y))
            except (ValueError, TypeError, AttributeError) as error:
                said[f"{name}, refused"] = hashed(str(error))
    return said


def _told(estimator):
    """What attributes say, and the guarantees."""
    if not hasattr(type(estimator), "privacy_guarantee_") and not hasattr(
        estimator, "privacy_guarantee_"
    ):
        return {"text": str(estimator)}
    return parts(estimator) | {
        "text": str(estimator),
        "releases": repr(privacy_of(estimator).releases),
        "ids": getattr(estimator, "release_ids_", ()),
    }
