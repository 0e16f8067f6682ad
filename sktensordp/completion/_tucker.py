"""Private completion of tensors by a Tucker decomposition."""

import dataclasses
import math
from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._sklearn_compat import Interval
from ..tensor import TuckerForm
from ._base import USUAL_RANK, BaseCompletion
from ._docs import with_shared_text
from ._entries import Entries
from ._problem import Problem

__all__ = ["TuckerCompletion"]

# Of `rank=None`, by the number of modes: time grows with the square of the core.
_USUAL_RANKS = {2: USUAL_RANK, 3: USUAL_RANK, 4: 3, 5: 1}


@with_shared_text
class TuckerCompletion(BaseCompletion):
    """Differentially private completion of a tensor by biases and a Tucker.

    A Tucker decomposition has a factor for each mode, and a core that tells how much
    every combination of their columns weighs. Modes may have ranks of their own: few
    for bins of time, more for users and items.

    $summary

    Parameters
    ----------
    rank : int or sequence of int, default=None
        Rank of every mode, or one rank for all; 0 fits biases alone. None takes 10 for
        up to three modes, 3 for four and 1 for five, and no more than the size of the
        mode or the product of the other ranks. With more modes, None fits biases alone,
        or rank 1 with ``biases=False``.
    $parameters
    core_regularization : float, default=0.001
        Weight of the core's squared norm in the published algorithms.
    $random_state

    Attributes
    ----------
    privacy_guarantee_ : PrivacyGuarantee
        Of everything that the fitted object reveals.
    decomposition_ : tensorly.tucker_tensor.TuckerTensor
        The fitted model without its offset. Where it has biases, its core is larger
        than the ranks: every factor has, in this order, a column of ones, the bias of
        the mode, the columns of the Tucker and, in the first two modes, weights and
        features. Where `unit` is a mode, it has one row there: of a unit of which
        nothing is known.
    factors_ : list of ndarray of shape (shape_[mode], n_columns)
        The factors of `decomposition_`; where `unit` is a mode, None there.
    $attributes

    See Also
    --------
    CPCompletion : Terms that are products, with less to learn and faster to fit.

    Notes
    -----
    Where a fiftieth or more of a tensor of three or more modes is observed, and noise
    is less than four fifths of the values' variance, "input" starts at a truncated
    higher-order singular value decomposition of the randomised values; otherwise, near
    a matrix factorisation of the first two modes, which the others modulate. Its time
    grows with the square of the product of all ranks but one.

    $notes

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.completion import TuckerCompletion
    >>> from sktensordp.datasets import make_ratings
    >>> ratings = make_ratings(n_users=50, n_items=40, n_ratings=1000, random_state=0)
    >>> season = np.arange(1000) % 4
    >>> X = np.column_stack([ratings.data, season])
    >>> model = TuckerCompletion(
    ...     rank=(2, 2, 1), epsilon=4.0, levels=ratings.levels, random_state=0
    ... )
    >>> model.fit(X, ratings.target).predict([[0, 0, 1], [3, -1, 2]]).shape
    (2,)
    >>> print(model.privacy_guarantee_)
    (epsilon = 4, delta = 0)-differential privacy for the value of one observed entry
    (replace-one). Values were rounded to the 10 levels 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4,
    4.5 and 5. Each observed value was randomised by a public table for these levels;
    all else is computed from these draws and the coordinates. [Wei, Li, Mao and Wang
    (2022), Algorithm 1 and Theorem 1]
    """

    _parameter_constraints = {  # noqa: RUF012 (scikit-learn's protocol)
        "rank": [Interval(Integral, 0, None, closed="left"), "array-like", None],
        **BaseCompletion._parameter_constraints,
        "core_regularization": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        rank: int | Sequence[int] | None = None,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        perturbation: str = "auto",
        unit: str | int = "entry",
        value_bounds: tuple[float, float] | None = None,
        levels: ArrayLike | None = None,
        level_prior: ArrayLike | None = None,
        shape: Sequence[int] | None = None,
        side_information: dict[int, ArrayLike]
        | Sequence[ArrayLike | None]
        | None = None,
        calibration: str = "sound",
        biases: bool = True,
        n_pattern_components: int = 8,
        smooth_modes: Sequence[int] | None = None,
        max_iter: int = 25,
        gradient_clip: float = 0.5,
        learning_rate: float = 0.005,
        regularization: float = 0.01,
        core_regularization: float = 0.001,
        random_state: int | None = None,
    ) -> None:
        super().__init__(
            rank, epsilon=epsilon, delta=delta, perturbation=perturbation, unit=unit,
            value_bounds=value_bounds, levels=levels, level_prior=level_prior,
            shape=shape, side_information=side_information, calibration=calibration,
            biases=biases, n_pattern_components=n_pattern_components,
            smooth_modes=smooth_modes, max_iter=max_iter, gradient_clip=gradient_clip,
            learning_rate=learning_rate, regularization=regularization,
            random_state=random_state,
        )  # fmt: skip
        self.core_regularization = core_regularization

    def _form(self, order: Iterable[int], shape: tuple[int, ...]) -> TuckerForm:
        ranks = self._ranks(shape)
        return TuckerForm(tuple(ranks[mode] for mode in order))

    def _ranks(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The rank of every mode; 0 for all or for none."""
        n_modes = len(shape)
        if self.rank is None:
            return _usual_ranks(shape, least=0 if self.biases else 1)
        if isinstance(self.rank, Integral):
            return (int(self.rank),) * n_modes
        ranks = np.asarray(self.rank)
        if ranks.shape != (n_modes,) or ranks.dtype.kind not in "iu":
            raise ValueError(
                f"rank must be an integer or one for each of the {n_modes} modes, got "
                f"{self.rank!r}."
            )
        if np.any(ranks < 0) or (np.any(ranks == 0) and np.any(ranks > 0)):
            raise ValueError(
                f"The ranks must be positive, or all 0, got {self.rank!r}."
            )
        return tuple(ranks.tolist())

    def _problem(self, entries: Entries) -> Problem:
        return dataclasses.replace(
            super()._problem(entries),
            core_regularization=float(self.core_regularization),
        )

    def _decomposition(self, model: Any) -> Any:
        from tensorly.tucker_tensor import TuckerTensor

        core = getattr(model, "core", None)
        if core is None:
            return TuckerTensor(_as_tucker(model.factors))
        return TuckerTensor((core, model.factors))

    def _check_rank(self, shape: tuple[int, ...]) -> None:
        ranks = self._ranks(shape)
        if not any(ranks):
            if not self.biases:
                raise ValueError(
                    "There is nothing to fit: rank is 0 and biases is False."
                )
            return
        for mode, (size, rank) in enumerate(zip(shape, ranks, strict=True)):
            others = math.prod(ranks) // rank
            if rank > size:
                raise ValueError(
                    f"The rank {rank} of mode {mode} is larger than the mode: the "
                    f"tensor has shape {shape}."
                )
            if rank > others and len(shape) > 1:
                raise ValueError(
                    f"The rank {rank} of mode {mode} is larger than the product "
                    f"{others} of the others: some of its columns would be of no use."
                )


def _usual_ranks(shape: tuple[int, ...], least: int) -> tuple[int, ...]:
    """What `rank=None` takes: no more than the sizes of the modes can use."""
    usual = max(_USUAL_RANKS.get(len(shape), 0), least)
    ranks = [min(usual, size) for size in shape]
    for mode in np.argsort(ranks, kind="stable").tolist():
        others = math.prod(ranks[:mode] + ranks[mode + 1 :])
        ranks[mode] = min(ranks[mode], others)
    return tuple(ranks)


def _as_tucker(
    factors: list[NDArray[np.floating]],
) -> tuple[NDArray[np.floating], list[NDArray[np.floating]]]:
    """The core and the factors of a CP, whose columns of ones are one column."""
    n_columns = factors[0].shape[1]
    places, own = [], []
    for factor in factors:
        kept = np.flatnonzero(np.any(factor != 1, axis=0))
        place = np.zeros(n_columns, dtype=int)
        place[kept] = 1 + np.arange(len(kept))
        places.append(place)
        ones = np.ones(len(factor), factor.dtype)
        own.append(np.column_stack([ones, factor[:, kept]]))
    core = np.zeros([f.shape[1] for f in own], dtype=factors[0].dtype)
    np.add.at(core, tuple(places), 1.0)
    return core, own
