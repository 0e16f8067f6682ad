"""Protocols: the methods that a fit calls on entries and on a completion."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._random import NoiseStreams
from ..measure import Question, SharedNoise
from ..tensor import CPForm, ObservedValues, Pattern, TuckerForm
from ..tensor._sums import Gram
from ._domain import Domain
from ._local import AnswersUnits
from ._values import EntryRandomizer

Units = TypeVar("Units")
Answer = TypeVar("Answer")
Answering = TypeVar("Answering", bound=AnswersUnits)


class EntrySource(Protocol[Units]):
    """Entries that a completion is fitted to.

    `Entries` are in memory, `PartitionedEntries` in Dask collections, and
    `PartyEntries` with parties, from which a server learns only sums.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the tensor."""

    @property
    def is_dense(self) -> bool:
        """Whether the user passed a tensor."""

    @property
    def received(self) -> bool:
        """Whether clients have randomised the values."""

    @property
    def noise(self) -> SharedNoise | None:
        """Noise that others add to sums."""

    @property
    def conditions(self) -> tuple[str, ...]:
        """Further conditions of the guarantee of a fit to these entries."""

    def by_unit(self, domain: Domain, unit: int) -> Units:
        """Group the entries by unit, and clip the values to the domain."""

    def with_rows_of(self, units: Units, fitted: Answering) -> Answering:
        """The fitted model with the rows of these units."""


class ObservedEntries(Protocol):
    """Entries whose coordinates the estimator may read.

    `Entries` are in memory, and `PartitionedEntries` in Dask collections. They also
    have the methods of `EntrySource`. `Entries` documents all methods.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the tensor."""

    @property
    def is_dense(self) -> bool:
        """Whether the user passed a tensor."""

    @property
    def observed(self) -> tuple[Any, ...] | None:
        """The coordinates that a fit stores; None if they are elsewhere."""

    @property
    def n_entries(self) -> int:
        """Number of observed entries."""

    @property
    def counts(self) -> list[NDArray[np.int64]]:
        """Number of entries in each row, mode by mode."""

    @property
    def used_indices(self) -> list[NDArray[np.integer]]:
        """Indices that have entries, mode by mode."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values."""

    @property
    def value_range(self) -> tuple[float, float]:
        """Least and largest value, which must be a range; private."""

    @property
    def extremes(self) -> tuple[float, float]:
        """Least and largest value; private."""

    def check_supported(self, measurement: "Supported") -> None:
        """Refuse a measurement that needs all entries together, if they are apart."""

    def without_values(self) -> "ObservedEntries":
        """The entries without their values."""

    def pattern(self, n_components: int | None) -> Pattern:
        """Features of the rows of the second mode; see `pattern_of`."""

    def shared(self) -> Gram:
        """Numbers of entries that two rows share."""

    def ask(
        self, question: Callable[..., Answer], *arguments: object
    ) -> tuple[Answer, ...]:
        """Answers to a question, one from each chunk of the entries."""

    def summed(
        self, contribute: Callable[..., Sequence[NDArray[Any]]], question: Question
    ) -> tuple[Sequence[NDArray[Any]], None]:
        """Sum the contributions of all entries to a release; see `People`."""

    def randomized(
        self, randomizer: EntryRandomizer, streams: NoiseStreams | None
    ) -> "DrawnValues":
        """Randomise the values; see `EntryRandomizer.draw`."""


class DrawnValues(Protocol):
    """Randomised values of all observed entries: `Draws` or `PartitionedDraws`."""

    @property
    def randomizer(self) -> EntryRandomizer:
        """The randomizer that drew the values."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values."""

    def mean(self) -> float:
        """Mean of the randomised values."""

    def observations(
        self, offset: float, scale: float, smooth_modes: Collection[int] = ()
    ) -> ObservedValues:
        """Shifted and scaled values at their coordinates."""

    def compared(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.int8]]:
        """A subsample of coordinates, draws and signs; see `Draws.compared`."""


class Supported(Protocol):
    """What entries check of a measurement before a fit; see `Measurement`."""

    @property
    def name(self) -> str:
        """The perturbation."""

    @property
    def uses_features(self) -> bool:
        """Whether it fits weights of features."""

    @property
    def problem(self) -> "HasSmoothModes":
        """The problem of the measurement."""


class HasSmoothModes(Protocol):
    """A `Problem`."""

    @property
    def smooth_modes(self) -> tuple[int, ...]:
        """Modes whose neighbouring rows are tied."""


class HasUnit(Protocol):
    """An estimator with a protected unit: completions and `ImplicitCompletion`."""

    @property
    def unit(self) -> str | int:
        """The mode of the protected units, or "entry"."""


class CompletionParameters(Protocol):
    """The parameters of a completion, which checks and plans read before any fit.

    Every `BaseCompletion` has them, and its docstring describes them.
    """

    rank: int | Sequence[int] | None
    epsilon: float
    delta: float
    perturbation: str
    unit: str | int
    value_bounds: tuple[float, float] | None
    levels: ArrayLike | None
    level_prior: ArrayLike | None
    shape: Sequence[int] | None
    side_information: "Mapping[int, ArrayLike] | Sequence[ArrayLike | None] | None"
    biases: bool
    n_pattern_components: int | str
    smooth_modes: Sequence[int] | None
    max_iter: int
    personal: bool
    missing_values: float | None
    check_scale: bool
    _may_find_scale: bool
    _may_ignore_parameters: bool

    def _form(
        self, order: Iterable[int], shape: tuple[int, ...]
    ) -> CPForm | TuckerForm:
        """Form of the decomposition for a shape, with its modes in the given order."""

    def _validate_params(self) -> None:
        """Check the parameters, as scikit-learn does before a fit."""

    def _check_declared(self) -> None:
        """Refuse a fit whose range or shape is not declared."""
