"""Fixtures of tests with Dask.

Its threads enter `warnings.catch_warnings` side by side.
"""

import pytest

from tests.with_dask.clusters import cluster


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
    # Some time after a worker was lost, a cluster looks whether it is back, and closes
    # it for good if not. Then a test may just have killed it again.
    option = "distributed.deploy.lost-worker-timeout"
    with dask.config.set({option: "1 hour"}), cluster() as client:
        yield client
