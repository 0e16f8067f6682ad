"""The table of faults is about the package as it is."""

import ast

from tests.faults import FAULTS, ROOT, problems
from tests.mutants import mutants


def test_every_fault_has_its_line_and_its_tests():
    assert len(FAULTS) >= 60
    assert list(problems()) == []


def test_mutants_differ_in_one_line_and_follow_from_their_seed():
    package = ROOT / "sktensordp"
    drawn = mutants(package, 40, 0)
    assert drawn == mutants(package, 40, 0)
    assert drawn != mutants(package, 40, 1)
    for file, name, text, mutated in drawn:
        assert text == (package / file).read_text()
        changed = {*mutated.splitlines()} - {*text.splitlines()}
        assert len(changed) <= 1, name
        assert ast.dump(ast.parse(mutated)) != ast.dump(ast.parse(text))
