"""Noise is drawn, and raw data are read, in the trusted core alone.

doc/architecture.md lists the modules of the core, in the order in which a reviewer
reads them, and says what these tests cannot see.
"""

import ast
import re
import sys
import threading
from functools import cache

import numpy as np
import pytest

from sktensordp.completion import CPCompletion
from sktensordp.measure import BoundedSums
from tests import DOC
from tests.support.every_estimator import RELEASING, answer
from tests.support.leaving import kinds_of_questions, kinds_of_sums, modules
from tests.support.scripts import load_script
from tests.support.seams import NoiseStreams, completion_base
from tests.test_imports import OTHER_GENERATORS, ROOT, generators_of, imports_of

SCRIPT = load_script(DOC / "make_core.py")
PAGE = SCRIPT.PAGE.read_text(encoding="utf-8")
CORE = SCRIPT.core(SCRIPT.section_of(PAGE)[1])
FILES = {path.relative_to(ROOT).as_posix(): path for path in ROOT.rglob("*.py")}

# --- the page -------------------------------------------------------------------------


def numbers_of(text):
    """Numbers of lines in the tables, by what they are of."""
    return {
        line.rpartition("|")[0].rpartition("|")[0]: int(
            line.split("|")[-2].replace(",", "")
        )
        for line in SCRIPT.section_of(text)[1].splitlines()
        if re.search(r"\| [\d,]+ \|$", line)
    }


def test_the_page_names_modules_and_about_their_lines():
    assert len(CORE) == len(set(CORE)) > 100
    assert set(CORE) <= FILES.keys()
    said, counted = numbers_of(PAGE), numbers_of(SCRIPT.filled(PAGE))
    assert said.keys() == counted.keys()
    assert len(said) > 20
    for place, lines in said.items():
        far = abs(lines - counted[place])
        assert far <= max(30, counted[place] / 10), f"run doc/make_core.py: {place}"


def test_proofs_are_where_the_page_says():
    section = SCRIPT.section_of(PAGE)[1]
    links = re.findall(r"\]\((\w+\.md)(?:#([\w-]+))?\)", section)
    assert len(links) > 20
    for page, anchor in links:
        headings = re.findall(r"^#+ (.*)$", (DOC / page).read_text(), re.MULTILINE)
        slugs = {re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in headings}
        assert not anchor or anchor in slugs, (page, anchor)


# --- noise ----------------------------------------------------------------------------

# What `_random` and `noise` have that draws nothing by itself.
NO_DRAWS = {"BLOCK", "NoiseStreams"}
# Functions and methods that draw, or lend what draws.
DRAWING = {
    "by_tiles", "fresh_bits", "privatize", "random_raw", "randomize", "randomized",
    "recorded_call", "recorded_fit", "recorded_update", "stream", "token_bytes",
    "urandom",
}  # fmt: skip


@cache
def calls_of(path, source=None):
    """Names of all functions and methods that a module calls."""
    tree = ast.parse(source or path.read_text(encoding="utf-8"))
    functions = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return frozenset(
        getattr(function, "id", None) or getattr(function, "attr", "")
        for function in functions
    )


def draws_of(path, source=None):
    """What a module takes of samplers and streams, and what it calls that draws."""
    for name in imports_of(path, source):
        if re.match(r"sktensordp\.(noise|_random)(\.|$)", name):
            yield from {name.rpartition(".")[2]} - NO_DRAWS
    yield from calls_of(path, source) & DRAWING


def outside_the_core(names_of):
    """What a function finds in each module outside of the core."""
    found = {name: set(names_of(FILES[name])) for name in FILES.keys() - set(CORE)}
    return {name: names for name, names in found.items() if names}


def test_only_the_core_draws_noise():
    assert not outside_the_core(draws_of)
    assert set(draws_of(FILES["measure/_releases.py"])) >= {"stream", "randomize"}


def test_other_generators_outside_of_the_core_are_listed():
    assert outside_the_core(generators_of).keys() <= OTHER_GENERATORS.keys()


@pytest.mark.parametrize(
    "source",
    [
        "from ..noise import discrete_laplace",
        "from ..noise._discrete import discrete_laplace as rounded",
        "from .. import noise",
        "def f():\n    import sktensordp.noise",
        "from .._random import fresh_bits",
        "from .._random import SentStreams",
        "def f(lattice, rows, bits):\n    return lattice.randomize(rows, bits)",
        "def f(streams):\n    return streams.stream(0)",
        "def f(model, said):\n    with recorded_fit(model, said):\n        pass",
        "import secrets\nkey = secrets.token_bytes(16)",
    ],
)
def test_a_draw_outside_of_the_core_is_found(source):
    assert list(draws_of(ROOT / "plotting" / "_x.py", source))


# --- raw data -------------------------------------------------------------------------

# Functions that check what users pass, ask people for their sums, or lend their data.
READING = {
    "AtHand", "Releases", "as_numpy", "ask", "by_unit", "check_X_y", "check_aligned",
    "check_array", "check_choices", "check_coordinates", "check_entries", "check_input",
    "check_numeric", "check_tensor", "check_unmasked", "check_values", "checked",
    "checked_ids", "checked_rows", "choices_of_batches", "column_or_1d", "contribute",
    "entries_at", "entries_of", "entries_of_batches", "filled", "in_chunks",
    "indexable", "observed_entries", "one_each", "safe_indexing", "summed", "units_of",
    "validate_data", "validated",
}  # fmt: skip
_OWNER = "works for the owner of the data, and promises nothing"
OTHER_READERS = {
    "completion/_ranking.py": "reads users and items for whom somebody asks",
    "completion/_synthetic.py": "reads the lengths of samples, which are a parameter",
    "encoding/_task.py": "reads a task and y in the fit of an encoder, which is public",
    "mechanisms/_mean.py": "reads samples that were released",
    "model_selection/_check_samples.py": _OWNER,
    "model_selection/_clean_scorer.py": _OWNER,
    "moments/_rehearsal.py": "sums public samples, and releases nothing",
    "recommend/_check_table.py": _OWNER,
    "recommend/_scoring.py": _OWNER,
}


