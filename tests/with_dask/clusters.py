"""Clusters of Dask on this machine."""

from contextlib import contextmanager

import pytest


@contextmanager
def cluster(n_workers=2, threads_per_worker=1, *, is_default=False, **options):
    """A client of a cluster on this machine."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=n_workers,
            threads_per_worker=threads_per_worker,
            dashboard_address="127.0.0.1:0",
            **options,
        ) as workers,
        distributed.Client(workers, set_as_default=is_default) as client,
    ):
        yield client
