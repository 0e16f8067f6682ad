"""Recommendations by the ids of users and items instead of their indices."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.pipeline import Pipeline

from ._encoder import CoordinateEncoder


def recommend_ids(
    model: Pipeline, ids: ArrayLike, k: int = 10, *, context: ArrayLike | None = None
) -> NDArray[Any]:
    """Recommend items to users, both given by their ids.

    Parameters
    ----------
    model : Pipeline
        Fitted pipeline of a `CoordinateEncoder` and a completion.
    ids : array-like of shape (n_users,)
        Ids of the first column. An unknown id gets the recommendations of a
        new user.
    k : int, default=10
        Number of items.
    context : array-like of shape (n_columns - 2,), default=None
        Indices of the other modes, as for `recommend` of the completion.

    Returns
    -------
    items : ndarray of shape (n_users, k)
        Ids of the second column, best first, padded with None if fewer than `k` items
        are left.

    Raises
    ------
    ValueError
        If the pipeline does not consist of these two steps, and as `recommend`.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sktensordp.completion import CoordinateEncoder, CPCompletion, recommend_ids
    >>> table = [["ann", "Heat"], ["ann", "Up"], ["bob", "Heat"], ["eve", "Brazil"]]
    >>> model = make_pipeline(
    ...     CoordinateEncoder(), CPCompletion(rank=0, levels=[1, 2, 3, 4, 5])
    ... )
    >>> model = model.fit(table, [5, 1, 4, 3])
    >>> sorted(recommend_ids(model, ["bob"], k=2)[0].tolist())
    ['Brazil', 'Up']
    """
    steps = model.steps if isinstance(model, Pipeline) else []
    if len(steps) != 2 or not isinstance(steps[0][1], CoordinateEncoder):
        raise ValueError(
            "model must be a fitted Pipeline of a CoordinateEncoder and a completion. "
            "From a search over such pipelines, pass search.best_estimator_."
        )
    encoder, completion = (step for _, step in steps)
    if np.ndim(ids) != 1:
        raise ValueError("ids must be a list of ids, such as ['ann'].")
    users = encoder.indices_of(ids, 0)
    options = {} if context is None else {"context": context}
    return encoder.ids_at(completion.recommend(users, k, **options), 1)
