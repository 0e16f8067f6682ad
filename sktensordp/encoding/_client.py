"""The client half of a fitted encoder, which runs where a person's data are."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._client import Client
from .._random import NoiseStreams
from .._validation import check_numeric
from ..privacy import PrivacyGuarantee
from ..privacy._numbers import shown
from ._whitening import standardized


@dataclass(frozen=True)
class LinearMap:
    """Maps samples, as rows, by a matrix of shape (Z, n)."""

    matrix: NDArray[np.float64]

    def __call__(self, rows: NDArray[np.floating]) -> NDArray[np.floating]:
        return rows @ self.matrix.T


@dataclass(frozen=True)
class ClientRandomizer:
    """Encodes, clips and randomises samples.

    Attributes
    ----------
    mean, scale : ndarray of shape (n,)
        Standardise the entries of a sample.
    encoder : callable
        Maps standardised samples to codes, in units of the clip radius.
    noise : object
        Its `randomize` clips codes to the unit ball and releases them.
    columns : ndarray of int, default=None
        Entries of a sample that enter the code; None for all.
    """

    mean: NDArray[np.float64]
    scale: NDArray[np.float64]
    encoder: Callable[[Any], NDArray[np.floating]]
    noise: Any
    columns: NDArray[np.int64] | None = None

    def randomize(
        self, rows: NDArray[np.floating], streams: NoiseStreams
    ) -> NDArray[np.floating]:
        """Noisy codes of samples.

        Parameters
        ----------
        rows : ndarray of shape (n_samples, n), float32 or float64
            Finite.
        streams : NoiseStreams

        Returns
        -------
        noisy : ndarray of shape (n_samples, Z), of the type of `rows`
        """
        # `standardized` limits entries, so that the product has no NaN.
        standard = standardized(rows, self.mean, self.scale)
        if self.columns is not None:
            standard = standard[:, self.columns]
        noisy = self.noise.randomize(self.encoder(standard), streams)
        return noisy.astype(rows.dtype, copy=False)


class EncoderClient(Client):
    """Turns samples into noisy codes on a person's device.

    Get one from an encoder's `client` method, and pickle it to ship it. It holds the
    encoding matrix, the clip radius and the noise, but neither fitting data nor the
    decoder.

    Parameters
    ----------
    randomizer : ClientRandomizer
        Encodes, clips and randomises a sample.
    sample_shape : tuple of int
        Shape of a sample.
    guarantee : PrivacyGuarantee
        Guarantee of one call of `privatize`.
    random_state : int or None, default=None
        None draws from the operating system's entropy, as a real release must. An
        int is for tests and papers.

    Attributes
    ----------
    privacy_guarantee_ : PrivacyGuarantee
        Guarantee of one call of `privatize`.

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.encoding import TaskAwareEncoder
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> encoder = TaskAwareEncoder(4.0, task=[[1.0, 1.0, 0.0]]).fit(X)
    >>> client = encoder.client()
    >>> client.privatize([[0.5, -0.5, 1e300]]).shape
    (1, 1)
    """

    def __init__(
        self,
        randomizer: Any,
        sample_shape: tuple[int, ...],
        guarantee: PrivacyGuarantee,
        random_state: int | None = None,
    ) -> None:
        super().__init__(randomizer, guarantee, random_state)
        self.sample_shape = sample_shape

    def __repr__(self) -> str:
        guarantee = self.privacy_guarantee_
        return (
            f"EncoderClient(sample_shape={self.sample_shape}, "
            f"epsilon={shown(guarantee.epsilon)}, delta={shown(guarantee.delta)})"
        )

    def privatize(self, X: ArrayLike) -> NDArray[np.floating]:
        """Release noisy codes of samples, with fresh noise on every call.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Finite samples, in the shape that the encoder's `fit` took or as rows.

        Returns
        -------
        code : ndarray of shape (n_samples, n_components)

        Raises
        ------
        ValueError
            If `X` has another shape, or holds NaN or infinity. The error is raised
            before any noise is drawn.
        """
        return self._privatize(X)

    def _checked(self, data: Any) -> NDArray[np.floating]:
        check_numeric(data, "X")
        array = np.asarray(data, order="C")
        if array.dtype != np.float32:
            with np.errstate(over="ignore"):
                array = array.astype(float)
        shape = self.sample_shape
        if array.shape[1:] not in (shape, (math.prod(shape),)) or not len(array):
            raise ValueError(
                f"X must hold samples of shape {shape}, got an array of shape "
                f"{array.shape}."
            )
        if not np.all(np.isfinite(array)):
            raise ValueError("X must not contain NaN or infinity.")
        return array.reshape(len(array), -1)
