"""Fitted scikit-learn models as tasks."""

import warnings

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, is_classifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    RobustScaler,
    StandardScaler,
)

from ._tasks import _ACTIVATIONS, _LINKS, NetworkTask, Task

# Rows on which a network is compared with its model, and the tolerance.
_PROBES, _TOLERANCE = 50, 1e-4
# Scalers that are affine in each column, of exactly these types.
_SCALERS = (StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler)


def task_of(model: BaseEstimator, X: NDArray[np.floating]) -> Task:
    """Turn a model into a task with gradients.

    Parameters
    ----------
    model : object
        An object with ``value_and_gradient(X_hat, targets)``, which is returned
        unchanged; or a fitted multilayer perceptron, logistic regression or linear
        regression, which may come after scalers in a Pipeline.
    X : ndarray of shape (n_samples, n_features)
        Samples on which the task is compared with the model's own outputs.

    Returns
    -------
    task : NetworkTask or object

    Raises
    ------
    TypeError
        If the model is none of these, or is not fitted.
    ValueError
        If the model takes samples of another size, or its outputs do not follow from
        its weights.
    """
    if callable(getattr(model, "value_and_gradient", None)):
        return model
    scalers, last = [], model
    if isinstance(model, Pipeline):
        steps = [step for _, step in model.steps if step not in (None, "passthrough")]
        *scalers, last = steps
    task = _network(last)
    for scaler in reversed(scalers):
        task = _with_scaler(scaler, task)
    if task.n_features != X.shape[1]:
        raise ValueError(
            f"The model passed as `task` takes samples with {task.n_features} entries, "
            f"but the samples in X have {X.shape[1]}."
        )
    probes = X[:_PROBES]
    expected, outputs = _model_outputs(model, probes), task.outputs(probes)
    alike = expected.shape == outputs.shape
    if not (alike and np.allclose(expected, outputs, _TOLERANCE, _TOLERANCE)):
        raise ValueError(
            f"{type(last).__name__} cannot be a `task`, since its predictions do not "
            f"follow from its weights. Leave `task=None` and pass `y`, or pass an "
            f"object with value_and_gradient(X_hat, targets)."
        )
    return task


def _network(model: BaseEstimator) -> NetworkTask:
    """The network with the layers of a fitted model."""
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
        raise ValueError(
            f"{name} cannot be a `task`, since its activation is not supported. Leave "
            f"`task=None` and pass `y`, or pass an object with "
            f"value_and_gradient(X_hat, targets)."
        )
    return NetworkTask(
        tuple(np.array(layer, dtype=float) for layer in weights),
        tuple(np.array(layer, dtype=float) for layer in biases),
        activation,
        link,
    )


def _with_scaler(scaler: BaseEstimator, task: NetworkTask) -> NetworkTask:
    """The task with a scaler folded into its first layer."""
    factor, shift = _affine(scaler)
    first = task.weights[0] * factor[:, np.newaxis]
    weights = (first, *task.weights[1:])
    biases = (task.biases[0] + shift @ task.weights[0], *task.biases[1:])
    return NetworkTask(weights, biases, task.activation, task.link)


def _affine(
    scaler: BaseEstimator,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Factor and shift of each column, by which a fitted scaler transforms it."""
    kind = type(scaler)
    if kind not in _SCALERS or not hasattr(scaler, "n_features_in_"):
        *names, last = (known.__name__ for known in _SCALERS)
        raise TypeError(
            f"In a Pipeline passed as `task`, only fitted scalers of scikit-learn may "
            f"come before the model ({', '.join(names)} or {last}), got "
            f"{kind.__name__}."
        )
    if getattr(scaler, "clip", False):
        raise ValueError(
            f"A {kind.__name__} with clip=True has no gradient beyond its range. Pass "
            f"a `task` whose scaler has clip=False."
        )
    ones = np.ones(scaler.n_features_in_)
    if kind is MinMaxScaler:
        return ones * scaler.scale_, ones * scaler.min_
    scale, centre = scaler.scale_, None
    if kind is StandardScaler:
        centre = scaler.mean_ if scaler.with_mean else None
    elif kind is RobustScaler:
        centre = scaler.center_
    factor = ones if scale is None else ones / scale
    return factor, 0 * ones if centre is None else -centre * factor


def _model_outputs(
    model: BaseEstimator, probes: NDArray[np.floating]
) -> NDArray[np.float64]:
    """The model's predictions, in the form of `NetworkTask.outputs`."""
    with warnings.catch_warnings():
        # Models fitted to a data frame warn about columns without names.
        warnings.simplefilter("ignore")
        if not is_classifier(model):
            return np.reshape(model.predict(probes), (len(probes), -1))
        outputs = np.asarray(model.predict_proba(probes))
    # Two classes have one output; otherwise every class or label has one.
    two = outputs.shape[1] == 2 and np.size(model.classes_) == 2
    return outputs[:, 1:] if two and np.allclose(outputs.sum(axis=1), 1) else outputs
