"""Synthetic tensors of low rank with noise and missing entries."""

import math
from collections.abc import Iterable, Sequence
from numbers import Integral, Real

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch, check_random_state

from sktensordp.tensor import cp_to_dense, mode_products

_DESCR = """\
Synthetic tensor of low rank
----------------------------

A tensor of shape {shape}, made by a {decomposition} decomposition of rank {rank}, with
Gaussian noise at a signal-to-noise ratio of {snr:g}. {n_observed} of its {size}
entries are observed. The design follows the simulation study of Wei, Li, Mao and Wang
(2022), Section 5.1.
"""


def make_low_rank_tensor(
    shape: Sequence[int] = (20, 20, 20),
    rank: int | Sequence[int] = 3,
    *,
    decomposition: str = "cp",
    missing_ratio: float = 0.5,
    snr: float = 1.0,
    scaled: bool = True,
    random_state: int | np.random.RandomState | None = None,
) -> Bunch:
    """Generate a low-rank tensor with noise, and observe some of its entries.

    The design follows the simulation study of [1]_. A CP decomposition has factors of
    standard normal numbers, with columns scaled to unit length. A Tucker decomposition
    has factors with orthonormal columns, uniformly distributed up to their signs, and a
    core of standard normal numbers. The tensor is scaled to the range [0, 1], noise is
    added, and a random set of entries is observed; all sets of that size are equally
    likely.

    Parameters
    ----------
    shape : sequence of int, default=(20, 20, 20)
        Sizes of at least two modes.
    rank : int or sequence of int, default=3
        Number of CP terms, or shape of the Tucker core (an int for the same size in
        every mode). The core may not be larger than the tensor in any mode.
    decomposition : {"cp", "tucker"}, default="cp"
        Decomposition that generates the tensor.
    missing_ratio : float, default=0.5
        Share of the entries that are not observed, in [0, 1). Exactly
        ``round((1 - missing_ratio) * size)`` entries are observed, but at least one.
    snr : float, default=1.0
        Signal-to-noise ratio: the variance over all entries of the noise-free tensor
        (after scaling, if `scaled`), divided by the variance of the noise. Infinity
        for no noise.
    scaled : bool, default=True
        Whether to map the noise-free tensor to the range [0, 1], by its smallest and
        largest entry. This adds a constant, so its ranks can exceed `rank` by one.
    random_state : int, RandomState instance or None, default=None
        Seed of the generation. Pass an int for the same tensor at every call.

    Returns
    -------
    tensor : :class:`~sklearn.utils.Bunch`
        Dictionary-like object, with the following attributes.

        data : ndarray of shape (n_observed, n_modes), dtype int64
            Coordinates of the observed entries, in random order.
        target : ndarray of shape (n_observed,), dtype float64
            Values of the observed entries, with noise.
        tensor : ndarray of shape `shape`
            The same values at their coordinates, and NaN everywhere else.
        truth : ndarray of shape `shape`
            The complete tensor without noise.
        shape : tuple of int
            Sizes of the modes.
        DESCR : str
            Description of the data.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    See Also
    --------
    make_ratings : Ratings with active and passive users, popular and rare items.

    References
    ----------
    .. [1] Wei, Li, Mao and Wang, "Applying Differential Privacy to Tensor
       Completion", 2022, Section 5.1.

    Examples
    --------
    >>> from sktensordp.datasets import make_low_rank_tensor
    >>> made = make_low_rank_tensor((8, 7, 6), rank=2, random_state=0)
    >>> made.data.shape, made.target.shape, made.tensor.shape
    ((168, 3), (168,), (8, 7, 6))
    >>> float(made.truth.min()), float(made.truth.max())
    (0.0, 1.0)
    """
    sizes = _check_sizes(shape, "shape")
    n_cells = math.prod(sizes)
    if len(sizes) < 2 or n_cells < 2:
        raise ValueError(
            f"shape must have at least two modes and two cells, got {shape!r}."
        )
    if decomposition not in ("cp", "tucker"):
        raise ValueError(
            f"decomposition must be 'cp' or 'tucker', got {decomposition!r}."
        )
    ranks = _check_ranks(rank, sizes, decomposition)
    if not isinstance(missing_ratio, Real) or not 0 <= missing_ratio < 1:
        raise ValueError(
            f"missing_ratio must be a number in [0, 1), got {missing_ratio!r}."
        )
    if not isinstance(snr, Real) or not snr > 0:
        raise ValueError(f"snr must be a positive number, got {snr!r}.")

    rng = check_random_state(random_state)
    draw = _draw_cp if decomposition == "cp" else _draw_tucker
    truth = draw(sizes, ranks, rng)
    if scaled:
        low, high = truth.min(), truth.max()
        truth = (truth - low) / (high - low)
    n_observed = max(1, round((1 - missing_ratio) * n_cells))
    cells = rng.permutation(n_cells)[:n_observed]
    noise = math.sqrt(truth.var() / snr) * rng.standard_normal(n_observed)
    target = truth.ravel()[cells] + noise
    tensor = np.full(n_cells, np.nan)
    tensor[cells] = target

    return Bunch(
        data=np.column_stack(np.unravel_index(cells, sizes)),
        target=target,
        tensor=tensor.reshape(sizes),
        truth=truth,
        shape=sizes,
        DESCR=_DESCR.format(
            shape=sizes,
            decomposition="CP" if decomposition == "cp" else "Tucker",
            rank=ranks[0] if decomposition == "cp" else ranks,
            snr=snr,
            n_observed=n_observed,
            size=n_cells,
        ),
    )