def reads_of(path, source=None):
    """What a module calls that reads raw data."""
    return calls_of(path, source) & READING


def test_only_the_core_reads_raw_data():
    assert outside_the_core(reads_of).keys() == OTHER_READERS.keys()


def wrongly_placed(kinds):
    """Kinds of sums or of questions that are defined outside of the core."""
    modules = {name.removesuffix(".py").replace("/", ".") for name in CORE}
    return {
        kind for kind in kinds
        if kind.__module__.removeprefix("sktensordp.") not in modules
    }  # fmt: skip


def test_only_the_core_says_what_people_add():
    kinds = kinds_of_sums() | kinds_of_questions()
    assert len(kinds) > 10
    assert not wrongly_placed(kinds)

    class Elsewhere(BoundedSums):
        """A kind of sums outside of the core."""

    assert wrongly_placed([Elsewhere]) == {Elsewhere}


@pytest.mark.parametrize(
    "source",
    [
        "def f(X):\n    return check_array(X)",
        "def f(model, X, y):\n    return validate_data(model, X, y)",
        "def f(entries, domain):\n    return entries.by_unit(domain, 0)",
        "def f(people, question):\n    return contribute(people, question)",
        "def f(releases, people, question):\n    releases.ask(people, question)",
    ],
)
def test_a_reader_outside_of_the_core_is_found(source):
    assert list(reads_of(ROOT / "plotting" / "_x.py", source))


# --- what runs before the noise -------------------------------------------------------

_POSTERIOR = "computes from earlier releases, coordinates and public numbers"
_PUBLIC = "computes from parameters, coordinates and the public shape"
_HANDS_ON = "runs what it is given, and reads none of it"
MEANWHILE = {
    "_dask.py": "asks whether data are Dask's",
    "_noise_only.py": "compares what was released with its noise",
    "_sklearn_compat.py": _HANDS_ON,
    "_waiting.py": "shows that a fit goes on; a time only where that is public",
    "completion/_cp.py": _PUBLIC,
    "completion/_dense.py": "says whether a fit was to a tensor",
    "completion/_ranking.py": "says what is public",
    "completion/_tucker.py": _PUBLIC,
    "completion/_used_parameters.py": _PUBLIC,
    "completion/measurements/_expectation.py": _PUBLIC,
    "completion/measurements/_residual_variance.py": (
        "computes from randomised values, in a candidate of a search"
    ),
    "encoding/_whitening.py": "maps samples whose codes are clipped later",
    "moments/_spectrum.py": _POSTERIOR,
    "papers/_descent.py": "reads values for which the guarantee is infinite",
    "papers/_descent_kernels.py": "reads values for which the guarantee is infinite",
    "tensor/_average_row.py": _POSTERIOR,
    "tensor/_cp_rows.py": "computes from randomised values, in a candidate of a search",
    "tensor/_leading_terms.py": _PUBLIC,
    "tensor/_likelihood.py": (
        "computes from a public table and its expected noise, or from randomised "
        "values, in a candidate of a search"
    ),
    "tensor/_pattern.py": _PUBLIC,
    "tensor/_shared_rows.py": _POSTERIOR,
    "tensor/_sums.py": _POSTERIOR,
    "tensor/_threads.py": _HANDS_ON,
}


def entered_before_noise(call):
    """Modules that a call enters until the streams of its last release end.

    In threads that it starts, too. Compiled kernels are not seen.
    """
    modules()  # What is imported on first use would be seen in one order of tests only.
    found, since = set(), set()

    def saw(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(f"{ROOT}/"):
            since.add(code.co_filename.removeprefix(f"{ROOT}/"))
            if code is NoiseStreams.close.__code__:
                found.update(since)

    threading.setprofile(saw), sys.setprofile(saw)
    try:
        call()
    finally:
        sys.setprofile(None), threading.setprofile(None)
    return found


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")
def test_what_runs_before_the_noise_is_in_the_core_or_listed():
    found = set()
    for case in (param.values[0] for param in RELEASING):
        estimator = case.fresh(**case.seeded())
        of_fit = entered_before_noise(lambda e=estimator, c=case: e.fit(*c.data))
        entered = of_fit | entered_before_noise(
            lambda e=estimator, c=case: answer(e, c.data[0])
        )
        assert entered, case.label
        found |= entered
    assert len(found & set(CORE)) > 80
    # Fewer than are listed, where another test has filled a cache.
    assert found - set(CORE) <= MEANWHILE.keys()
    assert MEANWHILE.keys() <= FILES.keys() - set(CORE)


def test_what_runs_before_the_noise_is_seen(monkeypatch):
    """A guarantee that is drawn in the middle of a fit, say."""
    where = np.argwhere(np.ones((3, 3)))
    model = CPCompletion(0, perturbation="input", value_bounds=(0, 1), shape=(3, 3))

    def entered():
        return entered_before_noise(lambda: model.fit(where, np.linspace(0, 1, 9)))

    assert entered() - set(CORE) <= MEANWHILE.keys()

    def curious(estimator, entries, measurement):
        measurement.guarantee._repr_html_()

    monkeypatch.setattr(completion_base, "warn_before", curious)
    assert entered() - set(CORE) - MEANWHILE.keys() >= {"privacy/_html.py"}
