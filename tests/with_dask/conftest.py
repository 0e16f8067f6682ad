"""The threads of Dask enter `warnings.catch_warnings` side by side."""

import pytest


@pytest.fixture(autouse=True)
def threads_of_dask(restored_filters):
    """They have ended, and the filters are as before."""