def _check_sizes(sizes: int | Sequence[int], name: str) -> tuple[int, ...]:
    """Positive integers as a tuple."""
    values = tuple(sizes) if isinstance(sizes, Iterable) else ()
    if not values or not all(isinstance(n, Integral) and n >= 1 for n in values):
        raise ValueError(f"{name} must hold positive integers, got {sizes!r}.")
    return tuple(int(n) for n in values)


def _check_ranks(
    rank: int | Sequence[int], sizes: tuple[int, ...], decomposition: str
) -> tuple[int, ...]:
    """One rank per mode, all equal for a CP."""
    if isinstance(rank, Integral):
        if rank < 1:
            raise ValueError(f"rank must be at least 1, got {rank!r}.")
        ranks = (int(rank),) * len(sizes)
    elif decomposition == "cp":
        raise ValueError(f"rank must be an integer for a CP, got {rank!r}.")
    else:
        ranks = _check_sizes(rank, "rank")
    if decomposition == "cp":
        return ranks
    if len(ranks) != len(sizes):
        raise ValueError(
            f"rank must be an integer, or hold one integer for each of the "
            f"{len(sizes)} modes, got {rank!r}."
        )
    if any(r > n for r, n in zip(ranks, sizes, strict=True)):
        raise ValueError(
            f"rank = {rank!r} must not exceed the shape {sizes} in any mode."
        )
    return ranks


def _draw_cp(
    sizes: tuple[int, ...], ranks: tuple[int, ...], rng: np.random.RandomState
) -> NDArray[np.floating]:
    """Sum of outer products of random unit vectors."""
    factors = [rng.standard_normal((n, r)) for n, r in zip(sizes, ranks, strict=True)]
    return cp_to_dense([f / np.linalg.norm(f, axis=0) for f in factors])


def _draw_tucker(
    sizes: tuple[int, ...], ranks: tuple[int, ...], rng: np.random.RandomState
) -> NDArray[np.floating]:
    """Core of standard normals, with random orthonormal factors."""
    core = rng.standard_normal(ranks)
    factors = [
        np.linalg.qr(rng.standard_normal((n, r)))[0]
        for n, r in zip(sizes, ranks, strict=True)
    ]
    return mode_products(core[np.newaxis], factors)[0]
