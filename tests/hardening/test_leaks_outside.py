"""What fits and releases leave on a disk: nothing of the data, and no key."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from leak_hunt import Secrets
from planted_data import LARGEST, LEAST, RARE

import sktensordp

PLACES = ("HOME", "TMPDIR", "JOBLIB_TEMP_FOLDER", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME")
SCRIPT = """
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sktensordp import _random
from sktensordp.completion import CPCompletion
from sktensordp.mechanisms import LaplaceMechanism
from sktensordp.model_selection import PrivateSearchCV

start, keys, numbers = _random.NoiseSource.__init__, [], list(map(float, sys.argv[1:]))

def recording(source, *arguments):
    start(source, *arguments)
    keys.append(source._key.hex())

def of_rows(estimator, X, y):
    # So large an array reaches a worker as a file.
    assert list(Path(os.environ["JOBLIB_TEMP_FOLDER"]).rglob("*.pkl"))
    return -np.abs(y - estimator.predict(X))

_random.NoiseSource.__init__ = recording
rng = np.random.default_rng(0)
y = rng.choice(numbers, 150_000)
noise = make_pipeline(LaplaceMechanism(bounds=(0, 1)), LinearRegression())
options = dict(n_iter=2, score_bounds=(-1, 0), scoring=of_rows, cv=2, n_jobs=2)
grid = {"linearregression__fit_intercept": [True]}
PrivateSearchCV(noise, grid, **options).fit(y[:, None], y)
X, y = rng.integers(0, 100, (50, 2)), y[:50]
model = CPCompletion(0, perturbation="input", value_bounds=(0, 1), max_iter=1)
users = CPCompletion(1, unit=0, shape=(100, 100), delta=1e-3, value_bounds=(0, 1))
release = noise[0].fit(y[:8, None]).transform
with ThreadPoolExecutor(4) as pool:
    list(pool.map(lambda one: one.fit(X, y).predict(X[:9]), [model, users]))
    list(pool.map(release, [y[:8, None]] * 8))
print(*keys)
"""


@pytest.fixture(scope="module")
def left(tmp_path_factory):
    """Folders that were empty before a process used them, and what it printed."""
    folder = tmp_path_factory.mktemp("left")
    environ = {**os.environ, **{place: str(folder / place) for place in PLACES}}
    for place in PLACES:
        (folder / place).mkdir()
    path = [str(Path(sktensordp.__file__).parents[1]), environ.get("PYTHONPATH")]
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, path))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *map(repr, (RARE, LEAST, LARGEST))],
        env=environ, cwd=folder, capture_output=True, text=True, timeout=500,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder, done.stdout.split(), done.stderr


def files_in(folder, secrets):
    """Findings in the names and the bytes of all files."""
    return [
        f"{path.relative_to(folder)}: {what}"
        for path in folder.rglob("*")
        for what in secrets.in_text(path.name)
        | (
            secrets.in_bytes(path.read_bytes(), floats=False)
            if path.is_file()
            else set()
        )
    ]


def test_no_file_holds_data_or_a_key(left):
    folder, keys, said = left
    secrets = Secrets().plant("planted", RARE, LEAST, LARGEST)
    # Where Python stores compiled modules, and numba by default.
    assert not files_in(Path(sktensordp.__file__).parent, secrets)
    for key in keys:
        secrets.add_key("key", bytes.fromhex(key))
    assert len(keys) > 10
    assert list((folder / "NUMBA_CACHE_DIR").rglob("*.nbi"))
    assert not secrets.in_text(said)
    assert not files_in(folder, secrets)
    # What memory of large arrays was shared is gone.
    assert not list((folder / "JOBLIB_TEMP_FOLDER").rglob("*.pkl"))


@pytest.mark.parametrize("stored", ["npy", "txt", "key"])
def test_a_file_with_data_or_a_key_is_found(stored, tmp_path):
    key = bytes(range(7, 23))
    secrets = Secrets().plant("planted", RARE).add_key("key", key)
    (tmp_path / "deep").mkdir()
    path = tmp_path / "deep" / "left"
    path.write_bytes(b"nothing of interest, 0.123456789")
    assert not files_in(tmp_path, secrets)
    if stored == "npy":
        np.save(path, np.array([0.1, RARE]))
    elif stored == "txt":
        np.savetxt(path, [[0.1, RARE]], fmt="%.6f")
    else:
        path.write_text(f"seed={key.hex()}")
    assert files_in(tmp_path, secrets)
