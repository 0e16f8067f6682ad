"""Names of the columns in the factors of a fitted completion, and what they mean."""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Number of terms or columns that are drawn by default, besides the biases.
_MOST_COMPONENTS = 4
_MEANINGS = {
    "bias": "added to the prediction",
    "term": "product over the modes",
    "column": "combined by the core",
    "feature": "weight × public feature",
}


def meaning_of(name: str) -> str | None:
    """How the predictions use a component such as "term 0"; None for other names."""
    kind = re.fullmatch(r"(bias)|(term|column|feature) \d+", name)
    return None if kind is None else _MEANINGS[kind[1] or kind[2]]


def column_names(model: Any) -> list[list[str | None]]:
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
    released = model._fitted.released
    inner = getattr(released, "inner", released)
    if hasattr(inner, "ranks"):
        names = _tucker_names(inner)
    else:
        names = _cp_names(inner.fixed)
        if hasattr(model.decomposition_, "core"):
            # A CP stored as a Tucker has a single column of ones in place of several.
            names = [
                [None, *np.array(of_mode)[np.any(factor != 1, axis=0)].tolist()]
                for of_mode, factor in zip(names, inner.factors, strict=True)
            ]
    # A model that protects a unit has the mode of that unit first.
    unit = getattr(released, "unit", 0)
    names.insert(unit, names.pop(0))
    return names


def _cp_names(fixed: NDArray[np.bool_]) -> list[list[str | None]]:
    """Names from the columns that are fixed at one or at features, by mode."""
    n_modes, n_columns = fixed.shape
    has_biases = np.array_equal(fixed[:, :n_modes], ~np.eye(n_modes, dtype=bool))
    n_biases = n_modes if has_biases else 0
    terms = np.flatnonzero(~fixed.any(axis=0))
    first_feature = n_biases + len(terms)

    def name(mode: int, column: int) -> str | None:
        if column < n_biases:
            return "bias" if column == mode else None
        if column < first_feature:
            return f"term {column - n_biases}"
        return f"feature {column - first_feature}" if mode < 2 else None

    return [[name(mode, j) for j in range(n_columns)] for mode in range(n_modes)]


def _tucker_names(model: Any) -> list[list[str | None]]:
    n_features = model.features.shape[1]
    # Columns of ones, and biases, come first.
    first: list[str | None] = [None] if model.has_biases or n_features else []
    first += ["bias"] * model.has_biases
    names = []
    for mode, rank in enumerate(model.ranks):
        last = [f"feature {j}" for j in range(n_features)] if mode < 2 else []
        names.append([*first, *(f"column {j}" for j in range(rank)), *last])
    return names


def components_by_name(
    factors: Sequence[Any], names: Sequence[Sequence[str | None]]
) -> dict[str, list[Any]]:
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
    components: dict[str, list[Any]] = {}
    for mode, (factor, of_mode) in enumerate(zip(factors, names, strict=True)):
        for j, name in enumerate(of_mode):
            if name is not None:
                columns = components.setdefault(name, [None] * len(factors))
                columns[mode] = None if factor is None else factor[:, j]
    return components


def choose_components(
    components: dict[str, list[Any]],
    names: Iterable[str] | None,
    weights: Any = None,
) -> dict[str, list[Any]]:
    """Components with the given names, or those that are drawn by default.

    Parameters
    ----------
    components : dict of str to list of ndarray or None
        All components.
    names : iterable of str or None
        None for the biases and a few others, the strongest terms first.
    weights : array-like, default=None
        Weights of the terms, unless their columns include them.

    Returns
    -------
    chosen : dict of str to list of ndarray or None

    Raises
    ------
    ValueError
        If there is no component of some name.
    """
    if names is None:
        names_by_kind: dict[str, list[str]] = defaultdict(list)
        for name in components:
            names_by_kind[name.split()[0]].append(name)
        if weights is None:
            weights = np.ones(len(names_by_kind["term"]))
        strengths = {
            name: abs(weight) * _product_of_norms(components[name])
            for name, weight in zip(names_by_kind["term"], weights, strict=True)
        }
        terms = sorted(strengths, key=lambda name: -strengths[name])
        others = terms or names_by_kind["column"] or names_by_kind["feature"]
        names = [*names_by_kind["bias"], *others[:_MOST_COMPONENTS]]
    names = list(names)
    if unknown := [name for name in names if name not in components]:
        raise ValueError(
            f"There is no component {unknown[0]!r}. The components are "
            f"{list(components)}."
        )
    return {name: components[name] for name in names}


def _product_of_norms(columns: Iterable[Any]) -> float:
    """Product of the norms of the released columns."""
    released = [column for column in columns if column is not None]
    return math.prod(float(np.linalg.norm(column)) for column in released)
