"""Picture of the factors of a completed tensor."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from .._extras import imported
from .._validation import check_modes
from ..completion._fitted import released_model
from ._style import shade, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# How predictions use a component, by the kind of its name.
MEANINGS = {
    "bias": "added to the prediction",
    "term": "product over the modes",
    "column": "combined by the core",
    "feature": "weight × public feature",
}

# By name, the column of every mode; None if there is none or it is not released.
Components = dict[str, list[NDArray[np.float64] | None]]

# Largest modes with a bar for every index, and with a name below every tick.
_MOST_BARS = 24
_MOST_TICKS = 12
# Characters in the name of an index, and in a line of a title.
_LONGEST_NAME, _LONGEST_LINE = 22, 32
# Inches of axes, and of the note about a mode that is not released.
_WIDTH, _HEIGHT, _NOTE_HEIGHT = 2.8, 1.9, 0.3


class FactorsDisplay:
    """Factors of a tensor: one row of axes per mode, one column of axes per component.

    The title of a column says how predictions use it: biases are added, a term is the
    product of one value per mode, the core of a Tucker decomposition combines its
    columns, and a feature is a public feature times a weight.

    Parameters
    ----------
    components : dict of str to list of (array-like of shape (n_indices,) or None)
        By name, one column per mode; None for a mode without such a column, or whose
        factor is not released.
    modes : iterable of int, default=None
        Modes to draw, from top to bottom; all by default.
    labels : dict of int to sequence of str, default=None
        By mode, names of its indices, which must be public; their numbers by default.
    ordered : iterable of int, default=()
        Modes whose indices have an order.
    private : iterable of int, default=()
        Modes whose factors are not released. A note replaces them. If you pass `modes`,
        leave them out.
    mode_names : sequence of str, default=None
        Names of all modes; "mode 0" and so on by default.
    n_labels : int, default=3
        Number of indices to name at each end of sorted values.

    Attributes
    ----------
    axes_ : ndarray of shape (n_modes, n_components), matplotlib Axes
        Axes of the drawing.
    figure_ : matplotlib Figure
        Figure of the axes.

    Raises
    ------
    ValueError
        If there is no component or no mode, if components differ in their number of
        modes, if `modes` has a private mode, or if modes or labels do not match the
        tensor.

    Notes
    -----
    A mode whose indices have an order, such as bins of time, is drawn as a line. Any
    other mode is drawn as bars if it has up to 24 indices. If it has more, its values
    are sorted, and the picture names the indices with the highest and lowest values.

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
            raise ValueError(
                "components must hold at least one component, and each must have one "
                "column per mode."
            )
        (n_modes,) = numbers
        drawn = list(range(n_modes) if modes is None else modes)
        if not check_modes(drawn, n_modes, "modes"):
            raise ValueError("modes must hold at least one mode.")
        self.modes = [mode % n_modes for mode in drawn]
        self.ordered = check_modes(ordered, n_modes, "ordered")
        self.private = check_modes(private, n_modes, "private")
        if modes is not None and (unreleased := {*self.modes} & {*self.private}):
            raise ValueError(
                f"The factors of mode {min(unreleased)} are not released, because each "
                f"of its indices is protected. Leave the mode out of `modes`."
            )
        numbered = [f"mode {mode}" for mode in range(n_modes)]
        self.mode_names = numbered if mode_names is None else list(mode_names)
        self.n_labels = n_labels
        check_modes(labels, n_modes, "labels")
        of_modes = (labels or {}).items()
        self.labels = {mode % n_modes: list(names) for mode, names in of_modes}
        for mode, names in self.labels.items():
            for column in self._columns(mode):
                if column is not None and len(column) != len(names):
                    raise ValueError(
                        f"labels of mode {mode} must hold one name for each of its "
                        f"{len(column)} indices, got {len(names)}."
                    )

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        *,
        modes: Iterable[int] | None = None,
        components: Iterable[str] | None = None,
        labels: Mapping[int, Sequence[str]] | None = None,
        ordered: Iterable[int] | None = None,
        n_labels: int = 3,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the factors of a fitted completion.

        The factors are post-processing of the release, so the picture costs no privacy.
        If `unit` is a mode, its factors are neither released nor drawn.

        Parameters
        ----------
        estimator : CPCompletion or TuckerCompletion
            Fitted.
        modes : iterable of int, default=None
            Modes to draw; all by default, with a note for a mode that is not released.
        components : iterable of str, default=None
            Names of the components to draw. "bias" is the bias of every mode. "term 0"
            and so on are the terms of a CP decomposition. "column 0" and so on are the
            columns of every mode of a Tucker decomposition, which its core combines.
            "feature 0" and so on are features of the second mode's indices, with the
            weights of the first mode's indices. The default is the biases and up to
            four others: the strongest terms, or the first columns, or the first
            features if there are neither terms nor columns.
        labels : dict of int to sequence of str, default=None
            By mode, names of its indices, which must be public; their numbers by
            default.
        ordered : iterable of int, default=None
            Modes whose indices have an order; `smooth_modes` by default.
        n_labels : int, default=3
            Number of indices to name at each end of sorted values.
        ax : matplotlib Axes or array of Axes, default=None
            One Axes, whose place is divided into a grid, or one Axes for every mode and
            component; a new figure by default.

        Returns
        -------
        display : FactorsDisplay

        Raises
        ------
        TypeError
            If the estimator has no factors.
        ValueError
            If a mode does not exist or is not released, if a component does not exist,
            or if the labels do not match a mode.

        Examples
        --------
        >>> from sktensordp.completion import CPCompletion
        >>> from sktensordp.datasets import make_ratings
        >>> from sktensordp.plotting import FactorsDisplay
        >>> ratings = make_ratings(60, 40, 1500, random_state=0)
        >>> model = CPCompletion(
        ...     rank=2, epsilon=8.0, levels=ratings.levels, random_state=0)
        >>> model = model.fit(ratings.data, ratings.target)
        >>> display = FactorsDisplay.from_estimator(model, components=["bias"])
        >>> len(display.components["bias"][0]), len(display.components["bias"][1])
        (60, 40)
        """
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(estimator)
        if not hasattr(estimator, "decomposition_"):
            raise TypeError(
                f"{type(estimator).__name__} has no factors. Pass a completion; from a "
                f"pipeline, pass its completion step; from a Recommender, completion_."
            )
        factors = estimator.factors_
        named = components_by_name(factors, column_names(estimator))
        return cls(
            choose_components(named, components),
            modes=modes,
            labels=labels,
            ordered=estimator.smooth_modes if ordered is None else ordered,
            private=[mode for mode, factor in enumerate(factors) if factor is None],
            n_labels=n_labels,
            mode_names=getattr(estimator, "feature_names_in_", None),
        ).plot(ax=ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the columns.

        Parameters
        ----------
        ax : matplotlib Axes or array of Axes, default=None
            One Axes, whose place is divided into a grid, or one Axes for every mode and
            component; a new figure by default.

        Returns
        -------
        self : FactorsDisplay

        Raises
        ------
        ValueError
            If the number of axes is not that of modes times components.

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
            meaning = MEANINGS.get(name.rstrip(" 0123456789"))
            title = wrapped(f"{name}\n({meaning})" if meaning else name, _LONGEST_LINE)
            axes.set_title(title, fontsize="medium")
        for row, mode in zip(self.axes_, self.modes, strict=True):
            for axes, column in zip(row, self._columns(mode), strict=True):
                if column is None:
                    axes.set_axis_off()
                else:
                    self._draw_column(axes, mode, column)
            name = wrapped(str(self.mode_names[mode]), _LONGEST_NAME)
            if mode in self.private:
                why = "not released, because each of its indices is protected"
                style = {"va": "center", "style": "italic", "size": "small"}
                _write(row[0], f"{name}: {why}", x=0, y=0.5, **style)
            for axes in [axes for axes in row if axes.axison][:1]:
                axes.set_ylabel(name)
        return self

    def _grid(self, ax: Any) -> NDArray[Any]:
        """Axes for every mode and component."""
        shape = len(self.modes), len(self.components)
        heights = [_NOTE_HEIGHT if m in self.private else _HEIGHT for m in self.modes]
        if ax is None:
            plt = imported("matplotlib.pyplot", "plot")
            size = max(_WIDTH * shape[1], 4.8), sum(heights) + 0.3
            figure = plt.figure(layout="constrained", figsize=size)
            return figure.subplots(*shape, squeeze=False, height_ratios=heights)
        if np.size(ax) == shape[0] * shape[1]:
            return np.reshape(ax, shape)
        if np.size(ax) != 1:
            raise ValueError(
                f"ax must hold one Axes for every mode and component, in shape "
                f"{shape}, got {np.size(ax)} Axes."
            )
        (axes,) = np.ravel(ax)
        place = axes.get_subplotspec()
        if place is None:
            raise ValueError(
                "A single `ax` must be part of a grid, as from plt.subplots, so that "
                "its place can be divided."
            )
        axes.set_axis_off()
        # A constrained layout makes room for titles and labels itself.
        layout = axes.get_figure(root=True).get_layout_engine()
        fixed = layout is None or layout.adjust_compatible
        space = {"hspace": 0.9, "wspace": 0.3} if fixed else {}
        grid = place.subgridspec(*shape, height_ratios=heights, **space)
        return grid.subplots(squeeze=False)

    def _columns(self, mode: int) -> list[NDArray[np.float64] | None]:
        return [columns[mode] for columns in self.components.values()]

    def _draw_column(self, axes: Axes, mode: int, column: NDArray[np.float64]) -> None:
        axes.tick_params(labelsize="small")
        axes.axhline(0, color=shade(axes, 0.3), linewidth=0.8, zorder=0)
        indices, labels = np.arange(len(column)), self.labels.get(mode)
        name = _shortened(self.mode_names[mode])
        if mode in self.ordered:
            axes.plot(column, color=shade(axes, 0.85), linewidth=1.2)
        elif len(column) <= _MOST_BARS:
            axes.bar(indices, column, color=shade(axes, 0.55), width=0.7)
        else:
            axes.set_xlabel(f"{len(column):,} indices of {name}, sorted", size="small")
            self._draw_sorted(axes, mode, column)
            return
        axes.set_xlabel(f"index of {name}" if labels is None else name, size="small")
        if labels is None:
            locator: Any = axes.xaxis.get_major_locator()
            locator.set_params(integer=True)
        else:
            most = _MOST_TICKS if mode in self.ordered else _MOST_BARS
            ticks = indices[:: -(-len(indices) // most)]
            names = [_shortened(labels[k]) for k in ticks]
            size = "x-small" if len(ticks) <= _MOST_TICKS else "xx-small"
            axes.set_xticks(ticks, labels=names, rotation=90, fontsize=size)

    def _draw_sorted(self, axes: Axes, mode: int, column: NDArray[np.float64]) -> None:
        """Draw the sorted values, with the names at both ends in the free corners."""
        order, n = np.argsort(column), self.n_labels
        axes.plot(column[order], color=shade(axes, 0.85), linewidth=1.2)
        if not n:
            return
        labels = self.labels.get(mode, range(len(column)))
        names = [_shortened(labels[k]) for k in order[::-1]]
        top = {"x": 0.05, "y": 0.95, "va": "top", "fontsize": "x-small"}
        bottom = {"x": 0.95, "y": 0.05, "ha": "right", "fontsize": "x-small"}
        _write(axes, "\n".join(["highest:", *names[:n]]), **top)
        _write(axes, "\n".join(["lowest:", *names[-n:]]), **bottom)


def _write(axes: Axes, text: str, **style: Any) -> None:
    """Write text into axes; the layout makes no room for it."""
    style |= {"transform": axes.transAxes, "color": shade(axes, 1.0)}
    axes.text(s=text, in_layout=False, **style)


def _shortened(name: object) -> str:
    text, half = str(name), _LONGEST_NAME // 2
    return text if len(text) <= _LONGEST_NAME else f"{text[:half]}…{text[1 - half :]}"


def column_names(model: BaseEstimator) -> list[list[str | None]]:
    """Names of the columns of all factors of a completion, in the order of `factors_`.

    Parameters
    ----------
    model : CPCompletion or TuckerCompletion
        Fitted.

    Returns
    -------
    names : list of list of str or None
        One list per mode. A name is "bias", "term 0" and so on for a CP, "column 0"
        and so on for a Tucker, or "feature 0" and so on; None for a column that is
        fixed at one.
    """
    released = released_model(model)
    names = released.column_names
    if hasattr(model.decomposition_, "core") and not hasattr(released, "core"):
        # A CP stored as a Tucker has a single column of ones instead of several.
        names = [
            [None, *np.array(of_mode)[np.any(factor != 1, axis=0)].tolist()]
            for of_mode, factor in zip(names, released.factors, strict=True)
        ]
    return names


def components_by_name(
    factors: Sequence[Any], names: Sequence[Sequence[str | None]]
) -> Components:
    """Components by name: for each name, its column in every mode.

    Parameters
    ----------
    factors : list of ndarray of shape (n_indices, n_columns) or None
        None for a factor that is not released.
    names : list of list of str or None
        Names of all columns, one list per mode.

    Returns
    -------
    components : dict of str to list of ndarray or None
        None for a mode without such a column, or whose factor is not released.
    """
    components: Components = {}
    for mode, (factor, of_mode) in enumerate(zip(factors, names, strict=True)):
        for j, name in enumerate(of_mode):
            if name is not None:
                columns = components.setdefault(name, [None] * len(factors))
                columns[mode] = None if factor is None else factor[:, j]
    return components


def choose_components(
    components: Components, names: Iterable[str] | None
) -> Components:
    """Components with the given names, or the default ones.

    Parameters
    ----------
    components : dict of str to list of ndarray or None
        All components.
    names : iterable of str or None
        None for the biases and up to four others, the strongest terms first.

    Returns
    -------
    chosen : dict of str to list of ndarray or None

    Raises
    ------
    ValueError
        If there is no component with one of the names.
    """
    if names is None:
        biases, terms, columns, features = (
            [name for name in components if name.split()[0] == kind]
            for kind in MEANINGS
        )
        norms = [
            math.prod(float(np.linalg.norm(c)) for c in components[t] if c is not None)
            for t in terms
        ]
        order = np.argsort(-np.array(norms), kind="stable")
        others = [terms[k] for k in order] or columns or features
        names = [*biases, *others[:4]]
    names = list(names)
    if unknown := [name for name in names if name not in components]:
        raise ValueError(
            f"There is no component {unknown[0]!r}. The components are "
            f"{list(components)}."
        )
    return {name: components[name] for name in names}
