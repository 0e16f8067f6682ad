"""Maps between samples and codes: affine, plus one hidden layer if so wished."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["CodeMap", "MapShape", "in_columns"]


def in_columns(
    rows: NDArray[np.float64],
    mean: NDArray[np.float64],
    scale: NDArray[np.float64],
    columns: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Standardised rows in the original columns, the mean in those left out.

    Parameters
    ----------
    rows : ndarray of shape (n_samples, n_features)
    mean, scale : ndarray of shape (n,)
        Of the original columns.
    columns : ndarray of int, shape (n_features,)

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
    """x -> x A + b + tanh(x V + c) B, its parameters in one vector.

    Attributes
    ----------
    n_inputs, n_hidden, n_outputs : int
        Without hidden units, the map is affine.
    """

    n_inputs: int
    n_hidden: int
    n_outputs: int

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
        """One for weights, zero for biases."""
        return np.concatenate(
            [np.full(np.prod(shape), float(len(shape) == 2)) for shape in self.shapes]
        )

    def parts(self, vector: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """A, b, V, c and B, as views."""
        found, start = [], 0
        for shape in self.shapes:
            stop = start + int(np.prod(shape))
            found.append(vector[start:stop].reshape(shape))
            start = stop
        return found

    def affine(
        self, A: NDArray[np.float64], b: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Parameters of a map without hidden units."""
        return np.concatenate([np.ravel(A), b])

    def random(self, rng: np.random.Generator) -> NDArray[np.float64]:
        """Random weights, and biases of zero."""
        parts = [
            rng.uniform(-1, 1, shape) / np.sqrt(shape[0])
            if len(shape) == 2
            else np.zeros(shape)
            for shape in self.shapes
        ]
        return np.concatenate([part.ravel() for part in parts])

    def forward(
        self, vector: NDArray[np.float64], rows: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        """Outputs, and those of the hidden layer."""
        A, b, V, c, B = self.parts(vector)
        outputs = rows @ A + b
        if not self.n_hidden:
            return outputs, None
        hidden = rows @ V
        hidden += c
        np.tanh(hidden, out=hidden)
        outputs += hidden @ B
        return outputs, hidden

    def gradient(
        self,
        vector: NDArray[np.float64],
        rows: NDArray[np.float64],
        hidden: Any,
        slopes: NDArray[np.float64],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        """Gradient with respect to the parameters, and to the hidden layer's input."""
        B = self.parts(vector)[4]
        gradient = np.zeros_like(vector)
        of_A, of_b, of_V, of_c, of_B = self.parts(gradient)
        np.matmul(rows.T, slopes, out=of_A)
        of_b[:] = slopes.sum(axis=0)
        if not self.n_hidden:
            return gradient, None
        inner = slopes @ B.T
        inner *= 1 - np.square(hidden)
        np.matmul(hidden.T, slopes, out=of_B)
        np.matmul(rows.T, inner, out=of_V)
        of_c[:] = inner.sum(axis=0)
        return gradient, inner

    def pulled_back(
        self,
        vector: NDArray[np.float64],
        slopes: NDArray[np.float64],
        inner: NDArray[np.float64] | None,
    ) -> NDArray[np.float64]:
        """Gradient with respect to the rows; `inner` as `gradient` returns it."""
        A, _, V, _, _ = self.parts(vector)
        back = slopes @ A.T
        return back if inner is None else back + inner @ V.T


@dataclass(frozen=True)
class CodeMap:
    """A map with its parameters.

    Attributes
    ----------
    shape : MapShape
    vector : ndarray of shape (shape.size,)
    """

    shape: MapShape
    vector: NDArray[np.float64]

    def __call__(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Outputs of the map."""
        return self.shape.forward(self.vector, rows)[0]
