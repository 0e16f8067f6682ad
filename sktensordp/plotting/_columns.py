"""What the columns of a fitted completion's factors are, by name."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["by_name", "chosen", "column_names"]

# By default, so many terms or columns beside the biases.
_MOST_COMPONENTS = 4


def column_names(model: Any) -> list[list[str | None]]:
    """Names of the columns of all factors of a completion, as `factors_` has them.

    Parameters
    ----------
    model : CPCompletion or TuckerCompletion
        Fitted.

    Returns
    -------
    names : list of list of str or None
        One list a mode: "bias", "term 0" of a CP or "column 0" of a Tucker, and
        "feature 0", or None for a column of ones that the model holds.
    """
    answering = model._fitted.answering
    inner = getattr(answering, "inner", answering)
    if hasattr(inner, "columns"):
        found = _of_tucker(inner.columns)
    else:
        found = _of_cp(inner.fixed)
        if hasattr(model.decomposition_, "core"):
            # A CP in the form of a Tucker: one column of ones stands for all of them.
            found = [
                [None, *np.array(own)[np.any(factor != 1, axis=0)].tolist()]
                for own, factor in zip(found, inner.factors, strict=True)
            ]
    # A model of units has their mode first.
    unit = getattr(answering, "unit", 0)
    found.insert(unit, found.pop(0))
    return found


def _of_cp(fixed: NDArray[np.bool_]) -> list[list[str | None]]:
    """From the columns that are held at one or at features, by mode and column."""
    n_modes, n_columns = fixed.shape
    has_biases = np.array_equal(fixed[:, :n_modes], ~np.eye(n_modes, dtype=bool))
    n_biases = n_modes if has_biases else 0
    terms = np.flatnonzero(~fixed.any(axis=0))
    first = n_biases + len(terms)

    def name(mode: int, column: int) -> str | None:
        if column < n_biases:
            return "bias" if column == mode else None
        if column < first:
            return f"term {column - n_biases}"
        return f"feature {column - first}" if mode < 2 else None

    return [[name(mode, j) for j in range(n_columns)] for mode in range(n_modes)]


def _of_tucker(columns: Any) -> list[list[str | None]]:
    found = []
    for mode, (size, rank) in enumerate(zip(columns.sizes, columns.ranks, strict=True)):
        own: list[str | None] = [None] * size
        if columns.biases:
            own[1] = "bias"
        own[columns.factors(mode)] = [f"column {j}" for j in range(rank)]
        n_features = columns.features(mode).stop - columns.features(mode).start
        own[columns.features(mode)] = [f"feature {j}" for j in range(n_features)]
        found.append(own)
    return found


def by_name(
    factors: Sequence[Any], names: Sequence[Sequence[str | None]]
) -> dict[str, list[Any]]:
    """The columns of every mode by name.

    Parameters
    ----------
    factors : list of ndarray of shape (n_indices, n_columns) or None
        None where a factor is not released.
    names : list of list of str or None
        One list a mode, of all columns.

    Returns
    -------
    found : dict of str to list of ndarray or None
    """
    found: dict[str, list[Any]] = {}
    for mode, (factor, own) in enumerate(zip(factors, names, strict=True)):
        for j, name in enumerate(own):
            if name is not None:
                columns = found.setdefault(name, [None] * len(factors))
                columns[mode] = None if factor is None else factor[:, j]
    return found


def chosen(
    found: dict[str, list[Any]], wanted: Iterable[str] | None, weights: Any = None
) -> dict[str, list[Any]]:
    """Components by name, or those that are drawn by default.

    Parameters
    ----------
    found : dict of str to list of ndarray or None
    wanted : iterable of str or None
        None for the biases and a few others, terms by their strength.
    weights : array-like, default=None
        Of the terms, where their columns do not have them.

    Returns
    -------
    chosen : dict of str to list of ndarray or None

    Raises
    ------
    ValueError
        If there is no such component.
    """
    if wanted is None:
        kinds: dict[str, list[str]] = defaultdict(list)
        for name in found:
            kinds[name.split()[0]].append(name)
        if weights is None:
            weights = np.ones(len(kinds["term"]))
        strengths = {
            name: abs(weight) * math.prod(map(np.linalg.norm, _released(found[name])))
            for name, weight in zip(kinds["term"], weights, strict=True)
        }
        terms = sorted(strengths, key=lambda name: -strengths[name])
        others = terms or kinds["column"] or kinds["feature"]
        wanted = [*kinds["bias"], *others[:_MOST_COMPONENTS]]
    wanted = list(wanted)
    if unknown := [name for name in wanted if name not in found]:
        raise ValueError(f"There is no {unknown[0]!r}; there are {list(found)}.")
    return {name: found[name] for name in wanted}


def _released(columns: Iterable[Any]) -> list[Any]:
    return [column for column in columns if column is not None]
