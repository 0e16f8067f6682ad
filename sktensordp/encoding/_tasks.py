"""Tasks with gradients: the loss of a downstream model on an estimate of a sample.

The loss of an estimate x_hat compares f(x_hat) with targets. By default, the targets
are the soft outputs f(x), since an encoder would learn labels by heart.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_softmax, softmax

# Activations by scikit-learn's names, with their derivatives as functions of the
# activation's output.
_ACTIVATIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "identity": (lambda z: z, np.ones_like),
    "logistic": (expit, lambda a: a * (1 - a)),
    "tanh": (np.tanh, lambda a: 1 - np.square(a)),
    "relu": (lambda z: np.maximum(z, 0.0), lambda a: (a > 0).astype(float)),
}
_LINKS: dict[str, Callable[[Any], Any]] = {
    "identity": lambda z: z,
    "logistic": expit,
    "softmax": lambda z: softmax(z, axis=1),
}
# Largest number of rows for the metric of an object that offers only gradients.
_MOST_ROWS = 500
# Step of that metric's finite differences, in standard deviations of a column.
_STEP = 1e-2


class Task(Protocol):
    """The task of an encoder: `NetworkTask`, `TorchTask`, or an object of the user.

    It may lack ``outputs``, if there are targets.
    """

    def value_and_gradient(
        self, X_hat: NDArray[np.floating], targets: NDArray[Any], /
    ) -> tuple[float, NDArray[np.float64]]:
        """Mean loss of estimates, and its gradient."""

    def outputs(self, X: NDArray[np.floating], /) -> NDArray[np.float64]:
        """Outputs for samples, which are the targets of their estimates."""


@dataclass(frozen=True)
class NetworkTask:
    """A feedforward network: linear models, logistic regression, perceptrons.

    The loss is the mean over samples of the cross-entropy of targets and outputs
    (link "logistic", summed over outputs, or "softmax"), or of the squared error,
    summed over outputs (link "identity").

    Attributes
    ----------
    weights : tuple of ndarray of shape (n_in, n_out)
        Weights of each layer.
    biases : tuple of ndarray of shape (n_out,)
    activation : {"identity", "logistic", "tanh", "relu"}
        Activation of the hidden layers.
    link : {"identity", "logistic", "softmax"}
        Activation of the last layer.
    """

    weights: tuple[NDArray[np.float64], ...]
    biases: tuple[NDArray[np.float64], ...]
    activation: str
    link: str

    @property
    def n_features(self) -> int:
        """Size of a sample."""
        return len(self.weights[0])

    def _layers(
        self, X: NDArray[np.floating]
    ) -> tuple[list[NDArray[np.float64]], NDArray[np.float64]]:
        """Outputs of the hidden layers, and the logits."""
        activation = _ACTIVATIONS[self.activation][0]
        hidden, layer = [], np.asarray(X, dtype=float)
        for weights, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            layer = activation(layer @ weights + bias)
            hidden.append(layer)
        return hidden, layer @ self.weights[-1] + self.biases[-1]

    def _backward(
        self, hidden: list[NDArray[np.float64]], cotangents: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Gradient of <logits, cotangents> in the samples."""
        derivative = _ACTIVATIONS[self.activation][1]
        for weights, outputs in zip(self.weights[:0:-1], hidden[::-1], strict=True):
            cotangents = (cotangents @ weights.T) * derivative(outputs)
        return cotangents @ self.weights[0].T

    def outputs(self, X: NDArray[np.floating]) -> NDArray[np.float64]:
        """Outputs f(x): probabilities, or predictions of a regression.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)

        Returns
        -------
        outputs : ndarray of shape (n_samples, n_outputs)
        """
        return _LINKS[self.link](self._layers(X)[1])

    def value_and_gradient(
        self, X_hat: NDArray[np.floating], targets: NDArray[np.float64]
    ) -> tuple[float, NDArray[np.float64]]:
        """Mean loss of estimates, and its gradient.

        Parameters
        ----------
        X_hat : ndarray of shape (n_samples, n_features)
        targets : ndarray of shape (n_samples, n_outputs)
            As `outputs` returns them; the rows sum to one for the link "softmax".

        Returns
        -------
        value : float
        gradient : ndarray of shape (n_samples, n_features)
        """
        hidden, logits = self._layers(X_hat)
        if self.link == "identity":
            error = logits - targets
            value, slopes = np.square(error).sum(), 2 * error
        elif self.link == "logistic":
            value = (np.logaddexp(0, logits) - targets * logits).sum()
            slopes = expit(logits) - targets
        else:
            value = -(targets * log_softmax(logits, axis=1)).sum()
            slopes = softmax(logits, axis=1) - targets
        n_samples = len(logits)
        gradient = self._backward(hidden, slopes / n_samples)
        return float(value) / n_samples, gradient

    def metric(self, X: NDArray[np.floating], *, curved: bool) -> NDArray[np.float64]:
        """Mean over samples of J^T H J or of J^T J.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
        curved : bool
            If True, H is the Hessian of the loss in the logits (Gauss-Newton), or half
            of it for squared errors. If False, H is the identity; for a softmax, it
            acts on the logits less their mean, since a softmax depends on nothing else.

        Returns
        -------
        metric : ndarray of shape (n_features, n_features)
        """
        hidden, logits = self._layers(X)
        weights = np.ones_like(logits)
        if self.link == "logistic" and curved:
            weights = expit(logits) * expit(-logits)
        if self.link == "softmax":
            weights = softmax(logits, axis=1) if curved else weights / weights.shape[1]
            centre = self._backward(hidden, weights)
        metric = np.zeros((self.n_features, self.n_features))
        for output, weight in enumerate(weights.T):
            cotangents = np.zeros_like(logits)
            cotangents[:, output] = 1.0
            jacobian = self._backward(hidden, cotangents)
            if self.link == "softmax":
                jacobian -= centre
            metric += jacobian.T @ (weight[:, np.newaxis] * jacobian)
        return metric / len(logits)


