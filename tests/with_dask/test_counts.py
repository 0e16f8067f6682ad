"""Rows in Dask collections are counted in their parts, in one release."""

import math

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from sktensordp.counts import TensorCounts

SHAPE = (3, 6, 8)
ROWS = np.random.default_rng(0).integers([0] * 3, SHAPE, (3000, 3))


@pytest.mark.parametrize("chunks", [(3000, 3), (100, 2), (41, 1)])
def test_arrays_give_the_same_tables(chunks):
    once = TensorCounts(shape=SHAPE, random_state=0).fit(ROWS)
    lazy = TensorCounts(shape=SHAPE, random_state=0)
    lazy.fit(da.from_array(ROWS, chunks=chunks))
    for modes in once.tables_:
        np.testing.assert_array_equal(lazy.marginal(modes), once.marginal(modes))
    assert lazy.privacy_guarantee_ == once.privacy_guarantee_
    assert lazy.n_features_in_ == 3


def test_frames_give_the_same_tables():
    frame = pd.DataFrame(ROWS, columns=["a", "b", "c"]).astype({"a": float})
    frame.loc[7, "a"] = np.nan
    lazy = TensorCounts(shape=SHAPE, random_state=0)
    lazy.fit(dd.from_pandas(frame, npartitions=5))
    once = TensorCounts(shape=SHAPE, random_state=0).fit(frame)
    np.testing.assert_array_equal(lazy.marginal((0, 1)), once.marginal((0, 1)))
    assert list(lazy.feature_names_in_) == ["a", "b", "c"]


def test_people_in_many_parts():
    people = np.arange(3000) % 500
    X = np.column_stack([people, ROWS])
    exact = TensorCounts(epsilon=math.inf, shape=SHAPE, unit=0, max_records=4)
    exact.fit(da.from_array(X, chunks=(70, 4)))
    assert exact.total({}) == 2000
    all_of_them = TensorCounts(epsilon=math.inf, shape=SHAPE, unit=0, max_records=6)
    all_of_them.fit(da.from_array(X, chunks=(70, 4)))
    true = np.zeros(SHAPE[:2])
    np.add.at(true, tuple(ROWS[:, :2].T), 1)
    np.testing.assert_array_equal(all_of_them.marginal((0, 1)), true)
    noisy = TensorCounts(epsilon=50.0, shape=SHAPE, unit=0, max_records=4)
    noisy.fit(da.from_array(X, chunks=(70, 4)))
    assert noisy.total({}) == pytest.approx(2000, abs=40)


def test_rows_outside_are_refused_without_noise_only():
    X = da.from_array(np.vstack([ROWS, [[9, 9, 9]]]), chunks=(500, 3))
    with pytest.raises(ValueError, match="X has 3 columns"):
        TensorCounts(shape=SHAPE[:2]).fit(X)
    noisy = TensorCounts(shape=SHAPE, epsilon=50.0).fit(X)
    assert noisy.total({}) == pytest.approx(3000, abs=5)
    with pytest.raises(ValueError, match="outside"):
        TensorCounts(shape=SHAPE, epsilon=math.inf).fit(X)
