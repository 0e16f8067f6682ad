"""The client half of a fitted encoder, which runs where a person's data are."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator

from .._client import Client, check_ceiling, make_client
from .._json import Fields
from .._random import NoiseStreams
from .._validation import as_numpy, check_container
from ..mechanisms._noise import Clipping
from ..privacy._numbers import shown
from ._code_noise import code_guarantee, code_noise, no_noise
from ._maps import CodeMap, MapShape
from ._sphere_noise import SphereNoise
from ._whitening import standardized

_FORMAT, _WHAT = 1, "an EncoderClient of this version"
# Largest numbers of characters of a text, and of entries of a map.
_LONGEST, _MOST = 2**28, 2**24
_LARGEST, _LEAST = 1e300, 1e-300
# Largest number in a map. Standardised entries are at most 1e100, and outputs of a
# hidden layer are at most 1. So no sum of `_MOST` products overflows.
_LARGEST_WEIGHT = 1e150


@dataclass(frozen=True)
class LinearMap:
    """Maps samples, as rows, by a matrix of shape (Z, n)."""

    matrix: NDArray[np.float64]

    def __call__(self, rows: NDArray[np.floating]) -> NDArray[np.floating]:
        return rows @ self.matrix.T


class ReleasesCodes(Protocol):
    """Noise of codes: `SphereNoise`, and the randomizers of a `CodeNoise`."""

    def randomize(
        self, samples: NDArray[np.floating], streams: NoiseStreams, /
    ) -> NDArray[np.floating]:
        """Clip codes to the unit ball, and release them."""


@dataclass(frozen=True)
class ClientRandomizer:
    """Encodes, clips and randomises samples.

    Every sample has a finite code, and no step before the randomisation depends on the
    contents of the sample.

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
    noise: ReleasesCodes
    columns: NDArray[np.int64] | None = None

    def randomize(
        self, rows: NDArray[np.floating], streams: NoiseStreams
    ) -> NDArray[np.floating]:
        """Noisy codes of samples.

        Parameters
        ----------
        rows : ndarray of shape (n_samples, n), float32 or float64
            Any numbers. Infinities are clipped like other large numbers; a row whose
            code is NaN has the code zero.
        streams : NoiseStreams

        Returns
        -------
        noisy : ndarray of shape (n_samples, Z), of the type of `rows`
        """
        standard = standardized(rows, self.mean, self.scale)
        if self.columns is not None:
            standard = standard[:, self.columns]
        codes = self.encoder(standard)
        is_finite = np.isfinite(codes).all(axis=1, keepdims=True)
        noisy = self.noise.randomize(np.where(is_finite, codes, 0.0), streams)
        return noisy.astype(rows.dtype, copy=False)


def _is_clipped(noise: object) -> bool:
    """Whether codes are clipped; only those without noise may not be."""
    return not isinstance(noise, Clipping) or noise.domain.norm_bound is not None


def _unmasked(data: ArrayLike) -> ArrayLike:
    """Data with NaN in place of masked entries, as objects."""
    if isinstance(data, np.ma.MaskedArray):
        return np.ma.filled(data.astype(object), np.nan)
    if isinstance(data, list | tuple):
        return np.array(list(map(_unmasked, data)), dtype=object)
    return data


def _number(entry: Any) -> float:
    """An object as a float: infinite if it is too large, NaN if it is not a number."""
    # NumPy would read a number from these, with a warning.
    if isinstance(entry, np.complexfloating | np.ndarray):
        return math.nan
    try:
        return float(entry)
    except OverflowError:
        return math.inf if entry > 0 else -math.inf
    except Exception:
        return math.nan


def _columns_fields(columns: NDArray[np.int64] | None) -> dict[str, Any]:
    """The columns that enter a code as values of JSON."""
    if columns is None:
        return {"has_columns": False}
    return {"has_columns": True, "columns": columns.tolist()}


def _map_fields(encoder: BaseEstimator) -> dict[str, Any]:
    """An encoding map as values of JSON."""
    if isinstance(encoder, LinearMap):
        return {"is_linear": True, "matrix": encoder.matrix.tolist()}
    return {
        "is_linear": False,
        "n_hidden": encoder.shape.n_hidden,
        "vector": encoder.vector.tolist(),
    }


