"""Features of the pattern: what they are, and that chance gives none."""

import numpy as np
import pytest

from sktensordp.tensor import pattern_of


def incidence(shape, groups, n_draws, seed=0, liking=6.0):
    """Distinct pairs; rows prefer columns of their own group, columns differ in weight.

    Returns coordinates and the group of every column.
    """
    rng = np.random.default_rng(seed)
    of_row = rng.integers(0, groups, shape[0])
    of_column = rng.integers(0, groups, shape[1])
    weights = (1 + np.arange(shape[1])) ** -0.6
    liking = np.where(np.equal.outer(of_row, of_column), liking, 1.0) * weights
    chosen = rng.choice(liking.size, n_draws, p=(liking / liking.sum()).ravel())
    return np.stack(np.divmod(np.unique(chosen), shape[1]), axis=1), of_column


def test_the_first_feature_is_the_centred_logarithm_of_the_counts():
    where, _ = incidence((200, 100), 1, 6000)
    features = pattern_of(where, (200, 100), 0).features
    counts = np.bincount(where[:, 1], minlength=100)
    assert features.shape == (101, 1)
    shown = np.log1p(counts)
    # An unknown row has the average over the entries.
    shown = np.append(shown, counts @ shown / counts.sum())
    assert np.corrcoef(features[:, 0], shown)[0, 1] == pytest.approx(1)
    of_entries = features[where[:, 1], 0]
    assert of_entries.mean() == pytest.approx(0, abs=1e-12)
    assert np.sqrt(np.mean(of_entries**2)) == pytest.approx(0.25)


@pytest.mark.parametrize("groups", [2, 3, 5])
def test_groups_are_found_and_no_more(groups):
    where, of_column = incidence((400, 150), groups, 16_000)
    features = pattern_of(where, (400, 150), 8).features
    components = features[:-1, 1:]
    assert components.shape[1] == groups - 1
    norms = np.linalg.norm(components, axis=1)
    # Columns of one group are alike, columns of two are not.
    directions = components / np.maximum(norms, 1e-12)[:, np.newaxis]
    alike = directions @ directions.T
    same = np.equal.outer(of_column, of_column) & ~np.eye(150, dtype=bool)
    seen = np.outer(norms > 0, norms > 0)
    assert alike[same & seen].mean() > 0.5 > 0.2 > alike[~same & seen].mean()


@pytest.mark.parametrize("seed", range(5))
def test_chance_gives_no_components(seed):
    """Margins that differ, and otherwise independent rows and columns."""
    where, _ = incidence((400, 150), 1, 12_000, seed)
    assert pattern_of(where, (400, 150), 8).features.shape == (151, 1)


def test_entries_at_random_give_no_features():
    rng = np.random.default_rng(0)
    where = np.argwhere(rng.random((60, 50, 4)) < 0.5)
    assert pattern_of(where, (60, 50, 4), 8).features.shape == (51, 0)


def test_rows_without_entries_have_the_features_of_the_average_entry():
    where, _ = incidence((300, 100), 3, 9000)
    features = pattern_of(where, (300, 120), 4).features
    average = features[where[:, 1]].mean(axis=0)
    np.testing.assert_allclose(features[100:], np.tile(average, (21, 1)), atol=1e-12)


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (1, 5), (5, 1), (3, 3), (3, 2, 4)])
@pytest.mark.parametrize("n", [1, 4])
def test_tensors_too_small_for_components(shape, n):
    rng = np.random.default_rng(0)
    where = np.column_stack([rng.integers(0, size, n) for size in shape])
    features = pattern_of(where, shape, 8).features
    assert features.shape[0] == shape[1] + 1
    assert np.all(np.isfinite(features))


@pytest.mark.parametrize(("groups", "found"), [(1, 0), (3, 2), (14, 13)])
def test_as_many_components_as_stand_out(groups, found):
    """More than the search begins with, too; of these, eight are clear at most."""
    where, _ = incidence((800, 300), groups, 40_000, liking=30.0)
    pattern = pattern_of(where, (800, 300), None)
    assert pattern.vectors.shape[1] == found
    assert pattern.n_clear == min(found, 8)
    fewer = pattern_of(where, (800, 300), 8)
    assert fewer.vectors.shape[1] == min(found, 8)
    if found < 8:
        # Of groups of one size, a search for a part finds others.
        np.testing.assert_allclose(
            pattern.clear_features, fewer.features, rtol=1e-3, atol=1e-3
        )


def test_rows_with_few_entries_have_small_features():
    where, _ = incidence((800, 300), 3, 20_000)
    components = pattern_of(where, (800, 300), None).features[:-1, 1:]
    counts = np.bincount(where[:, 1], minlength=300)
    norms = np.linalg.norm(components, axis=1)
    assert np.all(norms < np.sqrt(2))
    order = np.argsort(counts)
    assert norms[order[-100:]].mean() > 1 > 1.5 * norms[order[:20]].mean()
