"""The figures of the README, the home page and the results come from one file."""

import csv
import importlib.util
import json
import re
import subprocess
import sys

import pytest

from tests import DOC, ROOT

RESULTS = json.loads((DOC / "results.json").read_text())


@pytest.fixture
def load(monkeypatch):
    """Load a script of doc/ as a module."""

    def load(name):
        monkeypatch.syspath_prepend(str(DOC))
        spec = importlib.util.spec_from_file_location(name, DOC / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


def test_pages_show_what_is_stored(load):
    pages = load("make_pages")
    for page in pages.PAGES:
        text = (ROOT / page).read_text()
        assert pages.filled(text) == text, f"run python doc/make_pages.py: {page}"


@pytest.mark.parametrize("page", ["README.md", "doc/index.md", "doc/results.md"])
def test_measured_errors_are_in_their_places(page, load):
    text = load("make_pages").PLACE.sub("", (ROOT / page).read_text())
    text = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    assert re.findall(r"\b\d+\.\d{3,}\b", text) == []


def test_every_run_is_stored(load):
    runs = load("make_results").RUNS
    stored = {name: run["command"] for name, run in RESULTS["runs"].items()}
    assert stored == runs


def test_every_run_and_picture_is_shown(load):
    pages = load("make_pages")
    text = "".join((ROOT / page).read_text() for page in pages.PAGES)
    for name, command in load("make_results").RUNS.items():
        assert f"`python {command}`" in text, name
    for name in pages.PICTURES:
        assert f"{name}.svg" in text
        assert f"{name}_dark.svg" in text


def test_tables_are_read_from_what_is_printed(load):
    printed = """\
3 fits, mean of 2 splits

by epsilon
                        1         2
input           0.1±0.0 0.20±0.01
  true epsilon          3        inf

epsilon of a row   error  verdict
1                    0.5  false, proved
"""
    first, second = load("make_results").tables_of(printed)
    assert first == {
        "title": "by epsilon",
        "head": ["", ["1", "2"]],
        "rows": [["input", ["0.1±0.0", "0.20±0.01"]], ["true epsilon", ["3", "inf"]]],
    }
    assert second["head"] == ["epsilon of a row", ["error", "verdict"]]
    assert second["rows"] == [["1", ["0.5", "false, proved"]]]


def test_stored_figures_are_those_of_the_tables(load):
    figures_of = load("figures").figures_of
    for name, run in RESULTS["runs"].items():
        for table in run["tables"]:
            stored = {(label, at): rest for label, at, *rest in table["figures"]}
            read = figures_of(name, run["command"], table)
            assert list(stored) == [(label, at) for label, at, *_ in read], name
            for label, at, number, error, better in read:
                exact, exact_error, direction = stored[label, at]
                assert direction == better
                assert abs(exact - number) <= 0.005 * max(abs(exact), 1)
                assert exact_error is not None or error is None


READ = """\
epsilon of a row         1          2  what holds
input               0.1±0.3  2e+03±3e+00  epsilon, delta = 0
  true epsilon            3        inf
output            1,200±3*          -  no epsilon holds
  true epsilon          2.5        4.5
no noise               0.95
with a guarantee:
input                   1.5        2.5

digits: loss, accuracy       5         10
k-ary response      0.2 0.91  0.1 0.97

epsilon of the run  of one step  accuracy     +-
8                         5.758     0.905  0.030

                 closed form  covered
Laplace                 10.5     0.95

mechanism        variant    claimed   true  audited  seconds
TVG              published  (1, 1e-05)  (0.5, 1e-05)  0.25  3.5

global mean      1.058
CP, no noise     0.861
"""


def test_figures_are_read_from_tables(load):
    module, tables_of = load("figures"), load("make_results").tables_of
    tables = tables_of(READ)

    def read(name, number, command="script.py --splits 10"):
        return module.figures_of(name, command, tables[number])

    assert read("cp", 0) == [
        ["input", "1", 0.1, 0.1, "lower"],
        ["input", "2", 2000.0, 1.0, "lower"],
        ["input: true epsilon", "1", 3.0, None, None],
        ["output", "1", 1200.0, 1.0, "lower"],
        ["output: true epsilon", "1", 2.5, None, None],
        ["output: true epsilon", "2", 4.5, None, None],
        ["no noise", "", 0.95, None, "lower"],
        ["with a guarantee: input", "1", 1.5, None, "lower"],
        ["with a guarantee: input", "2", 2.5, None, "lower"],
    ]
    assert read("cp", 0, "script.py")[0] == ["input", "1", 0.1, None, "lower"]
    assert read("response", 0)[0] == ["input", "1", 0.1, 0.1, "higher"]
    assert read("encoding", 1) == [
        ["k-ary response", "5", 0.2, None, "lower"],
        ["k-ary response", "5, accuracy", 0.91, None, "higher"],
        ["k-ary response", "10", 0.1, None, "lower"],
        ["k-ary response", "10, accuracy", 0.97, None, "higher"],
    ]
    assert read("gradients", 2, "script.py") == [
        ["8", "of one step", 5.758, None, None],
        ["8", "accuracy", 0.905, 0.01, "higher"],
    ]
    assert read("local mean", 3) == [
        ["Laplace", "closed form", 10.5, None, "lower"],
        ["Laplace", "covered", 0.95, None, None],
    ]
    assert read("claims", 4) == [
        ["TVG, published", "claimed", 1.0, None, None],
        ["TVG, published", "true", 0.5, None, None],
        ["TVG, published", "audited", 0.25, None, "higher"],
    ]
    assert [row[0] for row in read("users", 5)] == ["global mean", "CP, no noise"]


def test_figures_are_as_exact_as_the_scores(load, tmp_path):
    module = load("figures")
    file = tmp_path / "scores.csv"
    rows = [
        ["measure", "method", "epsilon", "seed", "score"],
        ["digits: loss", "input", "5", 0, 0.1], ["digits: loss", "input", "5", 1, 0.3],
        ["digits: accuracy", "input", "5", 0, 0.9104],
        ["RMSE", "no noise", "inf", 0, 0.12345678],
    ]  # fmt: skip
    with file.open("w", newline="") as lines:
        csv.writer(lines).writerows(rows)
    scores = module.scores_of(file)

    def read(head, columns, label, cells):
        table = {"title": "", "head": [head, columns], "rows": [[label, cells]]}
        return module.figures_of("encoding", "script.py", table, scores)

    assert read("digits: loss, accuracy", ["5", "9"], "input", ["0.20 0.91", "-"]) == [
        ["input", "5", 0.2, 0.1, "lower"],
        ["input", "5, accuracy", 0.9104, None, "higher"],
    ]
    # A row may be a method or an epsilon.
    exact = [0.123457, None, "lower"]
    assert read("", ["5", "10"], "no noise", ["0.123"]) == [["no noise", "", *exact]]
    (found,) = read("", ["no noise", "more"], "inf", ["0.123", "-"])
    assert found == ["inf", "no noise", *exact]
    with pytest.raises(ValueError, match=r"no noise, : 0\.13 is not 0\.123"):
        read("", ["5", "10"], "no noise", ["0.13"])


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ([1.0, None, "lower"], [1.0031, None, "lower"], "worse"),
        ([1.0, None, "lower"], [1.003, None, "lower"], None),
        ([1.0, None, "lower"], [0.5, None, "lower"], None),
        ([1.0, None, "higher"], [0.9969, None, "higher"], "worse"),
        ([1.0, None, "higher"], [0.997, None, "higher"], None),
        ([1.0, None, "higher"], [1.5, None, "higher"], None),
        ([1.0, None, None], [1.0031, None, None], "other"),
        ([1.0, None, None], [0.9969, None, None], "other"),
        ([1.0, None, None], [1.003, None, None], None),
        # Two of the larger standard error.
        ([1.0, 0.01, "lower"], [1.021, 0.005, "lower"], "worse"),
        ([1.0, 0.005, "lower"], [1.021, 0.01, "lower"], "worse"),
        ([1.0, 0.01, "lower"], [1.02, 0.01, "lower"], None),
        ([1.0, 0.01, "higher"], [0.979, 0.01, "higher"], "worse"),
        ([1.0, 0.01, "higher"], [0.981, 0.01, "higher"], None),
        ([1.0, None, "lower"], [1.019, 0.01, "lower"], None),
        ([1.0, 0.0, "lower"], [1.0031, 0.0, "lower"], "worse"),
        ([1.0, 0.0001, "lower"], [1.0029, 0.0001, "lower"], None),
        ([0.0, None, "higher"], [-0.001, None, "higher"], "worse"),
        ([-10.0, None, "higher"], [-10.04, None, "higher"], "worse"),
    ],
)
def test_which_changes_are_worse(old, new, expected, load):
    assert load("compare_results").change(old, new) == expected


