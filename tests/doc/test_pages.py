"""Every page of the documentation runs, without a warning, and prints what it shows."""

import re

import pytest

from tests import DOC, ROOT
from tests.support.callbacks import needs_callbacks

pytestmark = pytest.mark.thorough

# Pages whose code takes more than a few seconds.
SLOW = {"budgets", "choosing_epsilon", "completion", "dask", "production", "ratings"}
SLOW |= {"users", "getting_started", "choices", "audit", "larger_than_memory"}
# Numbers with a decimal point vary with the noise: they may be off by a tenth of
# themselves, or by this; all others must be as they are shown.
TOLERANCE = 0.1
# Modules that pages need and that not every environment of the tests has.
NEEDS = {"larger_than_memory": ("duckdb", "pyarrow", "dask.dataframe")}
BLOCK = re.compile(r"^```([^\n`]*)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
# test_extend_page.py and test_soundness_page.py run these.
ELSEWHERE = {"extend", "soundness"}
PAGES = [
    path
    for path in (ROOT / "README.md", *sorted(DOC.glob("*.md")))
    if "```python\n" in path.read_text() and path.stem not in ELSEWHERE
]


def marks_of(page):
    """Marks of the test of a page."""
    shows_callbacks = "sklearn.callback" in page.read_text()
    return [
        *[pytest.mark.slow] * (page.stem in SLOW),
        *[needs_callbacks] * shows_callbacks,
    ]


def tokens_of(text):
    """Words, numbers and signs; what stands for something left out is one of them."""
    return re.findall(r"\.\.\.|\d+\.\d+(?:e-?\d+)?|\w+|[^\w\s]", text)


def is_alike(printed, shown):
    """Whether a word is the same, or a number with a decimal point close to it."""
    if printed == shown:
        return True
    try:
        a, b = float(printed), float(shown)
    except ValueError:
        return False
    measured = "." in printed and "." in shown
    return measured and abs(a - b) <= TOLERANCE * max(1.0, abs(b))


def says(printed, shown):
    """Whether a text says what a page shows of it, which may leave out with dots."""
    pieces = [[]]
    for token in tokens_of(shown):
        if token == "...":
            pieces.append([])
        else:
            pieces[-1].append(token)
    words, start = tokens_of(printed), 0
    for number, piece in enumerate(pieces):
        ends = len(words) - len(piece)
        last = number == len(pieces) - 1
        tried = range(start, ends + 1) if number else range(start, start + 1)
        if last and number:
            tried = range(max(ends, start), ends + 1)
        for at in tried:
            same = words[at : at + len(piece)]
            if len(same) == len(piece) and all(map(is_alike, same, piece)):
                start = at + len(piece)
                break
        else:
            return False
    return start == len(words) or not pieces[-1]


# Searches on pages run in threads.
def misaligned(printed, shown):
    """Lines that a page shows with other spaces than those that were printed."""
    lines = {}
    for line in printed.splitlines():
        lines.setdefault(tuple(tokens_of(line)), set()).add(line.rstrip())
    return [
        line
        for line in shown.splitlines()
        if line.rstrip() not in lines.get(tuple(tokens_of(line)), {line.rstrip()})
    ]


@pytest.mark.usefixtures("restored_filters")
# Other tests fit few entries, and a page has no reason to.
@pytest.mark.filterwarnings("error::sktensordp.exceptions.AveragesOnlyWarning")
@pytest.mark.filterwarnings("error:Clones of one .* have released:UserWarning")
@pytest.mark.filterwarnings("error:Most coordinates of X occur more than:UserWarning")
@pytest.mark.filterwarnings("error:delta = .* lets a release reveal:UserWarning")
@pytest.mark.filterwarnings("error:perturbation=.* does not use:UserWarning")
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=marks_of(page), id=page.stem) for page in PAGES],
)
def test_a_page_prints_what_it_shows(page, capsys, tmp_path, monkeypatch):
    for module in NEEDS.get(page.stem, ()):
        pytest.importorskip(module)
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    blocks = BLOCK.findall(page.read_text())
    for number, (language, code) in enumerate(blocks):
        if language != "python":
            continue
        exec(compile(code, page.name, "exec"), names)
        printed = capsys.readouterr().out
        following, shown = (*blocks, ("", ""))[number + 1]
        if printed.strip():
            assert following == "text", f"no output is shown after:\n{code}"
            assert says(printed, shown), f"it printed:\n{printed}"
            assert not misaligned(printed, shown), f"it printed:\n{printed}"
    plt.close("all")


def test_a_program_for_a_database_is_short():
    """Text ids, months, larger than memory, recommendations in ids: twelve lines."""
    text = (DOC / "larger_than_memory.md").read_text()
    _, program = text.split("<!-- the program -->\n")
    assert len(BLOCK.match(program)[2].splitlines()) <= 12


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("RMSE 0.951", "RMSE 0.93"),
        ("a b c d", "a ... d"),
        ("a b c d", "... d"),
        ("a b c d", "a b ..."),
        ("x = 12.5 (3 rows)", "x = 12.1 (3 rows)"),
    ],
)
def test_shown_output_that_is_right(printed, shown):
    assert says(printed, shown)


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("RMSE 0.951", "RMSE 1.2"),
        ("epsilon = 4", "epsilon = 5"),
        ("a b c d", "a c d"),
        ("a b c d", "a b c"),
        ("a b c d", "a ... c"),
        ("a b", "a b c"),
    ],
)
def test_shown_output_that_is_wrong(printed, shown):
    assert not says(printed, shown)
