"""Fixtures of tests with Dask.

Its threads enter `warnings.catch_warnings` side by side.
"""

import pytest


@pytest.fixture(autouse=True)
def threads_of_dask(restored_filters):
    """They have ended, and the filters are as before."""


@pytest.fixture
def here():
    """All tasks in this thread, unless a test has a cluster."""
    dask = pytest.importorskip("dask")
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture(scope="module")
def client():
    dask = pytest.importorskip("dask")
    distributed = pytest.importorskip("distributed")
    # Some time after a worker was lost, a cluster looks whether it is back, and closes
    # it for good if not. Then a test may just have killed it again.
    option = "distributed.deploy.lost-worker-timeout"
    with (
        dask.config.set({option: "1 hour"}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0"
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client
