"""What several tests share: the guide's example, fitted once, and goodness of fit."""

import contextlib
import io
import re
from pathlib import Path

import numpy as np
import pytest

GUIDE = Path(__file__).parents[2] / "doc" / "encoding.md"


@pytest.fixture(scope="session")
def guide():
    """Names that the guide's example defines, and what it prints."""
    code, *_ = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL)
    names, printed = {}, io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "encoding.md", "exec"), names)
    return names | {"printed": printed.getvalue()}


@pytest.fixture(scope="session")
def low_rank():
    """Correlated columns of very different scales, one of them constant."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(300, 3)) @ rng.normal(size=(3, 6))
    X += 0.3 * rng.normal(size=X.shape)
    return np.hstack([X, np.ones((300, 1))]) * [1, 10, 0.1, 1, 1e3, 1, 1] + 5
