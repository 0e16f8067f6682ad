"""Names of the columns in the factors of a fitted completion, and what they mean."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

# How predictions use a component, by the kind of its name.
MEANINGS = {
    "bias": "added to the prediction",
    "term": "product over the modes",
    "column": "combined by the core",
    "feature": "weight × public feature",
}
# Number of terms or columns that are drawn by default, besides the biases.
_MOST_COMPONENTS = 4

# By name, the column of every mode; None where there is none, or it is not released.
Components = dict[str, list[NDArray[np.float64] | None]]


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
    rows = getattr(released, "inner", released)
    features = [f"feature {j}" for j in range(rows.features.shape[1])]
    if hasattr(rows, "ranks"):
        # Columns of ones, and biases, come first.
        first = [None] * (rows.has_biases or bool(features)) + [
            "bias"
        ] * rows.has_biases
        names = [
            [*first, *(f"column {j}" for j in range(rank)), *features * (mode < 2)]
            for mode, rank in enumerate(rows.ranks)
        ]
    else:
        biases = range(rows.n_modes * rows.has_biases)
        terms = [f"term {j}" for j in range(np.count_nonzero(rows.terms))]
        names = [
            [
                *("bias" if j == mode else None for j in biases),
                *terms,
                *(features if mode < 2 else [None] * len(features)),
            ]
            for mode in range(rows.n_modes)
        ]
        if hasattr(model.decomposition_, "core"):
            # A CP stored as a Tucker has a single column of ones in place of several.
            names = [
                [None, *np.array(of_mode)[np.any(factor != 1, axis=0)].tolist()]
                for of_mode, factor in zip(names, rows.factors, strict=True)
            ]
    # A model that protects a unit has the mode of that unit first.
    unit = getattr(released, "unit", 0)
    names.insert(unit, names.pop(0))
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
    components: Components, names: Iterable[str] | None, weights: ArrayLike = 1.0
) -> Components:
    """Components with the given names, or those that are drawn by default.

    Parameters
    ----------
    components : dict of str to list of ndarray or None
        All components.
    names : iterable of str or None
        None for the biases and a few others, the strongest terms first.
    weights : array-like, default=1.0
        Weights of the terms, unless their columns include them.

    Returns
    -------
    chosen : dict of str to list of ndarray or None

    Raises
    ------
    ValueError
        If there is no component of some name.
    """
    names = _default_names(components, weights) if names is None else list(names)
    if unknown := [name for name in names if name not in components]:
        raise ValueError(
            f"There is no component {unknown[0]!r}. The components are "
            f"{list(components)}."
        )
    return {name: components[name] for name in names}


def _default_names(components: Components, weights: ArrayLike) -> list[str]:
    biases, terms, columns, features = (
        [name for name in components if name.split()[0] == kind] for kind in MEANINGS
    )
    norms = [
        math.prod(float(np.linalg.norm(c)) for c in components[term] if c is not None)
        for term in terms
    ]
    order = np.argsort(-np.abs(weights) * np.array(norms), kind="stable")
    others = [terms[k] for k in order] or columns or features
    return [*biases, *others[:_MOST_COMPONENTS]]
