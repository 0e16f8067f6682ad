"""The faults are about the package as it is, and are read exactly."""

import ast

import pytest

from tests.faults import FAULTS, ROOT, Fault, problems, read
from tests.mutants import likely_tests, mutants

WRITTEN = """\
# A comment
# of two lines.

fault: noise: half of it
file: noise/_lattice.py
tests: noise test_random.py::TestEnd::test_fork
-    a = -1
-
-- b
+
"""


def test_every_fault_has_its_line_and_its_tests():
    assert len(FAULTS) >= 60
    assert list(problems()) == []


def test_texts_keep_their_spaces_and_ends():
    tests = ("noise", "test_random.py::TestEnd::test_fork")
    text, file = "    a = -1\n\n- b", "noise/_lattice.py"
    expected = Fault("noise: half of it", file, text, "", tests)
    assert read(WRITTEN) == [expected]
    assert read(f"{WRITTEN}\n{WRITTEN}") == [expected, expected]


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("fault: ", "Fault: "),
        ("# of", "of"),
        ("file: noise/_lattice.py\n", ""),
        ("tests: noise ", "tests: noise  "),
        ("-    a", "    a"),
        ("- b\n+", "- b\n\n+"),
        ("+\n", ""),
        ("+\n", "+\n-\n"),
        ("+\n", "+\n\n"),
        ("+\n", "+\nfault: "),
        ("lines.\n\n", "lines.\n\n\n"),
        ("lines.\n\n", "lines.\n"),
    ],
)
def test_what_is_no_fault_is_refused(right, wrong):
    assert right in WRITTEN
    with pytest.raises(ValueError, match="This is not a fault"):
        read(WRITTEN.replace(right, wrong, 1))


def test_mutants_differ_in_one_line_and_follow_from_their_seed():
    package = ROOT / "sktensordp"
    drawn = mutants(package, 40, 0)
    assert drawn == mutants(package, 40, 0)
    assert drawn != mutants(package, 40, 1)
    for file, name, text, mutated, line in drawn:
        assert text == (package / file).read_text()
        changed = {*mutated.splitlines()} - {*text.splitlines()}
        assert len(changed) <= 1, name
        assert changed <= {mutated.splitlines()[line - 1]}
        assert ast.dump(ast.parse(mutated)) != ast.dump(ast.parse(text))
    within = mutants(package, 40, 0, ["noise", "privacy/_group.py"])
    assert {file.partition("/")[0] for file, *_ in within} == {"noise", "privacy"}
    assert {file for file, *_ in within if "noise" not in file} == {"privacy/_group.py"}


@pytest.mark.parametrize(
    ("file", "name", "test"),
    [
        (
            "privacy/accounting/_gaussian.py",
            "gaussian_sigma",
            "privacy/test_gaussian.py",
        ),
        ("completion/_ranking.py", "RankingEstimator", "completion/test_ranking.py"),
        ("noise/_cap.py", "CapSampler", "noise/test_cap.py"),
    ],
)
def test_the_tests_of_a_module_are_the_likely_ones(file, name, test):
    text = (ROOT / "sktensordp" / file).read_text()
    line = text[: text.index(name)].count("\n") + 1
    found = likely_tests(ROOT / "tests", file, text, line)
    assert test in found[:2]
    assert len(found) == 7
