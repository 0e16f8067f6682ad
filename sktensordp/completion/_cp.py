"""Private completion of tensors by a CP decomposition."""

from collections.abc import Iterable
from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np

from .._docstrings import with_sections_of
from .._sklearn_compat import Interval
from ..tensor import CPForm, Rows, max_cp_rank
from ._base import USUAL_RANK, BaseCompletion

if TYPE_CHECKING:
    from tensorly.cp_tensor import CPTensor

    from ._own_rows import UnitModel


@with_sections_of(BaseCompletion)
class CPCompletion(BaseCompletion):
    """Differentially private completion of a tensor by biases and a CP decomposition.

    $summary

    Parameters
    ----------
    rank : int, default=None
        Number of CP terms; 0 fits biases alone. None takes 10, or the largest rank
        that the shape admits if that is smaller. With two modes, a fit to values
        leaves a term at zero if there is no evidence for it. If all are at zero, and
        ``biases=False``, the model predicts the mean of what was released.
    $parameters

    Attributes
    ----------
    privacy_guarantee_ : PrivacyGuarantee
        Guarantee of everything that the fitted object reveals.
    decomposition_ : tensorly.cp_tensor.CPTensor
        The fitted model without its offset: its entries plus `offset_`, clipped to
        `value_bounds_`, are the predictions, unless `predict` uses a user's own row.
        The columns of its factors are the biases, one for each mode, then the CP terms,
        then the features with their weights. If `unit` is a mode, the factor of that
        mode has a single row: that of an unknown unit.
    factors_ : list of ndarray of shape (shape_[mode], n_columns)
        The factors of `decomposition_`, with None for the mode of protected units.
    $attributes

    Notes
    -----
    $model

    A CP decomposition multiplies the rows of an entry's indices, column by column, and
    adds up the `rank` products. With two modes, it is a matrix factorisation.

    $notes

    References
    ----------
    $references

    Examples
    --------
    >>> from sktensordp.completion import CPCompletion
    >>> from sktensordp.datasets import make_ratings
    >>> ratings = make_ratings(n_users=50, n_items=40, n_ratings=1000, random_state=0)
    >>> model = CPCompletion(rank=2, epsilon=4.0, levels=ratings.levels, random_state=0)
    >>> model = model.fit(ratings.data, ratings.target)
    >>> model.predict([[0, 0], [3, -1]]).shape
    (2,)
    >>> print(model.privacy_guarantee_)
    This fit: (epsilon = 4, delta = 0)-differential privacy for the value of one
    observed entry (replace-one).
    """

    _parameter_constraints = {  # noqa: RUF012 (scikit-learn's protocol)
        "rank": [Interval(Integral, 0, None, closed="left"), None],
        **BaseCompletion._parameter_constraints,
    }

    rank: int | None

    def _form(self, order: Iterable[int], shape: tuple[int, ...]) -> CPForm:
        largest = max_cp_rank(shape)
        if self.rank is None:
            return CPForm(min(USUAL_RANK, largest))
        if self.rank > largest:
            raise ValueError(
                f"rank = {self.rank} is too large: a tensor of shape {shape} has rank "
                f"at most {largest}."
            )
        return CPForm(int(self.rank))

    def _decomposition(self, model: "Rows | UnitModel") -> "CPTensor":
        from tensorly.cp_tensor import CPTensor

        return CPTensor((np.ones(model.factors[0].shape[1]), model.factors))
