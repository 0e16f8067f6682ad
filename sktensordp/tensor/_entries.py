"""Observed entries of a tensor, as coordinates or as an array with a mask.

Both update the rows of one mode, given the other modes. With b_e the product of the
rows that entry e meets in the other modes, a row needs sum_e E[b_e b_e^T] and
sum_e y_e E[b_e] over its entries. Coordinates gather these entry by entry, in a
compiled kernel; an array contracts its mask and its values with the moments of the
other modes, by one product of matrices and sums.
"""

import numpy as np

from ._coordinates import group_by_index

__all__ = ["DenseEntries", "SparseEntries"]


class SparseEntries:
    """Entries as coordinates, grouped by their row, once for every mode.

    Parameters
    ----------
    coordinates : ndarray of shape (n, n_modes), int
    values : ndarray of shape (n,), float
    shape : tuple of int
    """

    def __init__(self, coordinates, values, shape):
        self.shape = tuple(shape)
        self.n_entries = len(values)
        self.mean_square = float(np.mean(values**2))
        offsets = np.concatenate([[0], np.cumsum(shape)[:-1]])
        shifted = coordinates + offsets
        self._starts, self._others, self._values = [], [], []
        for mode, size in enumerate(shape):
            order, starts = group_by_index(coordinates[:, mode], size)
            self._starts.append(starts)
            self._others.append(np.delete(shifted, mode, axis=1)[order])
            self._values.append(values[order])

    def observed(self, mode):
        """Which rows of a mode have an entry: a mask of shape (size of the mode,)."""
        return np.diff(self._starts[mode]) > 0

    def update(
        self, mode, rows, means, moments, free, prior_mean, precision, noise,
        pool, n_threads,
    ):  # fmt: skip
        """Posterior of the rows of one mode, written into its means and moments.

        Parameters
        ----------
        mode : int
        rows : list of slice
            The rows of every mode, among those of all modes.
        means, moments : ndarray of shape (n_rows, Q), (n_rows, Q, Q)
            First and second moments of the rows of all modes.
        free : ndarray of shape (n_free,)
            Columns that are not held at one in this mode.
        prior_mean, precision : ndarray of shape (n_columns,)
            Prior of the free columns.
        noise : float
            Variance of the observations around the model.
        pool : concurrent.futures.Executor
        n_threads : int

        Returns
        -------
        error : float
            Expected squared error of all entries under the posterior.
        """
        from ._kernels import update_rows

        squared_error = np.empty(self.shape[mode])

        def run(bounds):
            update_rows(
                *bounds, self._starts[mode], self._others[mode], self._values[mode],
                means, moments, means[rows[mode]], moments[rows[mode]], free,
                prior_mean, precision, noise, squared_error,
            )  # fmt: skip

        list(pool.map(run, self._ranges(mode, n_threads)))
        return squared_error.sum()

    def _ranges(self, mode, n):
        """Ranges of rows with about equal numbers of entries."""
        starts = self._starts[mode]
        work = starts + np.arange(len(starts))
        cuts = np.searchsorted(work, np.linspace(0, work[-1], n + 1)[1:-1])
        return list(zip([0, *cuts], [*cuts, len(starts) - 1], strict=True))


class DenseEntries:
    """Entries as an array, of which a mask says what was observed.

    Parameters
    ----------
    values : ndarray of shape (I_1, ..., I_N), float
        Zero where nothing was observed.
    mask : ndarray of shape (I_1, ..., I_N), bool
    """

    def __init__(self, values, mask):
        self.shape = values.shape
        self.n_entries = int(np.count_nonzero(mask))
        self._energy = float(np.sum(values**2))
        self.mean_square = self._energy / self.n_entries
        self._values = np.ascontiguousarray(values)
        self._mask = np.ascontiguousarray(mask, dtype=values.dtype)
        modes = range(values.ndim)
        self._observed = [
            mask.any(axis=tuple(k for k in modes if k != mode)) for mode in modes
        ]

    def observed(self, mode):
        """Which rows of a mode have an entry: a mask of shape (size of the mode,)."""
        return self._observed[mode]

    def update(
        self, mode, rows, means, moments, free, prior_mean, precision, noise,
        pool, n_threads,
    ):  # fmt: skip
        """Posterior of the rows of one mode; see `SparseEntries.update`."""
        n_columns = means.shape[1]
        upper = np.triu_indices(n_columns)
        packed = [moments[r][:, *upper] for r in rows]
        gram = np.empty((self.shape[mode], n_columns, n_columns))
        gram[:, *upper] = _contract(self._mask, mode, packed)
        gram[:, upper[1], upper[0]] = gram[:, *upper]
        projection = _contract(self._values, mode, [means[r] for r in rows])
        # Columns that are held at one move over to the right-hand side.
        held = np.setdiff1d(np.arange(n_columns), free)
        shift = projection[:, free] - gram[:, free[:, None], held].sum(axis=2)
        shift = shift / noise + (precision * prior_mean)[free]
        inverse = gram[:, free[:, None], free] / noise + np.diag(precision[free])
        covariance = np.linalg.inv(inverse)
        mean, moment = means[rows[mode]], moments[rows[mode]]
        mean[:, free] = np.einsum("rab,rb->ra", covariance, shift)
        moment[:] = mean[:, :, None] * mean[:, None, :]
        moment[:, free[:, None], free] += covariance
        return self._energy + np.sum(gram * moment) - 2 * np.sum(projection * mean)


def _contract(tensor, mode, factors):
    """Sum over all modes but one of a tensor times the rows of the other modes.

    Parameters
    ----------
    tensor : ndarray of shape (I_1, ..., I_N)
    mode : int
        The mode that is left.
    factors : list of ndarray of shape (I_k, n_columns)

    Returns
    -------
    contracted : ndarray of shape (I_mode, n_columns)
    """
    sizes = list(tensor.shape)
    modes = list(range(len(sizes)))
    last = modes[-1] != mode
    # The first contraction is the large one, a product of matrices.
    k = modes.pop() if last else modes.pop(0)
    if last:
        found = tensor.reshape(-1, sizes[k]) @ factors[k]
    else:
        found = tensor.reshape(sizes[k], -1).T @ factors[k]
    while len(modes) > 1:
        if modes[-1] != mode:
            k = modes.pop()
            found = found.reshape(-1, sizes[k], found.shape[-1])
            found = np.einsum("ikc,kc->ic", found, factors[k])
        else:
            k = modes.pop(0)
            found = found.reshape(sizes[k], -1, found.shape[-1])
            found = np.einsum("kic,kc->ic", found, factors[k])
    return found
