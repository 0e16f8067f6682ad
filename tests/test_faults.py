"""The faults are about the package as it is, and are read exactly."""

import ast
from functools import cache

import pytest

from tests.faults import FAULTS, ROOT, Fault, problem_of_place, problems, read
from tests.mutants import likely_tests, mutants
from tests.support.planting import n_places, planted

WRITTEN = """\
# A comment
# of two lines.

fault: noise: half of it
in: noise/_lattice.py::Lattice.add
tests: noise test_random.py::TestEnd::test_fork
-if a:
-    a = -1
-
-- b
+
"""


def test_every_fault_has_its_place_and_its_tests():
    assert len(FAULTS) >= 60
    assert list(problems()) == []


def test_codes_keep_their_spaces_and_ends():
    tests = ("noise", "test_random.py::TestEnd::test_fork")
    code = "if a:\n    a = -1\n\n- b"
    place = "noise/_lattice.py", "Lattice.add"
    expected = Fault("noise: half of it", *place, code, "", tests)
    assert read(WRITTEN) == [expected]
    assert read(f"{WRITTEN}\n{WRITTEN}") == [expected, expected]
    (of_module,) = read(WRITTEN.replace("::Lattice.add", ""))
    assert of_module.within == ""


@cache
def written_anew(text):
    return ast.unparse(ast.parse(text))


MODULE = """\
LIMIT = 1, 2

class Sums:
    size: int = 3

    @property
    def length(self):
        return self.size  # cells

    def add(self, x, *, share=0.5):
        'Add.'
        if share == 1:
            pass
        elif self.kept(x, n_cells=len(x)):  # once
            x = clip(x,
                     lower=0)
        self.forget()
        return [y for y in x if y > 0], f"{x!r} of {len(x)}"
"""


@pytest.mark.parametrize(
    ("within", "old", "new", "text", "new_text"),
    [
        ("", "LIMIT = (1,\n  2)", "LIMIT = ()", "LIMIT = 1, 2", "LIMIT = ()"),
        ("Sums", "size: int = 3", "size: int = 4", "= 3", "= 4"),
        ("Sums.length", "property", "cached", "@property", "@cached"),
        ("Sums.add", "0.5", "1.0", "0.5", "1.0"),
        ("Sums.add", "share == 1", "(False)", "share == 1", "False"),
        ("Sums.add", "n_cells=len(x)", "n_cells=0", "n_cells=len(x)", "n_cells=0"),
        ("Sums.add", "lower=0", "a=(), lower=1", "lower=0", "a=(), lower=1"),
        ("Sums.add", "lower=0", "", ",\n                     lower=0", ""),
        ("Sums.add", "x = clip(x, lower=0)", "", "x = clip(x,", "pass; (x,"),
        ("Sums.add", "self.forget()", "", "        self.forget()", ""),
        ("Sums.add", "self.forget()", "a = 1\nb = 2", "self.forget()", "a = 1; b = 2"),
        ("Sums.add", "y > 0", "True", "y > 0", "True"),
        ("Sums.add", "y > 0", "", " if y > 0", ""),
        ("Sums.add", "(f'{x!r} of {len(x)}')", "0", 'f"{x!r} of {len(x)}"', "0"),
    ],
)
def test_code_is_found_by_its_meaning(within, old, new, text, new_text):
    assert MODULE.count(text) == 1
    expected = MODULE.replace(text, new_text)
    expected = expected.replace("pass; (x,\n                     lower=0)", "pass")
    expected = ast.dump(ast.parse(expected))
    assert n_places(MODULE, within, old, new) == 1
    assert ast.dump(ast.parse(planted(MODULE, within, old, new))) == expected
    anew = written_anew(MODULE)
    assert ast.dump(ast.parse(planted(anew, within, old, new))) == expected


@pytest.mark.parametrize(
    ("within", "old", "new", "message"),
    [
        ("Sums.add", "self.forget", "self.keep", None),
        ("Sums.add", "self.forget", "a = 1", "0 times"),
        ("Sums.add", "x", "y", "times"),
        ("Sums.length", "self.forget", "self.keep", "0 times"),
        ("Sum.add", "self.forget", "self.keep", "0 times"),
        ("Sums.add", "x >", "x <", "no expression"),
        ("Sums.add", "(self.forget)", "self . forget", "nothing changes"),
    ],
)
def test_a_fault_without_one_place_is_named(within, old, new, message):
    problem = problem_of_place(Fault("", "a.py", within, old, new, ()), MODULE)
    assert message in problem if message else problem is None


@pytest.mark.thorough
def test_the_layout_of_a_file_does_not_matter():
    """Comments, line breaks and quotes are lost; every fault keeps its place."""
    for number, fault in enumerate(FAULTS):
        text = (ROOT / "sktensordp" / fault.file).read_text()
        anew = written_anew(text)
        assert problem_of_place(fault, anew) is None, fault.name
        if number % 20 == 0:
            faulty = [ast.dump(ast.parse(fault.planted(one))) for one in (text, anew)]
            assert faulty[0] == faulty[1] != ast.dump(ast.parse(text)), fault.name


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("fault: ", "Fault: "),
        ("# of", "of"),
        ("in: noise/_lattice.py::Lattice.add\n", ""),
        ("in: ", "file: "),
        ("::Lattice.add", "::"),
        ("::Lattice.add", "::Lattice.add()"),
        ("tests: noise ", "tests: noise  "),
        ("-if a", "if a"),
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