def results(*figures, command="script.py", run="cp"):
    table = {"title": "", "head": ["", []], "rows": [], "figures": list(figures)}
    return {"runs": {run: {"command": command, "tables": [table]}}}


def test_comparing_names_what_became_of_figures(load, tmp_path, monkeypatch, capsys):
    module = load("compare_results")
    files = tmp_path / "old.json", tmp_path / "new.json"

    def compared(*stored):
        for file, content in zip(files, stored, strict=True):
            file.write_text(json.dumps(content))
        monkeypatch.setattr(sys, "argv", ["compare_results.py", *map(str, files)])
        with pytest.raises(SystemExit) as ended:
            module.main()
        return ended.value.code, capsys.readouterr().out

    old = results(
        ["input", "1", 2.0, 0.01, "lower"], ["sums", "1", 2.0, None, "lower"],
        ["all", "", 1.0, None, None], ["gone", "4", 1.0, None, "lower"],
    )  # fmt: skip
    new = results(
        ["input", "1", 2.1, 0.02, "lower"], ["sums", "1", 1.0, None, "lower"],
        ["all", "", 1.5, None, None], ["new", "4", 1.0, None, "lower"],
    )  # fmt: skip
    assert compared(old, new) == (
        1,
        "Worse: 1\n"
        "  cp, table 1, input | 1: 2 -> 2.1 (+5.0%, 5.0 standard errors)\n\n"
        "Changed, neither good nor bad: 1\n"
        "  cp, table 1, all: 1 -> 1.5 (+50.0%)\n\n"
        "Gone: 1\n  cp, table 1, gone | 4\n\n"
        "New: 1\n  cp, table 1, new | 4\n\n",
    )
    assert compared(old, old) == (0, "No figure became worse.\n")
    code, said = compared(
        old, results(["input", "1", 9.0, None, "lower"], run="tucker")
    )
    assert code == 0
    assert "Gone: 1\n  cp: the whole run\n" in said
    assert "New: 1\n  tucker: the whole run\n" in said
    # Other seeds or splits are not compared.
    code, said = compared(old, {**new, **results(command="script.py --splits 2")})
    assert code == 0
    assert "because the command changed: 1\n  cp\n" in said


