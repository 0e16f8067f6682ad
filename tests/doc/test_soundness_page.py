"""The page on soundness prints what it says, and names commands that exist."""

import ast
import re
import warnings

import pytest

from tests import ROOT

TEXT = (ROOT / "doc" / "soundness.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", TEXT, re.DOTALL)
SUMMARY = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in TEXT.split("\n")
    if line.startswith("| [") or line.startswith("| the same")
]


def numbers(text):
    return [float(word) for word in re.findall(r"\d+\.?\d*(?:e-\d+)?|inf", text)]


def section(heading):
    return TEXT.split(f"\n### {heading}\n")[1].split("\n## ")[0].split("\n### ")[0]


def printed_in(heading):
    """What the blocks of a section are said to print, line by line."""
    found = re.findall(r"```text\n(.*?)```", section(heading), re.DOTALL)
    return [numbers(line) for one in found for line in one.splitlines()]


def test_every_block_says_what_it_prints():
    assert len(BLOCKS) == TEXT.count("```python") == TEXT.count("```text") > 8


@pytest.mark.parametrize(("code", "said"), BLOCKS, ids=range(1, len(BLOCKS) + 1))
def test_blocks(code, said, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exec(compile(code, "soundness.md", "exec"), {})
    assert capsys.readouterr().out == said


def test_gaussian_noise():
    """What is true of a claim of 1: less where it is loose, more where it is false."""
    (truth,), (fails,), *elements = printed_in("The classic Gaussian mechanism")
    assert truth < 1 < fails < 10
    assert all(together > 1 for _, together in elements)
    for *_, product, quotient in printed_in("Theorem 1 (TVG)"):
        assert product < 0.2 < 100 < quotient
    turned = {tuple(line[:3]): line[3] for line in printed_in("Theorem 3 (IDN)")}
    violated = {case: epsilon > case[2] for case, epsilon in turned.items()}
    assert violated == {
        (16, 1, 1): True, (256, 1, 1): True, (28, 28, 1): False, (28, 28, 32): True,
    }  # fmt: skip


def test_responses_and_completion():
    *claims, nothing, _, large = printed_in("Theorem 1 (TLDP)")
    assert len(claims) == 4
    assert all(keep <= delta for _, keep, delta in claims)
    assert nothing[1:] == [float("inf")] * 2
    assert min(large[1:]) > 300
    ((published, gaussian),) = printed_in("Theorem 2, less noise at the same budget")
    assert published > gaussian
    for pure, rank_one, most in printed_in("Algorithm 2, gradient"):
        assert 0.1 < rank_one <= most < pure


def test_encoding():
    (_, formula, computed), _ = printed_in("Propositions 1 to 4")
    assert formula == computed
    ((least, fresh, stale, most),) = printed_in("Theorem 1, bounds for any domain")
    assert least < fresh < stale < most


def test_summary():
    """A verdict for every statement, and what shows it, but for two slips."""
    assert len(SUMMARY) > 25
    unshown = []
    for statement, _, verdict, _, shown in SUMMARY:
        assert re.match(r"\*{0,2}(true|loose|false|not|slips)", verdict), statement
        if not re.search(r"`python |\[block\]", shown):
            unshown.append(statement)
    assert len(unshown) == 1
    assert "Eq. 44 and 48" in unshown[0]


def test_sections_say_what_the_package_does():
    *papers, found = TEXT.split("\n## ")[2:]
    for paper in papers:
        assert "**Here**" in paper, paper.split("\n")[0]
    assert found.startswith("Found and fixed")
    for fault in found.split("\n- ")[1:]:
        assert "`python -m pytest tests/" in fault, fault.split("\n")[0]


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


def test_commands_exist():
    commands = re.findall(r"`python ([^`]*)`", TEXT)
    assert len(commands) > 40
    for command in commands:
        script = re.fullmatch(r"(examples/\w+\.py)( --[a-z-]+ \w+)*", command)
        if script:
            assert (ROOT / script[1]).is_file(), command
            continue
        program, *tests = command.split(maxsplit=2)[1:]
        assert program == "pytest"
        for test in " ".join(tests).split():
            file, *name = test.split("::", 1)
            assert (ROOT / file).name.startswith("test_"), command
            assert set(name) <= set(named_in(ROOT / file)), command


def test_links_within_the_page():
    headings = re.findall(r"^#+ (.*)$", TEXT, re.MULTILINE)
    slugs = {re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in headings}
    assert set(re.findall(r"\]\(#([^)]*)\)", TEXT)) <= slugs
