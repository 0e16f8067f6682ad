"""The page on soundness prints what it says, and names tests that exist."""

import ast
import io
import re
import warnings
from contextlib import redirect_stdout

import pytest

from tests import ROOT

pytestmark = pytest.mark.thorough
TEXT = (ROOT / "doc" / "soundness.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", TEXT, re.DOTALL)
SUMMARY = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in TEXT.split("\n")
    if line.startswith("| [")
]


def numbers(text):
    return [float(word) for word in re.findall(r"\d+\.?\d*(?:e-\d+)?|\binf\b", text)]


def slug_of(heading):
    return re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-")


SECTIONS = {
    slug_of(one.partition("\n")[0]): one
    for one in re.split(r"^##+ ", TEXT, flags=re.MULTILINE)[1:]
}


def printed_in(heading):
    """Numbers that the blocks of a section are said to print, line by line."""
    found = re.findall(r"```text\n(.*?)```", SECTIONS[slug_of(heading)], re.DOTALL)
    lines = [numbers(line) for one in found for line in one.splitlines()]
    return [line for line in lines if line]


def test_every_block_says_what_it_prints():
    assert len(BLOCKS) == TEXT.count("```python") == TEXT.count("```text") > 5


def test_blocks():
    """One after the other, as the page says; to the last digit."""
    names = {}
    for code, said in BLOCKS:
        with (
            warnings.catch_warnings(action="error"),
            redirect_stdout(io.StringIO()) as printed,
        ):
            exec(compile(code, "soundness.md", "exec"), names)
        assert printed.getvalue() == said


def test_gaussian_noise():
    """What is true of a claim of 1: less where it is loose, more where it is false."""
    (claim, truth), (fails,), *elements = printed_in("The classic Gaussian mechanism")
    assert truth < claim < fails < 10
    assert all(together > claim for _, claim, together in elements)
    for *_, product, quotient in printed_in("Theorem 1 (TVG)"):
        assert product < 0.2 < 100 < quotient
    turned = {tuple(line[:3]): line[3] for line in printed_in("Theorem 3 (IDN)")}
    violated = {case: epsilon > case[2] for case, epsilon in turned.items()}
    assert violated == {
        (16, 1, 1): True, (256, 1, 1): True, (28, 28, 1): False, (28, 28, 32): True,
    }  # fmt: skip


def test_responses_and_completion():
    _, *claims, nothing, _, large = printed_in("Theorem 1 (TLDP)")
    assert len(claims) == 4
    assert all(keep <= delta for _, keep, delta in claims)
    assert nothing[1:] == [float("inf")] * 2
    assert min(large[1:]) > 300
    (published,), (gaussian,) = printed_in("Theorem 2, less noise at the same budget")
    assert published > gaussian
    _, *releases = printed_in("Algorithm 2, gradient")
    assert len(releases) == 2
    for _, pure, rank_one, most in releases:
        assert 0.1 < rank_one <= most < pure


def test_code_of_least_squares():
    (counted,), (_, centred), (mean,) = printed_in(
        "Private least squares, in code (Chien et al.)"
    )
    assert counted < 1 < centred < mean


def test_summary():
    """A verdict for every statement, and a section that shows it."""
    assert len(SUMMARY) > 25
    shows = r"`tests/|```python|\[(claims|errors)\]|\[block above\]\(#"
    for statement, _, verdict, _ in SUMMARY:
        assert re.match(r"\*{0,2}(true|loose|false|not|slips)", verdict), statement
        (slug,) = re.findall(r"\]\(#([^)]*)\)", statement)
        assert re.search(shows, SECTIONS[slug]), statement


def test_sections_say_what_the_package_does():
    *papers, found = TEXT.split("\n## ")[4:]
    assert len(papers) == 7
    for paper in papers:
        assert "**In the library" in paper, paper.split("\n")[0]
    assert found.startswith("Found and fixed")
    for fault in found.split("\n- ")[1:]:
        assert "`tests/" in fault, fault.split("\n")[0]


def named_in(path):
    """Tests of a file, as pytest has them."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.ClassDef):
            yield node.name
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef):
                    yield f"{node.name}::{inner.name}"


def test_commands_and_tests_exist():
    scripts = re.findall(r"`python (examples/[\w/]+\.py)(?: --[a-z-]+ \w+)*`", TEXT)
    assert len(scripts) == len(re.findall(r"`python examples", TEXT)) > 4
    assert all((ROOT / script).is_file() for script in scripts)
    named = re.findall(r"`(tests/[^`]*)`", TEXT)
    assert len(named) > 50
    for test in named:
        file, *name = test.split("::", 1)
        assert (ROOT / file).name.startswith("test_"), test
        assert set(name) <= set(named_in(ROOT / file)), test


def test_links_within_the_page():
    assert set(re.findall(r"\]\(#([^)]*)\)", TEXT)) <= set(SECTIONS)