def test_comparing_sees_every_planted_loss(load):
    """Each figure of results.json, made worse, is named; better, it is not."""
    module, runs = load("compare_results"), RESULTS["runs"]
    old = {name: module.figures(name, run) for name, run in runs.items()}
    for sign, expected in (1, "worse"), (-1, None):
        for found in old.values():
            for number, error, better in found.values():
                loss = 1.1 * max(0.003 * abs(number), 2 * (error or 0)) + 1e-9
                step = sign * (loss if better == "lower" else -loss)
                planted = [number + step, error, better]
                kind = module.change([number, error, better], planted)
                if better is not None:
                    assert kind == expected


def test_earlier_results_without_figures_are_read(load):
    module = load("compare_results")
    run = RESULTS["runs"]["cp"]
    tables = [table | {"figures": []} for table in run["tables"]]
    before = module.figures("cp", {**run, "tables": tables})
    assert before.keys() == module.figures("cp", run).keys()


def test_a_commit_has_results(load, tmp_path, monkeypatch):
    module = load("compare_results")
    monkeypatch.setattr(module, "ROOT", tmp_path)
    (tmp_path / "doc").mkdir()
    (tmp_path / "doc" / "results.json").write_text(json.dumps(results()))
    for command in (
        "init", "add .",
        "-c user.name=a -c user.email=a@b commit --no-gpg-sign -m Results",
    ):  # fmt: skip
        subprocess.run(["git", *command.split()], check=True, cwd=tmp_path)
    assert module.read("HEAD") == results()["runs"]
    assert module.read(tmp_path / "doc" / "results.json") == results()["runs"]


def test_a_run_that_is_stored_is_not_measured_again(load, tmp_path, monkeypatch):
    module = load("make_results")
    (tmp_path / "doc").mkdir()
    (tmp_path / "sktensordp").mkdir()
    for name in ("one", "two"):
        (tmp_path / f"{name}.py").write_text(f"print('{name}:  a  b')\n")
    (tmp_path / "doc" / "make_pages.py").write_text("")
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "RESULTS", tmp_path / "doc" / "results.json")
    monkeypatch.setattr(module, "RUNS", {"first": "one.py", "second": "two.py"})
    monkeypatch.setattr(module, "commit", lambda: "0123456")
    measure, measured = module.measure, []

    def counted(name, command, *rest):
        measured.append(command)
        if command == failing:
            raise RuntimeError(command)
        return measure(name, command, *rest)

    monkeypatch.setattr(module, "measure", counted)
    monkeypatch.setattr(sys, "argv", ["make_results.py", "--jobs", "1"])
    failing = "two.py"
    with pytest.raises(SystemExit):
        module.main()
    failing = None
    module.main()  # goes on with the second
    module.main()  # has nothing to do
    assert measured == ["one.py", "two.py", "two.py"]
    (tmp_path / "one.py").write_text("print('new:  a  b')\n")
    module.main()
    assert measured[3:] == ["one.py"]
    stored = json.loads((tmp_path / "doc" / "results.json").read_text())
    assert list(stored["runs"]) == ["first", "second"]
    assert stored["runs"]["first"]["tables"][0]["head"] == ["new:", ["a", "b"]]