def check_gradient(
    task: Task, X_hat: NDArray[np.floating], targets: NDArray[Any]
) -> float:
    """Call a task once, and raise if it does not return a loss and a gradient.

    Parameters
    ----------
    task : object
        With ``value_and_gradient(X_hat, targets)``.
    X_hat : ndarray of shape (n_samples, n_features)
    targets : ndarray of shape (n_samples, ...)

    Returns
    -------
    value : float
        Mean loss of the estimates.

    Raises
    ------
    TypeError
        If the task does not return a number and an array of numbers.
    ValueError
        If the gradient has another shape than `X_hat`, or the loss or the gradient is
        not finite.
    """
    result = task.value_and_gradient(X_hat, targets)
    try:
        value, gradient = float(result[0]), np.asarray(result[1], dtype=float)
    except (TypeError, ValueError, IndexError) as error:
        raise TypeError(
            "value_and_gradient of the task must return a number and an array of "
            "numbers."
        ) from error
    if gradient.shape != X_hat.shape:
        raise ValueError(
            f"The gradient from value_and_gradient of the task must have the shape of "
            f"the estimates, {X_hat.shape}, got {gradient.shape}."
        )
    if not (np.isfinite(value) and np.all(np.isfinite(gradient))):
        raise ValueError(
            "value_and_gradient of the task returned a loss or a gradient that is not "
            "finite."
        )
    return value


def linearised(
    task: Task,
    X: NDArray[np.floating],
    targets: NDArray[Any],
    scale: NDArray[np.float64],
    *,
    curved: bool,
) -> NDArray[np.float64]:
    """Matrix G such that the loss of x + d grows by about d^T G d on average.

    For an object that offers only gradients, G is half the mean Hessian of the loss, by
    central differences, without its negative part.

    Parameters
    ----------
    task : NetworkTask or object
    X : ndarray of shape (n_samples, n_features)
    targets : ndarray of shape (n_samples, ...)
    scale : ndarray of shape (n_features,)
        Standard deviations of the columns.
    curved : bool
        As in `NetworkTask.metric`; ignored for other objects.

    Returns
    -------
    metric : ndarray of shape (n_features, n_features)
        Up to a factor; symmetric and positive semidefinite.
    """
    if isinstance(task, NetworkTask):
        return task.metric(X, curved=curved)
    chosen = np.linspace(0, len(X) - 1, min(len(X), _MOST_ROWS)).astype(int)
    rows, chosen_targets = np.asarray(X, dtype=float)[chosen], targets[chosen]
    n_features = X.shape[1]
    hessian = np.empty((n_features, n_features))
    for column, step in enumerate(_STEP * scale):
        slopes = []
        for sign in (-1, 1):
            shifted = rows.copy()
            shifted[:, column] += sign * step
            gradient = task.value_and_gradient(shifted, chosen_targets)[1]
            slopes.append(np.sum(gradient, axis=0, dtype=float))
        hessian[column] = (slopes[1] - slopes[0]) / (2 * step)
    # Standardise the columns, so that rounding errors are small in all of them.
    hessian *= np.outer(scale, scale)
    values, vectors = np.linalg.eigh((hessian + hessian.T) / 4)
    metric = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return metric / np.outer(scale, scale)
