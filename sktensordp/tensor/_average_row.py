"""The row of the average entry, for indices about which nothing is known.

An index without entries is unknown, not unpopular. A guess for it should suit future
entries, and most of these will be in rows that have many entries. So an unknown row is
an average over the entries, not over the rows.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def average_row(
    rows: NDArray[np.floating], counts: NDArray[Any]
) -> NDArray[np.float64]:
    """The mean of rows, weighted by their numbers of entries.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_columns)
    counts : ndarray of shape (n_rows,)
        Number of entries of every row, or an estimate of it; not negative.

    Returns
    -------
    row : ndarray of shape (n_columns,)
        Zeros if there are no entries.
    """
    total = counts.sum()
    return counts @ rows.astype(float) / (total if total > 0 else 1.0)


def with_average(
    rows: NDArray[np.floating], counts: NDArray[Any]
) -> NDArray[np.float64]:
    """Replace rows without entries, and append the row of an unknown index.

    Parameters
    ----------
    rows, counts
        See `average_row`.

    Returns
    -------
    rows : ndarray of shape (n_rows + 1, n_columns)
    """
    return toward_average(rows, counts, counts <= 0)


def toward_average(
    rows: NDArray[np.floating], counts: NDArray[Any], unknown: NDArray[Any]
) -> NDArray[np.float64]:
    """Move rows towards the average entry's, and append the row of an unknown index.

    Parameters
    ----------
    rows, counts
        See `average_row`.
    unknown : ndarray of shape (n_rows,)
        How far each row is moved: from 0, not at all, to 1, all the way.

    Returns
    -------
    rows : ndarray of shape (n_rows + 1, n_columns)
    """
    average = average_row(rows, counts)
    share = np.append(unknown, 1.0)[:, np.newaxis]
    rows = np.append(rows, average[np.newaxis], axis=0)
    return (1 - share) * rows + share * average
