"""No refusal states how many entries, users or rows of a tensor there are.

Where all data of a unit are protected, these numbers are private: the neighbour has
others. A refusal of wrong input must not show them.
"""

import re

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from sktensordp.completion import (
    CPCompletion,
    ImplicitCompletion,
    TuckerCompletion,
    make_fold_in_scorer,
    make_ranking_scorer,
    party,
)
from sktensordp.model_selection import PrivateSearchCV, UserKFold, expected_error

pytestmark = pytest.mark.thorough

# No other number in a message: entries, users and the user with the largest index.
N_ENTRIES, N_USERS, N_ITEMS, SHAPE = 137, 211, 173, (300, 301)
PRIVATE = {str(n + k) for n in (N_ENTRIES, N_USERS, N_ITEMS) for k in (-1, 0, 1)}

RNG = np.random.default_rng(0)
X = np.column_stack([RNG.integers(0, n, N_ENTRIES) for n in (N_USERS, N_ITEMS)])
Y = RNG.random(N_ENTRIES)
TENSOR = np.full((N_USERS, N_ITEMS), np.nan)
TENSOR[tuple(X.T)] = Y
SPARSE = sparse.coo_array((Y, tuple(X.T)), shape=(N_USERS, N_ITEMS))

RATINGS = {"unit": 0, "delta": 1e-3, "value_bounds": (0, 1), "max_iter": 1}
MODELS = {
    "CP": lambda: CPCompletion(1, shape=SHAPE, **RATINGS),
    "Tucker": lambda: TuckerCompletion(1, shape=SHAPE, **RATINGS),
    "choices": lambda: ImplicitCompletion(delta=1e-3, shape=SHAPE),
}
INPUTS = {
    "y is short": (X, Y[:-1]),
    "y is long": (X, np.append(Y, 0)),
    "y is 2-D": (X, np.column_stack([Y, Y])),
    "y is a sparse column": (X, sparse.coo_array(Y[:, None])),
    "a frame": (pd.DataFrame(X), Y[:-1]),
    "lists": (X.tolist(), Y[:-1].tolist()),
    "ragged": ([*X.tolist()[:-1], [1]], Y),
    "X is 1-D": (X[:, 0], Y),
    "X is 3-D": (X[:, :, None], Y),
    "outside": (np.append(X, [[0, 301]], axis=0), np.append(Y, 0)),
    "sparse": (SPARSE, None),
    "sparse rows": (SPARSE.tocsr(), None),
    "a tensor": (TENSOR, None),
    "a tensor of three modes": (TENSOR[:, :, None], None),
    "choices": (SPARSE.astype(bool), None),
}


def _fitted(model):
    return model.fit(X) if isinstance(model, ImplicitCompletion) else model.fit(X, Y)


METHODS = {
    "fit": lambda model, given: model.fit(*given),
    "fit_batches": lambda model, given: model.fit_batches([given]),
    "fold_in": lambda model, given: _fitted(model).fold_in(*given),
    "party": lambda model, given: party(model, *given),
    "predict": lambda model, given: _fitted(model).predict(given[0]),
    "expected_error": lambda model, given: expected_error(
        model, given[0], epsilons=[1.0]
    ),
    "PrivateSearchCV": lambda model, given: PrivateSearchCV(
        model, {"rank": [1]}, cv=UserKFold(2)
    ).fit(*given),
    "fold-in scorer": lambda model, given: make_fold_in_scorer()(
        _fitted(model), *given
    ),
    "ranking scorer": lambda model, given: make_ranking_scorer()(
        _fitted(model), *given
    ),
}
# At least so many of the inputs are refused, where the method takes them at all.
REFUSED = {
    ("CP", "fit"): 14, ("CP", "fit_batches"): 10, ("CP", "fold_in"): 10,
    ("CP", "party"): 10, ("CP", "PrivateSearchCV"): 10, ("choices", "fit"): 5,
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("method", METHODS)
def test_no_refusal_states_a_private_size(name, method):
    messages = {}
    for label, given in INPUTS.items():
        given = tuple(part for part in given if part is not None)
        try:
            METHODS[method](MODELS[name](), given)
        except Exception as error:
            messages[label] = str(error)
    assert len(messages) >= REFUSED.get((name, method), 0)
    for label, message in messages.items():
        assert not set(re.findall(r"\d+", message)) & PRIVATE, f"{label}: {message}"
