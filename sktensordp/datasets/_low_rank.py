"""Synthetic tensors of low rank with noise and missing entries."""

import math
from collections.abc import Iterable, Sequence
from numbers import Integral, Real

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch, check_random_state

from sktensordp.tensor import cp_to_dense, mode_products

__all__ = ["make_low_rank_tensor"]

_DESCR = """\
Synthetic tensor of low rank
----------------------------

A tensor of shape {shape}, made by a {decomposition} decomposition of rank {rank}, with
Gaussian noise at a signal-to-noise ratio of {snr:g}. {n_observed} of its {size}
entries are observed. It is the simulation study of Wei, Li, Mao and Wang (2022),
Section 5.1.
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
    """Generate a tensor of low rank, of which some entries are observed with noise.

    It is the simulation study of [1]_. A CP has factors of standard normals, whose
    columns are then brought to unit length. A Tucker decomposition has factors with
    orthonormal columns, uniformly distributed but for signs, and a core of standard
    normals. The tensor is scaled to the range [0, 1], noise is added, and entries are
    observed at random, each set of them being equally likely.

    Parameters
    ----------
    shape : sequence of int, default=(20, 20, 20)
        Sizes of the modes, at least two.
    rank : int or sequence of int, default=3
        Number of CP terms; or the shape of the core, an int for the same size in
        every mode. A core is not larger than the tensor in any mode.
    decomposition : {"cp", "tucker"}, default="cp"
        How the tensor is made.
    missing_ratio : float, default=0.5
        Share of the entries that are not observed, in [0, 1). Exactly
        ``round((1 - missing_ratio) * size)`` entries are observed, and at least one.
    snr : float, default=1.0
        Signal-to-noise ratio: the variance of the noise-free tensor (scaled, if it
        is) over all its entries, divided by the variance of the noise. Infinity for
        no noise.
    scaled : bool, default=True
        Whether the noise-free tensor is moved to the range [0, 1] by its smallest and
        its largest entry. That adds a constant, so that its ranks are at most one
        larger than `rank`.
    random_state : int, RandomState instance or None, default=None
        Seed of the generation. Pass an int for the same tensor at every call.

    Returns
    -------
    tensor : :class:`~sklearn.utils.Bunch`
        Dictionary-like object, with the following attributes.

        data : ndarray of shape (n_observed, n_modes), dtype int64
            Coordinates of the observed entries, in random order.
        target : ndarray of shape (n_observed,), dtype float64
            Their values, with noise.
        tensor : ndarray of shape `shape`
            The same values in their places, and NaN in all others.
        truth : ndarray of shape `shape`
            The tensor without noise, everywhere.
        shape : tuple of int
            Sizes of the modes.
        DESCR : str
            A description of the data.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    See Also
    --------
    make_ratings : Ratings whose activity and popularity follow power laws.

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
    found = tuple(sizes) if isinstance(sizes, Iterable) else ()
    if not found or not all(isinstance(n, Integral) and n >= 1 for n in found):
        raise ValueError(f"{name} must hold positive integers, got {sizes!r}.")
    return tuple(int(n) for n in found)


def _check_ranks(
    rank: int | Sequence[int], sizes: tuple[int, ...], decomposition: str
) -> tuple[int, ...]:
    """One rank for each mode, all the same for a CP."""
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
            f"rank must be an integer or have one for each of the {len(sizes)} modes, "
            f"got {rank!r}."
        )
    if any(r > n for r, n in zip(ranks, sizes, strict=True)):
        raise ValueError(
            f"rank = {rank!r} is larger than a mode of a tensor of shape {sizes}."
        )
    return ranks


def _draw_cp(
    sizes: tuple[int, ...], ranks: tuple[int, ...], rng: np.random.RandomState
) -> NDArray[np.floating]:
    """A sum of outer products of random unit vectors."""
    factors = [rng.standard_normal((n, r)) for n, r in zip(sizes, ranks, strict=True)]
    return cp_to_dense([f / np.linalg.norm(f, axis=0) for f in factors])


def _draw_tucker(
    sizes: tuple[int, ...], ranks: tuple[int, ...], rng: np.random.RandomState
) -> NDArray[np.floating]:
    """A core of standard normals in random orthonormal directions of every mode."""
    core = rng.standard_normal(ranks)
    factors = [
        np.linalg.qr(rng.standard_normal((n, r)))[0]
        for n, r in zip(sizes, ranks, strict=True)
    ]
    return mode_products(core[np.newaxis], factors)[0]
