"""The factors of a completed tensor, as a picture."""

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._columns import by_name, chosen, column_names

__all__ = ["FactorsDisplay"]

# Larger modes have no bar for every index, nor a name below each.
_MOST_BARS = 24
_MOST_TICKS = 12
_LONGEST_NAME = 22
_WIDTH, _HEIGHT, _NOTE_HEIGHT = 2.8, 1.9, 0.3


class FactorsDisplay:
    """Columns of the factors of a tensor: a row of axes a mode, a column a component.

    A mode whose indices have an order, as bins of time have, is drawn as a line. Of
    the others, one of up to 24 indices is drawn as bars, and a larger one sorted, with
    the names of its highest indices above and of its lowest below.

    Parameters
    ----------
    components : dict of str to list of (array-like of shape (n_indices,) or None)
        By name, a column for every mode; None where there is none, or where it is not
        released.
    modes : iterable of int, default=None
        Those that are drawn, from top to bottom; by default, all.
    labels : dict of int to sequence of str, default=None
        By mode, names of its indices, which must be public; by default, their numbers.
    ordered : iterable of int, default=()
        Modes whose indices have an order.
    private : iterable of int, default=()
        Modes whose factors are not released: a note stands in their place.
    mode_names : sequence of str, default=None
        By default, "mode 0" and so on.
    n_labels : int, default=3
        How many of the highest, and of the lowest, are named.

    Attributes
    ----------
    axes_ : ndarray of shape (n_modes, n_components), matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        The figure of the axes.

    Raises
    ------
    ValueError
        If there is no component or mode, components differ in their number of modes,
        or modes or labels are not those of the tensor.

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.plotting import FactorsDisplay
    >>> hours = np.sin(np.arange(24) / 4)
    >>> display = FactorsDisplay({"daily": [[0.5, 1.0], hours]}, ordered=[1],
    ...                          labels={0: ["north", "south"]})
    >>> display.plot().axes_.shape
    (2, 1)
    """

    def __init__(
        self,
        components: Mapping[str, Sequence[ArrayLike | None]],
        *,
        modes: Iterable[int] | None = None,
        labels: Mapping[int, Sequence[str]] | None = None,
        ordered: Iterable[int] = (),
        private: Iterable[int] = (),
        mode_names: Sequence[str] | None = None,
        n_labels: int = 3,
    ) -> None:
        self.components = {
            name: [None if c is None else np.asarray(c, dtype=float) for c in columns]
            for name, columns in components.items()
        }
        numbers = {len(columns) for columns in self.components.values()}
        if len(numbers) != 1:
            raise ValueError("Components must be given, all of the same modes.")
        (n_modes,) = numbers
        self.modes = _checked(range(n_modes) if modes is None else modes, n_modes)
        if not self.modes:
            raise ValueError("There is no mode to draw.")
        self.ordered = _checked(ordered, n_modes)
        self.private = _checked(private, n_modes)
        if mode_names is None:
            mode_names = [f"mode {mode}" for mode in range(n_modes)]
        self.mode_names = list(mode_names)
        self.n_labels = n_labels
        given = labels or {}
        places = _checked(given, n_modes)
        self.labels = dict(zip(places, map(list, given.values()), strict=True))
        for mode, names in self.labels.items():
            columns = [columns[mode] for columns in self.components.values()]
            sizes = {len(column) for column in columns if column is not None}
            if sizes - {len(names)}:
                raise ValueError(
                    f"labels of mode {mode} must hold one name for each of its "
                    f"{sizes.pop()} indices, got {len(names)}."
                )

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        modes: Iterable[int] | None = None,
        components: Iterable[str] | None = None,
        labels: Mapping[int, Sequence[str]] | None = None,
        ordered: Iterable[int] | None = None,
        n_labels: int = 3,
        ax: Any = None,
    ) -> Self:
        """Draw the factors of a fitted completion.

        They are computed from what was released, so that the picture costs nothing.
        Where `unit` is a mode, its factors are not released, and not drawn.

        Parameters
        ----------
        estimator : CPCompletion or TuckerCompletion
            Fitted.
        modes : iterable of int, default=None
            By default, all, with a note in the place of one that is not released.
        components : iterable of str, default=None
            Names: "bias" is the bias of every mode; "term 0" and so on are the terms of
            a CP, and "column 0" and so on the columns of every mode of a Tucker, which
            its core combines; "feature 0" and so on are features of the second mode's
            rows, with the weights that the first mode's rows give to them. By default,
            the biases and up to four terms, the strongest first, or columns; features
            where there are neither.
        labels : dict of int to sequence of str, default=None
            By mode, names of its indices, which must be public; by default, their
            numbers.
        ordered : iterable of int, default=None
            Modes whose indices have an order; `smooth_modes` by default.
        n_labels : int, default=3
            How many of the highest, and of the lowest, are named.
        ax : matplotlib Axes or array of Axes, default=None
            Axes that make room for all, or one for every mode and component; a new
            figure by default.

        Returns
        -------
        display : FactorsDisplay

        Raises
        ------
        TypeError
            If the estimator has no factors.
        ValueError
            If a mode is not there or not released, a component is not there, or labels
            are not those of a mode.

        Examples
        --------
        >>> from sktensordp.completion import CPCompletion
        >>> from sktensordp.datasets import make_ratings
        >>> from sktensordp.plotting import FactorsDisplay
        >>> ratings = make_ratings(60, 40, 1500, random_state=0)
        >>> model = CPCompletion(2, epsilon=8.0, levels=ratings.levels, random_state=0)
        >>> model = model.fit(ratings.data, ratings.target)
        >>> display = FactorsDisplay.from_estimator(model, components=["bias"])
        >>> len(display.components["bias"][0]), len(display.components["bias"][1])
        (60, 40)
        """
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(estimator)
        if not hasattr(estimator, "decomposition_"):
            raise TypeError(
                f"{type(estimator).__name__} has no factors; pass a completion, or the "
                f"step of a pipeline that is one."
            )
        factors, names = estimator.factors_, column_names(estimator)
        private = [mode for mode, factor in enumerate(factors) if factor is None]
        modes = None if modes is None else list(modes)
        for mode in _checked(modes or (), len(factors)):
            if mode in private:
                raise ValueError(
                    f"The factors of mode {mode} are not released: everything of each "
                    f"of its indices is protected."
                )
        if ordered is None:
            ordered = () if estimator.smooth_modes is None else estimator.smooth_modes
        found = by_name(factors, names)
        return cls(
            chosen(found, components), modes=modes, labels=labels, ordered=ordered,
            private=private, n_labels=n_labels,
            mode_names=getattr(estimator, "feature_names_in_", None),
        ).plot(ax=ax)  # fmt: skip

    @classmethod
    def from_decomposition(
        cls,
        decomposition: Any,
        *,
        modes: Iterable[int] | None = None,
        components: Iterable[str] | None = None,
        labels: Mapping[int, Sequence[str]] | None = None,
        ordered: Iterable[int] = (),
        n_labels: int = 3,
        ax: Any = None,
    ) -> Self:
        """Draw the factors of a decomposition of TensorLy.

        Parameters
        ----------
        decomposition : CPTensor or TuckerTensor
            Its components are "term 0" and so on, or "column 0" and so on.
        modes, components, labels, ordered, n_labels, ax
            As in `from_estimator`; by default, no mode has an order.

        Returns
        -------
        display : FactorsDisplay

        Raises
        ------
        ValueError
            As `from_estimator`.

        Examples
        --------
        >>> from sktensordp.plotting import FactorsDisplay
        >>> from tensorly.random import random_tucker
        >>> tucker = random_tucker((5, 6, 7), (1, 2, 3), random_state=0)
        >>> display = FactorsDisplay.from_decomposition(tucker)
        >>> list(display.components)
        ['column 0', 'column 1', 'column 2']
        >>> display.components["column 2"][0] is None
        True
        """
        weights, factors = decomposition
        is_tucker = hasattr(decomposition, "core")
        kind = "column" if is_tucker else "term"
        names = [[f"{kind} {j}" for j in range(f.shape[1])] for f in factors]
        found = by_name(factors, names)
        found = chosen(found, components, None if is_tucker else weights)
        return cls(
            found, modes=modes, labels=labels, ordered=ordered,
            n_labels=n_labels,
        ).plot(ax=ax)  # fmt: skip

    def plot(self, ax: Any = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes or array of Axes, default=None
            Axes that make room for all, or one for every mode and component; a new
            figure by default.

        Returns
        -------
        self : FactorsDisplay

        Raises
        ------
        ValueError
            If there are not as many axes as modes and components.

        Examples
        --------
        >>> from matplotlib.figure import Figure
        >>> from sktensordp.plotting import FactorsDisplay
        >>> axes = Figure().subplots(2, 1)
        >>> display = FactorsDisplay({"one": [[1, 2], [3, 4, 5]]}).plot(ax=axes)
        >>> display.axes_[1, 0] is axes[1]
        True
        """
        self.axes_ = self._grid(ax)
        self.figure_ = self.axes_[0, 0].figure
        for axes, name in zip(self.axes_[0], self.components, strict=True):
            axes.set_title(name, fontsize="medium")
        for row, mode in zip(self.axes_, self.modes, strict=True):
            self._draw_mode(row, mode)
        return self

    def _grid(self, ax: Any) -> NDArray[Any]:
        """Axes for every mode and component."""
        shape = len(self.modes), len(self.components)
        if ax is not None and np.size(ax) != 1:
            if np.size(ax) != shape[0] * shape[1]:
                raise ValueError(f"There are {np.size(ax)} axes, not {shape}.")
            return np.reshape(ax, shape)
        heights = [_NOTE_HEIGHT if m in self.private else _HEIGHT for m in self.modes]
        if ax is not None:
            ax = np.reshape(ax, ())[()]
            if shape == (1, 1):
                return np.full(shape, ax)
            place = ax.get_subplotspec()
            if place is None:
                raise ValueError("Axes that make room for others must be of a grid.")
            ax.set_axis_off()
            inside = place.subgridspec(
                *shape, height_ratios=heights, hspace=0.6, wspace=0.3
            )
            return inside.subplots(squeeze=False)
        import matplotlib.pyplot as plt

        return plt.subplots(
            *shape, squeeze=False, height_ratios=heights, layout="constrained",
            figsize=(max(_WIDTH * shape[1], 4.8), sum(heights) + 0.3),
        )[1]  # fmt: skip

    def _draw_mode(self, row: NDArray[Any], mode: int) -> None:
        columns = [columns[mode] for columns in self.components.values()]
        for axes, column in zip(row, columns, strict=True):
            if column is None:
                axes.set_axis_off()
            else:
                self._draw_column(axes, mode, column)
        name = self.mode_names[mode]
        if mode in self.private:
            row[0].text(
                0.0, 0.5, f"{name}: not released, each of its indices is protected",
                transform=row[0].transAxes, va="center", style="italic",
                fontsize="small", in_layout=False,
            )  # fmt: skip
        for axes in [axes for axes in row if axes.axison][:1]:
            axes.set_ylabel(name)

    def _draw_column(self, axes: Any, mode: int, column: NDArray[np.float64]) -> None:
        axes.tick_params(labelsize="small")
        axes.axhline(0, color="0.7", linewidth=0.8, zorder=0)
        at, labels = np.arange(len(column)), self.labels.get(mode)
        if mode in self.ordered:
            axes.plot(at, column, color="0.15", linewidth=1.2)
        elif len(column) <= _MOST_BARS:
            axes.bar(at, column, color="0.45", width=0.7)
        else:
            self._draw_sorted(axes, column, labels)
            return
        if labels is None:
            axes.xaxis.get_major_locator().set_params(integer=True)
        else:
            most = _MOST_TICKS if mode in self.ordered else _MOST_BARS
            shown = at[:: -(-len(at) // most)]
            names = [_shortened(labels[k]) for k in shown]
            size = "x-small" if len(shown) <= _MOST_TICKS else "xx-small"
            axes.set_xticks(shown, labels=names, rotation=90, fontsize=size)

    def _draw_sorted(
        self, axes: Any, column: NDArray[np.float64], labels: Sequence[str] | None
    ) -> None:
        """All values in ascending order, the names of the ends in the free corners."""
        order, n = np.argsort(column), self.n_labels
        names = [_shortened(k if labels is None else labels[k]) for k in order[::-1]]
        axes.plot(np.arange(len(column)), column[order], color="0.15", linewidth=1.2)
        axes.set_xlabel(f"{len(column):,} indices, sorted", fontsize="small")
        style = {"transform": axes.transAxes, "fontsize": "x-small", "in_layout": False}
        axes.text(0.05, 0.95, "\n".join(names[:n]), va="top", **style)
        axes.text(0.95, 0.05, "\n".join(names[len(names) - n :]), ha="right", **style)


def _shortened(name: object) -> str:
    text = str(name)
    if len(text) <= _LONGEST_NAME:
        return text
    half = _LONGEST_NAME // 2
    return f"{text[:half]}…{text[1 - half :]}"


def _checked(modes: Iterable[int], n_modes: int) -> list[int]:
    """Modes as they are counted from the first one."""
    numbers = [operator.index(mode) for mode in modes]
    for mode in numbers:
        if not -n_modes <= mode < n_modes:
            raise ValueError(f"There is no mode {mode}: there are {n_modes} modes.")
    return [mode % n_modes for mode in numbers]
