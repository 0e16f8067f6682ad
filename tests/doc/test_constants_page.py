"""The page on constants shows those of today, and no test part chose them."""

import importlib
import re

import numpy as np
import pytest

from tests import DOC, ROOT
from tests.benchmarks import choose_constants

PAGE = (DOC / "constants.md").read_text()
REPORTED = re.compile(r"latest-small|Douban|Flixster|YahooMusic|serology|\btuned\b")


def test_the_page_shows_todays_values():
    shown = dict(re.findall(r"^(\w+) +(\S.*?)$", PAGE, flags=re.MULTILINE))
    for constant in choose_constants.CONSTANTS:
        module = importlib.import_module(constant.module)
        value = choose_constants.shown(getattr(module, constant.name))
        assert shown[constant.name] == value, constant.name


def test_a_test_part_is_never_read(tmp_path):
    path, X = tmp_path / "ratings.npz", np.argwhere(np.ones((4, 5)))
    # NumPy refuses to read an array of objects: whoever reads it fails.
    unread = np.array([object()])
    np.savez(
        path,
        train=X,
        train_values=np.arange(20.0) % 3,
        shape=[4, 5],
        test=unread,
        test_values=unread,
    )
    for data in choose_constants.of_file(path):
        assert data.X.tolist() == X.tolist()
        assert data.options["shape"] == (4, 5)
    with np.load(path) as file, pytest.raises(ValueError, match="pickle"):
        file["test"]


@pytest.mark.parametrize("package", ["completion", "encoding", "moments", "tensor"])
def test_no_module_chooses_by_data_whose_errors_are_reported(package):
    for path in (ROOT / "sktensordp" / package).rglob("*.py"):
        assert not REPORTED.findall(path.read_text()), path


def test_no_page_or_script_says_that_nothing_was_tuned():
    for path in (*DOC.glob("*.md"), *(ROOT / "tests" / "benchmarks").glob("*.py")):
        assert not re.search(r"nothing (is )?tuned", path.read_text(), re.IGNORECASE)