def _read_map(fields: Fields, n_inputs: int) -> tuple[LinearMap | CodeMap, int]:
    """An encoding map and the number of its outputs, which follows from its size."""
    if fields.flag("is_linear"):
        rows = fields.list("matrix", _MOST)
        matrix = [
            [
                fields.as_number(x, "matrix", -_LARGEST_WEIGHT, _LARGEST_WEIGHT)
                for x in row
            ]
            if isinstance(row, list) and len(row) == n_inputs
            else fields.refuse("matrix")
            for row in rows
        ]
        if not matrix:
            fields.refuse("matrix")
        return LinearMap(np.array(matrix)), len(matrix)
    n_hidden = fields.integer("n_hidden", 0, _MOST)
    vector = fields.numbers("vector", -_LARGEST_WEIGHT, _LARGEST_WEIGHT)
    # A and B have a row for each input and hidden unit, and b is one more row.
    n_rest = (n_inputs + 1) * n_hidden
    n_outputs = (len(vector) - n_rest) // (n_inputs + 1 + n_hidden)
    shape = MapShape(n_inputs, n_hidden, n_outputs)
    if n_outputs < 1 or shape.size != len(vector):
        fields.refuse("vector")
    return CodeMap(shape, np.array(vector)), n_outputs


class EncoderClient(Client):
    """Turns samples into noisy codes on a person's device.

    Get one from an encoder's `client` method. Ship it with `to_json`: a text that is
    read as data, unlike a pickle, which can run code. It holds the encoding map, the
    clip radius and the noise, but neither fitting data nor the decoder.

    Attributes
    ----------
    sample_shape : tuple of int
        Shape of a sample.
    mechanism : str
        Name of the noise.
    random_state : int or None
        None draws from the operating system's entropy, as a real release must. An
        int is for tests and papers.
    privacy_guarantee_ : PrivacyGuarantee
        Guarantee of one call of `privatize`.

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.encoding import EncoderClient, TaskAwareEncoder
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> encoder = TaskAwareEncoder(4.0, task=[[1.0, 1.0, 0.0]]).fit(X)
    >>> client = encoder.client()
    >>> client.privatize([[0.5, -0.5, 1e300]]).shape
    (1, 1)
    >>> EncoderClient.from_json(client.to_json())
    EncoderClient(sample_shape=(3,), epsilon=4, delta=0)
    """

    if TYPE_CHECKING:
        randomizer: ClientRandomizer
    sample_shape: tuple[int, ...]
    mechanism: str

    _made_by = "the `client` method of a fitted encoder"

    def to_json(self) -> str:
        """The client as text: encoding map, sizes and budget, but no seed.

        Raises
        ------
        ValueError
            If the noise follows a paper's formula (`sktensordp.papers`): the reader of
            a text calibrates noise itself, and only as the core does.
        """
        randomizer, guarantee = self.randomizer, self.privacy_guarantee_
        epsilon = guarantee.epsilon
        text = json.dumps(
            {
                "kind": "EncoderClient",
                "format": _FORMAT,
                "sample_shape": self.sample_shape,
                "mechanism": self.mechanism,
                "epsilon": epsilon if math.isfinite(epsilon) else None,
                "delta": guarantee.delta if math.isfinite(epsilon) else 0.0,
                "clipped": _is_clipped(randomizer.noise),
                "mean": randomizer.mean.tolist(),
                "scale": randomizer.scale.tolist(),
                **_columns_fields(randomizer.columns),
                **_map_fields(randomizer.encoder),
            }
        )
        try:
            again = EncoderClient.from_json(text)
            found = again.randomizer.noise, again.privacy_guarantee_
            is_sound = found == (randomizer.noise, guarantee)
        except ValueError:
            is_sound = False
        if not is_sound:
            raise ValueError(
                "Only clients of the core's encoders have a text: the noise of this "
                "one is not calibrated as the core does."
            )
        return text

    @classmethod
    def from_json(
        cls, text: str, *, max_epsilon: float | None = None, max_delta: float = 1e-6
    ) -> Self:
        """Make a client from the text of another one.

        The text is checked, and nothing in it is executed. The new client calibrates
        its noise and computes its guarantee itself: pass `max_epsilon`, or read its
        `privacy_guarantee_` before you use it.

        Parameters
        ----------
        text : str
            What `to_json` returned.
        max_epsilon : float, default=None
            Largest epsilon of one call of `privatize` that this device accepts. None
            accepts any, even a client that adds no noise.
        max_delta : float, default=1e-6
            Largest delta, if `max_epsilon` is passed.

        Returns
        -------
        client : EncoderClient
            It draws from the operating system's entropy, whatever seed the other had.

        Raises
        ------
        ValueError
            If the text is damaged, if its parameters make no sense, or if its client
            would have a larger epsilon than `max_epsilon` or none that is finite, or
            a larger delta.
        TypeError
            If `text` is not a str.
        """
        if not isinstance(text, str):
            raise TypeError(f"text must be a str, got {type(text).__name__}.")
        fields = Fields.of_text(text, _WHAT, _LONGEST)
        fields.constant("kind", "EncoderClient")
        fields.constant("format", _FORMAT)
        shape = tuple(fields.integers("sample_shape", 1, _MOST))
        mean = np.array(fields.numbers("mean", -_LARGEST, _LARGEST))
        scale = np.array(fields.numbers("scale", _LEAST, _LARGEST))
        if not len(mean) == len(scale) == math.prod(shape):
            fields.refuse("sample_shape")
        chosen = None
        if fields.flag("has_columns"):
            chosen = np.array(fields.integers("columns", 0, len(mean) - 1), np.int64)
            if len(np.unique(chosen)) < len(chosen):
                fields.refuse("columns")
        n_inputs = len(mean) if chosen is None else len(chosen)
        encoder, n_outputs = _read_map(fields, n_inputs)
        epsilon = fields.number_or_none("epsilon", _LEAST, _LARGEST)
        delta = fields.number("delta", 0.0, 1.0)
        name = fields.text("mechanism", "laplace|l2|privunit|gaussian|none")
        clipped, on_sphere = fields.flag("clipped"), isinstance(encoder, CodeMap)
        fields.end()
        if (name == "none") != (epsilon is None) or not n_outputs:
            fields.refuse("epsilon")
        # A learned map for PrivUnit ends on the sphere, which has one entry more.
        on_sphere = on_sphere and name == "privunit"
        if epsilon is None:
            noise = no_noise(n_outputs, clipped=clipped)
        else:
            noise = code_noise(name, n_outputs - on_sphere, epsilon, delta)
        release: Any = noise.randomizer
        if on_sphere:
            release = SphereNoise(release.cap)
        guarantee = code_guarantee(
            name,
            noise.event,
            epsilon=math.inf if epsilon is None else epsilon,
            delta=delta,
        )
        randomizer = ClientRandomizer(mean, scale, encoder, release, chosen)
        client = make_client(
            cls, randomizer, guarantee, sample_shape=shape, mechanism=name
        )
        check_ceiling(client, max_epsilon, max_delta)
        return client

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
            Samples in the shape that the encoder's `fit` took, or as rows. Entries may
            be any numbers. Entries that are missing or not numbers count as NaN.

        Returns
        -------
        code : ndarray of shape (n_samples, n_components)
            float32 if `X` is an array of float32, otherwise float64.

        Raises
        ------
        TypeError
            If `X` is sparse, a dict, a set or an iterator.
        ValueError
            If `X` has another shape, or is an array of text, dates, complex numbers or
            records. Like every refusal, this follows from the form of `X` alone. It is
            raised before any noise is drawn.

        Notes
        -----
        The maker of the client may see whether an answer arrives. So that must not
        depend on the numbers in a sample: a sample whose code is not finite gets the
        noisy code of zero. Infinite entries count as very large ones. NaN makes the
        code NaN, unless the entry does not enter the code.
        """
        return self._privatize(X)

    def _checked(self, data: ArrayLike) -> NDArray[np.floating]:
        if issparse(data):
            raise TypeError("Sparse data was passed as X; dense data is required.")
        check_container(data, "X")
        array = as_numpy(_unmasked(data), "X")
        shape = self.sample_shape
        if array.shape[1:] not in (shape, (math.prod(shape),)) or not len(array):
            raise ValueError(
                f"X must hold samples of shape {shape}, got an array of shape "
                f"{array.shape}."
            )
        if array.dtype.kind not in "biufO":
            raise ValueError("X must hold numbers.")
        if array.dtype == object:
            array = np.frompyfunc(_number, 1, 1)(array)
        if array.dtype != np.float32:
            array = array.astype(float)
        return np.ascontiguousarray(array).reshape(len(array), -1)
