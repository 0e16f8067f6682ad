"""Private completion of tensors by a Tucker decomposition."""

import math
from collections.abc import Iterable
from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np

from .._docstrings import with_sections_of
from .._sklearn_compat import Interval
from .._validation import described
from ..tensor import Rows, TuckerForm, cp_to_tucker
from ._base import USUAL_RANK, BaseCompletion

if TYPE_CHECKING:
    from tensorly.tucker_tensor import TuckerTensor

    from ._own_rows import UnitModel

# The ranks of `rank=None`, by the number of modes. They are small because the time of a
# fit grows with the square of the size of the core.
_USUAL_RANKS = {2: USUAL_RANK, 3: USUAL_RANK, 4: 3, 5: 1}


@with_sections_of(BaseCompletion)
class TuckerCompletion(BaseCompletion):
    """Differentially private tensor completion by biases and a Tucker decomposition.

    $summary

    Parameters
    ----------
    rank : int or sequence of int, default=None
        One rank for each mode, or one for all; 0 fits biases alone. None takes 10 for
        up to three modes, 3 for four and 1 for five, but at most the size of the mode
        and the product of the other ranks. With more modes, None fits biases alone, or
        rank 1 with ``biases=False``.
    $parameters

    Attributes
    ----------
    privacy_guarantee_ : PrivacyGuarantee
        Guarantee of everything that the fitted object reveals.
    decomposition_ : tensorly.tucker_tensor.TuckerTensor
        The fitted model without its offset: its entries plus `offset_`, clipped to
        `value_bounds_`, are the predictions, unless `predict` uses a user's own row.
        With biases, its core is larger than the ranks: every factor has a column of
        ones, then the bias of the mode, then the columns of the Tucker decomposition
        and, in the first two modes, weights and features. If `unit` is a mode, the
        factor of that mode has a single row: that of an unknown unit.
    factors_ : list of ndarray of shape (shape_[mode], n_columns)
        The factors of `decomposition_`, with None for the mode of protected units.
    $attributes

    See Also
    --------
    CPCompletion : A simpler model that has fewer parameters and is faster to fit.

    Notes
    -----
    $model

    A Tucker decomposition also has a core, which has a weight for every combination of
    the factors' columns. Each mode may have its own rank: a small one for time bins, a
    larger one for users and items.

    "input" starts from a CP if there are two modes. Otherwise, it starts from leading
    singular vectors of the randomised values if the tensor has at most 2**24 elements,
    at least a fiftieth of it is observed, and less than four fifths of the variance of
    the randomised values is noise; in all other cases, it starts near a matrix
    factorisation of the first two modes, which the other modes modulate. The time of
    the fit grows with the square of the product of all ranks but one.

    $notes

    References
    ----------
    $references

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
    This fit: (epsilon = 4, delta = 0)-differential privacy for the value of one
    observed entry (replace-one).
    """

    _parameter_constraints = {  # noqa: RUF012 (scikit-learn's protocol)
        "rank": [Interval(Integral, 0, None, closed="left"), "array-like", None],
        **BaseCompletion._parameter_constraints,
    }

    def _form(self, order: Iterable[int], shape: tuple[int, ...]) -> TuckerForm:
        ranks = self._ranks(shape)
        for mode, (size, rank) in enumerate(zip(shape, ranks, strict=True)):
            if rank == 0:
                continue
            others = math.prod(ranks) // rank
            if rank > size:
                raise ValueError(
                    f"rank = {rank} of mode {mode} is larger than the mode: the "
                    f"tensor has shape {shape}."
                )
            if rank > others and len(shape) > 1:
                raise ValueError(
                    f"rank = {rank} of mode {mode} is larger than the product "
                    f"{others} of the other ranks, so some columns would be redundant."
                )
        return TuckerForm(tuple(ranks[mode] for mode in order))

    def _ranks(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The rank of every mode; all are 0, or none is."""
        n_modes = len(shape)
        if self.rank is None:
            return _usual_ranks(shape, least=0 if self.biases else 1)
        if isinstance(self.rank, Integral):
            return (int(self.rank),) * n_modes
        ranks = np.asarray(self.rank)
        if ranks.shape != (n_modes,) or ranks.dtype.kind not in "iu":
            raise ValueError(
                f"rank must be an integer, or one integer for each of the {n_modes} "
                f"modes, got {described(self.rank)}."
            )
        if np.any(ranks < 0) or (np.any(ranks == 0) and np.any(ranks > 0)):
            raise ValueError(
                f"rank must be positive for every mode, or 0 for all, got "
                f"{self.rank!r}."
            )
        return tuple(ranks.tolist())

    def _decomposition(self, model: "Rows | UnitModel") -> "TuckerTensor":
        from tensorly.tucker_tensor import TuckerTensor

        core = getattr(model, "core", None)
        if core is None:
            return TuckerTensor(cp_to_tucker(model.factors))
        return TuckerTensor((core, model.factors))


def _usual_ranks(shape: tuple[int, ...], least: int) -> tuple[int, ...]:
    """The ranks that `rank=None` takes: the usual ones, if the shape admits them."""
    usual = max(_USUAL_RANKS.get(len(shape), 0), least)
    ranks = [min(usual, size) for size in shape]
    for mode in np.argsort(ranks, kind="stable").tolist():
        others = math.prod(ranks[:mode] + ranks[mode + 1 :])
        ranks[mode] = min(ranks[mode], others)
    return tuple(ranks)
