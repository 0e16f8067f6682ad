"""Fitted models, recognised as tasks."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from ._tasks import _ACTIVATIONS, _LINKS, NetworkTask

__all__ = ["task_of"]

# Rows that a network is compared with its model on, and how far it may be off.
_PROBES, _TOLERANCE = 50, 1e-4


def task_of(model: Any, X: NDArray[np.floating]) -> Any:
    """The task of a model.

    Parameters
    ----------
    model : object
        With ``value_and_gradient(X_hat, targets)``, which is returned as it is; or a
        fitted multilayer perceptron, logistic regression or linear regression, which
        may follow on StandardScalers in a Pipeline.
    X : ndarray of shape (n_samples, n_features)
        Samples to compare what was recognised with the model's own answers on.

    Returns
    -------
    task : NetworkTask or object

    Raises
    ------
    TypeError
        If it is none of these, or not fitted.
    ValueError
        If the model takes other samples, or answers otherwise than its weights say.
    """
    if callable(getattr(model, "value_and_gradient", None)):
        return model
    scalers, last = [], model
    if isinstance(model, Pipeline):
        steps = [step for _, step in model.steps if step not in (None, "passthrough")]
        *scalers, last = steps
    task = _network(last)
    for scaler in reversed(scalers):
        task = _after(scaler, task)
    if task.n_features != X.shape[1]:
        raise ValueError(
            f"The task's model takes samples of {task.n_features} entries, but these "
            f"have {X.shape[1]}."
        )
    probes = X[:_PROBES]
    answers, found = _answers(model, probes), task.outputs(probes)
    near = answers.shape == found.shape
    if not (near and np.allclose(answers, found, _TOLERANCE, _TOLERANCE)):
        raise ValueError(
            f"{type(last).__name__} cannot be a `task`, since its predictions do not "
            f"follow from its weights. Leave `task=None` and pass `y`, or pass an "
            f"object with value_and_gradient(X_hat, targets)."
        )
    return task


def _network(model: Any) -> NetworkTask:
    """Layers of a fitted model."""
    name = type(model).__name__
    coefficients = getattr(model, "coef_", None)
    if hasattr(model, "coefs_"):
        activation, link = model.activation, model.out_activation_
        weights, biases = model.coefs_, model.intercepts_
    elif coefficients is not None and hasattr(model, "intercept_"):
        matrix = np.atleast_2d(coefficients)
        weights = [matrix.T]
        biases = [np.broadcast_to(model.intercept_, len(matrix))]
        activation, link = "identity", "identity"
        if is_classifier(model):
            link = "logistic" if len(matrix) == 1 else "softmax"
    else:
        raise TypeError(
            f"{name} cannot be a `task`, since it has no gradients or has not been "
            f"fitted. Leave `task=None` and pass `y`, for example the predictions of "
            f"this model. Or pass as `task` a fitted multilayer perceptron, logistic "
            f"regression or linear regression of scikit-learn, or an object with "
            f"value_and_gradient(X_hat, targets)."
        )
    if is_classifier(model) and not hasattr(model, "predict_proba"):
        raise TypeError(
            f"{name} cannot be a `task`, since it has no predict_proba. Leave "
            f"`task=None` and pass `y`, or pass a fitted LogisticRegression."
        )
    if activation not in _ACTIVATIONS or link not in _LINKS:
        raise ValueError(f"{name} has an activation that is not known here.")
    return NetworkTask(
        tuple(np.array(part, dtype=float) for part in weights),
        tuple(np.array(part, dtype=float) for part in biases),
        activation,
        link,
    )


def _after(scaler: Any, task: NetworkTask) -> NetworkTask:
    """The task, of samples that the scaler has yet to be applied to."""
    if not isinstance(scaler, StandardScaler) or not hasattr(scaler, "n_features_in_"):
        raise TypeError(
            f"In a Pipeline, only fitted StandardScalers may come before the model, "
            f"got {type(scaler).__name__}."
        )
    size = scaler.n_features_in_
    scale = np.ones(size) if scaler.scale_ is None else scaler.scale_
    mean = scaler.mean_ if scaler.with_mean else np.zeros(size)
    first = task.weights[0] / scale[:, np.newaxis]
    weights = (first, *task.weights[1:])
    biases = (task.biases[0] - mean @ first, *task.biases[1:])
    return NetworkTask(weights, biases, task.activation, task.link)


def _answers(model: Any, probes: NDArray[np.floating]) -> NDArray[np.float64]:
    """What `NetworkTask.outputs` should be."""
    with warnings.catch_warnings():
        # Models fitted to a data frame warn of columns without names.
        warnings.simplefilter("ignore")
        if not is_classifier(model):
            return np.reshape(model.predict(probes), (len(probes), -1))
        answers = np.asarray(model.predict_proba(probes))
    # One probability for two classes; as many as there are labels or classes else.
    two = answers.shape[1] == 2 and np.size(model.classes_) == 2
    return answers[:, 1:] if two and np.allclose(answers.sum(axis=1), 1) else answers
