"""Maps between samples and codes: affine, with an optional hidden layer."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


def in_columns(
    rows: NDArray[np.float64],
    mean: NDArray[np.float64],
    scale: NDArray[np.float64],
    columns: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Convert standardised rows to the original columns.

    Parameters
    ----------
    rows : ndarray of shape (n_samples, n_features)
        Standardised.
    mean, scale : ndarray of shape (n,)
        Mean and scale of the original columns.
    columns : ndarray of int, shape (n_features,)
        The columns of `rows`; the other columns get their mean.

    Returns
    -------
    X : ndarray of shape (n_samples, n)
    """
    if len(columns) == len(mean):
        return mean + scale * rows
    full = np.tile(mean, (len(rows), 1))
    full[:, columns] += scale[columns] * rows
    return full


@dataclass(frozen=True)
class MapShape:
    """Shape of a map x A + b + tanh(x V + c) B, with its parameters in one vector.

    A subclass may have another ufunc as `activation`, and its `derivative`.

    Attributes
    ----------
    n_inputs, n_hidden, n_outputs : int
        With ``n_hidden=0`` the map is affine.
    """

    n_inputs: int
    n_hidden: int
    n_outputs: int
    activation = np.tanh

    @staticmethod
    def derivative(hidden: NDArray[np.float64]) -> NDArray[np.float64]:
        """Derivative of the activation, from its outputs."""
        return 1 - np.square(hidden)

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of A, b, V, c and B."""
        wide = (self.n_inputs, self.n_hidden), (self.n_hidden,)
        affine = (self.n_inputs, self.n_outputs), (self.n_outputs,)
        return (*affine, *wide, (self.n_hidden, self.n_outputs))

    @property
    def size(self) -> int:
        """Number of parameters."""
        return sum(int(np.prod(shape)) for shape in self.shapes)

    @property
    def weights(self) -> NDArray[np.float64]:
        """Vector with one for every weight and zero for every bias."""
        return np.concatenate(
            [np.full(np.prod(shape), float(len(shape) == 2)) for shape in self.shapes]
        )

    def split(self, vector: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """A, b, V, c and B, as views of `vector`."""
        arrays, start = [], 0
        for shape in self.shapes:
            stop = start + int(np.prod(shape))
            arrays.append(vector[start:stop].reshape(shape))
            start = stop
        return arrays

    def random(self, rng: np.random.Generator) -> NDArray[np.float64]:
        """Parameters with random weights and zero biases."""
        arrays = [
            rng.uniform(-1, 1, shape) / np.sqrt(shape[0])
            if len(shape) == 2
            else np.zeros(shape)
            for shape in self.shapes
        ]
        return np.concatenate([array.ravel() for array in arrays])

    def forward(
        self, vector: NDArray[np.float64], rows: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        """Outputs of the map, and of its hidden layer."""
        A, b, V, c, B = self.split(vector)
        outputs = rows @ A + b
        if not self.n_hidden:
            return outputs, None
        hidden = rows @ V
        hidden += c
        self.activation(hidden, out=hidden)
        outputs += hidden @ B
        return outputs, hidden

    def gradient(
        self,
        vector: NDArray[np.float64],
        rows: NDArray[np.float64],
        hidden: NDArray[np.float64] | None,
        slopes: NDArray[np.float64],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        """Gradient in the parameters, and in the hidden layer's input.

        `slopes` is the gradient in the outputs.
        """
        B = self.split(vector)[4]
        gradient = np.zeros_like(vector)
        grad_A, grad_b, grad_V, grad_c, grad_B = self.split(gradient)
        np.matmul(rows.T, slopes, out=grad_A)
        grad_b[:] = slopes.sum(axis=0)
        if not self.n_hidden:
            return gradient, None
        assert hidden is not None
        inner = slopes @ B.T
        inner *= self.derivative(hidden)
        np.matmul(hidden.T, slopes, out=grad_B)
        np.matmul(rows.T, inner, out=grad_V)
        grad_c[:] = inner.sum(axis=0)
        return gradient, inner

    def input_gradient(
        self,
        vector: NDArray[np.float64],
        slopes: NDArray[np.float64],
        inner: NDArray[np.float64] | None,
    ) -> NDArray[np.float64]:
        """Gradient in the rows; `inner` is the second result of `gradient`."""
        A, _, V, _, _ = self.split(vector)
        affine = slopes @ A.T
        return affine if inner is None else affine + inner @ V.T


@dataclass(frozen=True)
class CodeMap:
    """A map from rows to rows.

    Attributes
    ----------
    shape : MapShape
    vector : ndarray of shape (shape.size,)
        Parameters.
    """

    shape: MapShape
    vector: NDArray[np.float64]

    def __call__(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Outputs of the map for every row."""
        return self.shape.forward(self.vector, rows)[0]
