import importlib.util
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def divergence():
    """The sibling module _divergence.py, which no package makes importable."""
    path = Path(__file__).with_name("_divergence.py")
    spec = importlib.util.spec_from_file_location("_divergence", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