def stored(run, table=0):
    """Numbers of a stored table, by row and column."""
    figures = RESULTS["runs"][run]["tables"][table]["figures"]
    return {(label, column): number for label, column, number, *_ in figures}


def test_sentences_about_a_quarter_of_the_budget():
    """results.md compares PrivUnit with Gaussian noise at four times the budget."""
    for run, table, gauss, privunit in (
        ("test features", 0, "i.i.d. Gaussian", "PrivUnit (delta = 0)"),
        ("test features", 1, "i.i.d. Gaussian", "PrivUnit (delta = 0)"),
        ("response", 0, "Gaussian = MVG = IDN", "PrivUnit"),
        ("response", 1, "Gaussian = MVG = IDN", "PrivUnit"),
    ):
        found = stored(run, table)
        pairs = [
            (found[privunit, str(epsilon)], found[gauss, str(4 * epsilon)])
            for epsilon in (4, 8, 16, 32)
            if (gauss, str(4 * epsilon)) in found
        ]
        assert len(pairs) >= 3
        assert all(own >= other for own, other in pairs)
    features = stored("test features", 1)
    for epsilon in (1, 2):
        own = features["PrivUnit (delta = 0)", str(epsilon)]
        assert abs(own - features["i.i.d. Gaussian", str(4 * epsilon)]) < 0.01
    images = stored("response", 0)
    most = images["response, 2 levels", "16"]
    assert images["Gaussian = MVG = IDN", "16"] < images["PrivUnit", "4"] < most


def test_sentences_about_claims():
    """claims.md names true epsilons of claims of 1."""
    text = " ".join((DOC / "claims.md").read_text().split())
    true = {
        re.sub(r", (Theorem \d|accountant|[^,]*), published$", "", label): number
        for (label, column), number in stored("claims").items()
        if column == "true" and label.endswith(", published")
    }
    tensors, matrices = (
        max(true[f"Yang et al., {kind}, {name}"] for name in names)
        for kind, names in (
            ("tensors", ("TVG", "UDN", "IDN")), ("matrices", ("MGM", "UDN", "IDN")),
        )
    )  # fmt: skip
    assert f"at most {tensors:g} for a tensor of 16 entries" in text
    assert f"really {matrices:g} or less for 12 entries" in text
    (people,) = re.findall(r"epsilon of (1\.\d+ to 1\.\d+) for a claim of 1", text)
    assert people in " ".join((DOC / "soundness.md").read_text().split())
    tldp = [number for label, number in true.items() if "TLDP" in label]
    images = stored("response", 0)
    least, most = (
        images[f"TLDP-{kind} as published: true epsilon", "1"] for kind in "LG"
    )
    assert (
        f"really {min(tldp):.0f} to {max(tldp):.0f} for 16 entries, and {least:.0f} to "
        f"{most:.0f} for an image of 64 pixels" in text
    )
    chien = true["Chien et al., code, least squares"]
    assert f"a claim of 1 is really {chien:.1f}." in text


def test_sentences_about_statements():
    """The number of statements that hold, in words on the results page."""
    text = " ".join((DOC / "results.md").read_text().split())
    pattern = r"the papers' (\d+) statements on privacy, each counted once, (\d+) hold"
    total, holds = map(int, re.search(pattern, text).groups())
    words = {4: "Four", 8: "Eight", 12: "twelve"}
    said = f"{words[holds]} of the {words[total]} statements on privacy that we checked"
    assert said in text
    assert f"{words[total - holds]} are false." in text


def test_commands_for_the_figures_of_papers(load):
    """Each script is there, and has the options with which the page calls it."""
    figures = load("make_paper_figures")
    assert figures.page() == (DOC / "figures_of_papers.md").read_text(), (
        "run python doc/make_paper_figures.py"
    )
    times = json.loads((DOC / "paper_times.json").read_text())
    assert times.keys() <= {*figures.commands()}
    _, papers, facts = figures.facts()
    assert {fact["paper"] for fact in facts} == papers.keys()
    found = [fact["command"] for fact in facts if "command" in fact]
    for command in found:
        script, *arguments = command.split()
        text = (DOC.parent / "examples" / "papers" / script).read_text()
        options = {argument for argument in arguments if argument.startswith("--")}
        for option in options | {"--random-state"}:
            assert f'"{option}"' in text, (script, option)
        assert "unknown arguments" in text, script
    # Every experiment of the papers is on the page, and so is nothing else.
    folder = DOC.parent / "examples" / "papers"
    scripts = {path.name for path in folder.glob("[!_]*.py")}
    elsewhere = {"which_claims.py", "private_search.py"}  # no figure of the five papers
    assert {command.split()[0] for command in found} == scripts - elsewhere
