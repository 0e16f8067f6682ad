"""Faults that the tests have to catch: one line each, where privacy rests on it.

A fault is found by its text, so that it moves with the line. Each is planted in a copy
of the package, where the tests that should see it are run, up to the first that fails.
What survives them meets all other tests, the slow ones last:

    python -m tests.faults
    python -m tests.faults --only completion --results faults.jsonl

With a file of results, what has been found out already is not run again. `--check` runs
no test: it says which faults no longer have their line. `--mutants 60 --seed 0` plants
random changes instead (`tests/mutants.py`).
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import astuple, dataclass
from pathlib import Path
from queue import SimpleQueue

from tests.mutants import mutants

ROOT = Path(__file__).resolve().parent.parent
LEFT_OUT = shutil.ignore_patterns(
    "__pycache__", ".git", ".venv", ".*_cache", ".hypothesis", "_build", "dist"
)
# What is run, one after the other: of which tier, whether the named tests alone.
STAGES = (("own", True), ("slow", True), ("first", False), ("slow", False))
# Longer than a whole tier takes: a test that hangs does not say what is wrong.
LIMIT = 3600


@dataclass(frozen=True)
class Fault:
    """A text of the package, and a wrong one in its place.

    Parameters
    ----------
    name : str
        What goes wrong, for which object.
    file : str
        Below the package; the text occurs there once.
    old, new : str
    tests : tuple of str
        Files below ``tests``, or tests in them, that should see it.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


FILE_TESTS = ("privacy/test_budget_file.py",)
OF_FILES = [
    Fault(
        "noise is drawn before its release is on the disk",
        "privacy/budgets/_budget.py",
        "            budget._ledger.commit()\n",
        "            pass\n",
        FILE_TESTS,
    ),
    Fault(
        "a release is admitted without reading what other processes recorded",
        "privacy/budgets/_budget.py",
        "budget._ledger.locked())\n            budget._read()",
        "budget._ledger.locked())",
        FILE_TESTS,
    ),
    Fault(
        "two processes may read the same remainder and both take it",
        "privacy/budgets/_file.py",
        '_run(connection, "BEGIN IMMEDIATE")\n            self._check',
        '_run(connection, "BEGIN")\n            self._check',
        FILE_TESTS,
    ),
    Fault(
        "processes with one integer share their noise under a budget with a path",
        "privacy/budgets/_budget.py",
        "if seeded and any(mark.path for mark in marks):",
        "if False:",
        FILE_TESTS,
    ),
    Fault(
        "a worker does not record in the file of the process that sent its estimator",
        "privacy/budgets/_budget.py",
        "found += [_opened(mark.path, mark.id) for",
        "[_opened(mark.path, mark.id) for",
        FILE_TESTS,
    ),
    Fault(
        "a worker releases although one of the sender's budgets has no path",
        "privacy/budgets/_budget.py",
        "    if lost := {mark.process for mark in closed if mark.path is None}:",
        "    lost = {mark.process for mark in closed if mark.path is None}\n"
        "    if lost and not any(mark.path for mark in closed):",
        FILE_TESTS,
    ),
    Fault(
        "another process sets limits of its own by its own first release",
        "privacy/budgets/_file.py",
        "None if limits is None else json.dumps(astuple(limits))",
        "None",
        FILE_TESTS,
    ),
    Fault(
        "a restored backup is not noticed while the budget is open",
        "privacy/budgets/_file.py",
        "if last < number or known != digest:",
        "if False:",
        FILE_TESTS,
    ),
    Fault(
        "a missing release is not noticed",
        "privacy/budgets/_file.py",
        'if _value(connection, "SELECT COUNT(*) FROM releases") != number:',
        "if False:",
        FILE_TESTS,
    ),
    Fault(
        "a release in a file may be another than was recorded",
        "privacy/budgets/_file.py",
        "            if not row.follows(number, digest):",
        "            if row.number != number + 1:",
        ("privacy/test_budget_damage.py",),
    ),
    Fault(
        "lost releases at the end of a file are not noticed",
        "privacy/budgets/_file.py",
        "if head != [(number, digest)] or last != number:",
        "if last != number:",
        ("privacy/test_budget_damage.py",),
    ),
    Fault(
        "a restored backup is noticed by its number of releases alone",
        "privacy/budgets/_file.py",
        "if last < number or known != digest:",
        "if last < number:",
        ("privacy/test_budget_damage.py",),
    ),
    Fault(
        "what a damaged file holds is raised as any error",
        "privacy/budgets/_file.py",
        "    except (ValueError, TypeError, OverflowError) as error:",
        "    except OverflowError as error:",
        ("privacy/test_budget_damage.py",),
    ),
    Fault(
        "a release is written into a damaged file although it cannot be read back",
        "privacy/budgets/_file.py",
        "            if self._rows(self._connection) != [row]:",
        "            if False:",
        ("privacy/test_budget_damage.py",),
    ),
    Fault(
        "another budget in the place of a file is taken for it",
        "privacy/budgets/_file.py",
        'if self.mark.id and facts.get("id") != json.dumps(self.mark.id):',
        "if False:",
        FILE_TESTS,
    ),
    Fault(
        "ids that another process published are forgotten",
        "privacy/budgets/_budget.py",
        "                self._publishers.append(label)",
        "                pass",
        FILE_TESTS,
    ),
    Fault(
        "a plan of twelve fits counts one",
        "privacy/_planned.py",
        "if budget._limit.admits_all(guarantee.event, n_releases):",
        "if budget._limit.admits_all(guarantee.event, 1):",
        ("privacy/test_planned.py",),
    ),
    Fault(
        "a plan for a fitted pipeline forgets the shape of its samples",
        "privacy/_planned.py",
        "like=estimator, fixed=True)",
        "like=estimator, fixed=False)",
        ("privacy/test_planned.py",),
    ),
    Fault(
        "the log tells how long a fit to users' data takes",
        "completion/_base.py",
        "        return self._unit is None\n",
        "        return True\n",
        ("test_logging.py",),
    ),
]
OF_RELEASES = [
    Fault(
        "no budget learns of a release",
        "base.py",
        "            record(\n                guarantee,\n",
        "            (lambda *_, **__: None)(\n                guarantee,\n",
        ("privacy/test_budget.py",),
    ),
    Fault(
        "a release is recorded when it has ended, and cannot be refused",
        "base.py",
        "        if not recorded:\n            self._record(guarantee)",
        "        late = type('', (), {'__del__': lambda _: self._record(guarantee)})()",
        ("privacy/test_budget.py",),
    ),
    Fault(
        "the model of an earlier fit stays under the guarantee of a later one",
        "base.py",
        "        if anew:\n            self._forget()",
        "        if False:\n            self._forget()",
        (
            "contracts/test_measurements.py"
            "::test_an_interrupted_fit_counts_and_leaves_nothing",
        ),
    ),
    Fault(
        "what a process with an open budget sent releases elsewhere, unseen",
        "base.py",
        "self._unprotected(),\n                self._marks(),",
        "self._unprotected(),\n                frozenset(),",
        ("privacy/test_budget_processes.py::test_what_is_sent_refuses_there",),
    ),
    Fault(
        "after several releases the guarantee is that of the last one alone",
        "base.py",
        "            self.privacy_guarantee_ = guarantee if total is None else total\n"
        "        streams",
        "            self.privacy_guarantee_ = guarantee\n        streams",
        ("completion/test_streams.py",),
    ),
    Fault(
        "a report does not say that the noise follows from an integer",
        "base.py",
        "if self.random_state is None and True not in self._seeded:",
        "if True:",
        ("privacy/test_report.py",),
    ),
    Fault(
        "every seeded release of an object has the same key",
        "_random.py",
        "self._count += 1",
        "self._count += 0",
        ("test_random.py",),
    ),
    Fault(
        "the key of the first release is used for all that follow",
        "_random.py",
        "self._key = secrets.token_bytes(_KEY_BYTES)",
        "self._key = vars(os).setdefault('_key', secrets.token_bytes(_KEY_BYTES))",
        ("test_random.py",),
    ),
    Fault(
        "two neighbouring blocks of a release share their noise",
        "_random.py",
        "np.array([0, operator.index(block)]",
        "np.array([0, operator.index(block) // 2]",
        ("test_random.py",),
    ),
    Fault(
        "the steps of a release share their noise",
        "_random.py",
        "(self._number << 32) + block",
        "block",
        ("completion/test_noisy_sums.py",),
    ),
    Fault(
        "the key of a release outlives it",
        "_random.py",
        '"""Forget the key."""\n        self._key = None',
        '"""Forget the key."""',
        ("test_random.py",),
    ),
    Fault(
        "values that are masked are used",
        "_validation.py",
        "if _has_masked(values):",
        "if False:",
        ("hardening/test_odd_inputs.py",),
    ),
    Fault(
        "an error message quotes a value of the data",
        "_validation.py",
        'message = re.sub(quoted, "", message)',
        "pass",
        ("completion/test_decompositions.py", "hardening/test_leaks.py"),
    ),
    Fault(
        "a warning tells of the coordinates of protected users",
        "completion/_likely_mistakes.py",
        'if estimator.unit == "entry":\n        if entries',
        "if True:\n        if entries",
        ("first_hour/test_tables.py",),
    ),
    Fault(
        "samples of Dask that have changed get the noise that others had",
        "mechanisms/_chunks.py",
        "if not math.isnan(stop - start) and len(chunk) != stop - start:",
        "if False:",
        ("with_dask/test_lazy_transforms.py",),
    ),
]

OF_OUTLIVING = [
    Fault(
        "no budget counts a copy that outlives its block",
        "privacy/budgets/_budget.py",
        "raise RuntimeError(_CLOSED if lost == {OPEN.process_name()} else _SENT)",
        "if lost != {OPEN.process_name()}:\n            raise RuntimeError(_SENT)",
        ("privacy/test_outliving_blocks.py",),
    ),
    Fault(
        "another budget counts a copy that outlives its block",
        "privacy/budgets/_ledger.py",
        "self.mark = Mark(process_name(), None, secrets.token_hex(8))",
        'self.mark = Mark(process_name(), None, "")',
        ("privacy/test_outliving_blocks.py",),
    ),
    Fault(
        "no budget counts a thread of a pool that outlives its block",
        "privacy/budgets/_budget.py",
        "                if not self._covers_some:\n",
        "                if False:\n",
        ("privacy/test_outliving_blocks.py",),
    ),
    Fault(
        "budgets of two data sets in two threads charge each other",
        "privacy/budgets/_budget.py",
        "if not budget._covers_some or budget._ledger.mark[1:] in files",
        "if True",
        ("privacy/test_covers.py",),
    ),
    Fault(
        "a budget counts nothing of what it covers",
        "privacy/budgets/_budget.py",
        "if not budget._covers_some or budget._ledger.mark[1:] in files",
        "if not budget._covers_some",
        ("privacy/test_covers.py",),
    ),
    Fault(
        "copies in the block of a budget belong to it, whatever it covers",
        "privacy/budgets/_open.py",
        "for b in OPEN.stack if not b._covers_some",
        "for b in OPEN.stack",
        ("privacy/test_covers.py",),
    ),
    Fault(
        "a budget covers the first step of what it should cover",
        "privacy/budgets/_budget.py",
        "            for item in found:",
        "            for item in found[:1]:",
        ("privacy/test_covers.py",),
    ),
    Fault(
        "no budget counts a clone that outlives its block",
        "base.py",
        "if marks := marks_of_copy(self._made_in):",
        "if marks := self._made_in:",
        ("privacy/test_outliving_blocks.py",),
    ),
    Fault(
        "no budget counts what was pickled in its block",
        "base.py",
        "        marks = marks_of_copy(self._made_in)\n",
        "        marks = self._made_in\n",
        ("privacy/test_outliving_blocks.py",),
    ),
    Fault(
        "no budget counts what was unpickled in its block",
        "base.py",
        "if marks := marks_of_copy(marks):",
        "if marks:",
        ("privacy/test_outliving_blocks.py",),
    ),
    Fault(
        "copies of copies outlive the budgets of the originals",
        "privacy/budgets/_open.py",
        "return marks | {b._ledger.mark",
        "return frozenset() | {b._ledger.mark",
        ("privacy/test_outliving_blocks.py",),
    ),
    Fault(
        "no budget counts a client that outlives its block",
        "encoding/_base.py",
        "return self._passed_on(client)",
        "return client",
        ("privacy/test_outliving_blocks.py",),
    ),
    Fault(
        "no budget counts a client of values that outlives its block",
        "completion/_base.py",
        "return self._passed_on(client)",
        "return client",
        ("privacy/test_outliving_blocks.py",),
    ),
    Fault(
        "no budget counts a party that outlives its block",
        "completion/_parties.py",
        "return completion._passed_on(found)",
        "return found",
        ("privacy/test_outliving_blocks.py",),
    ),
    Fault(
        "a private search forgets to which budgets its estimator belongs",
        "model_selection/_private_search.py",
        "return super()._marks().union(*(step._marks() for step in steps))",
        "return super()._marks()",
        ("privacy/test_outliving_blocks.py",),
    ),
    Fault(
        "another budget learns of the ids that a copy publishes",
        "completion/_recommender.py",
        "encoder = self._passed_on(CoordinateEncoder())",
        "encoder = CoordinateEncoder()",
        ("privacy/test_outliving_blocks.py",),
    ),
]

OF_NOISE = [
    Fault(
        "Gaussian noise is half as large",
        "noise/_lattice.py",
        "noise *= scale",
        "noise *= scale / 2",
        ("noise/test_gaussian_lattice.py",),
    ),
    Fault(
        "Laplace noise is half as large",
        "noise/_lattice.py",
        "discrete_laplace(bits, self.numerator,",
        "discrete_laplace(bits, 2 * self.numerator,",
        ("noise/test_laplace_lattice.py",),
    ),
    Fault(
        "half of the Gaussian sampler's distance from its law is left out",
        "noise/_lattice.py",
        "return n_cells * eta**2 + eta *",
        "return n_cells * eta**2 + eta / 2 *",
        ("noise/test_gaussian_lattice.py",),
    ),
    Fault(
        "the epsilon of Laplace noise is rounded down",
        "noise/_lattice.py",
        "return nearest if nearest >= exact else math.nextafter(nearest, math.inf)",
        "return nearest",
        ("noise/test_laplace_lattice.py",),
    ),
    Fault(
        "values are not clipped to the range that the noise is for",
        "noise/_lattice.py",
        "return np.clip(index, 0, n_steps, out=index)",
        "return index",
        ("noise/test_laplace_lattice.py",),
    ),
    Fault(
        "what rounding to the lattice adds to a distance is left out",
        "noise/_lattice.py",
        "math.ceil(l1 / step * (1 + 1e-12)) + n_cells",
        "math.ceil(l1 / step * (1 + 1e-12))",
        ("noise/test_lattices_with_ranges.py",),
    ),
    Fault(
        "the sign of a zero tells from which side a value was rounded",
        "noise/_lattice.py",
        "    index += 0.0\n",
        "",
        ("hardening/test_clip_then_round.py",),
    ),
    Fault(
        "zero is drawn twice as often as the discrete Laplace law says",
        "noise/_discrete.py",
        "    if again.size:\n",
        "    if again.size < 0:\n",
        ("noise/test_discrete.py",),
    ),
    Fault(
        "rounding of a logarithm decides between two integers",
        "noise/_discrete.py",
        "_ERROR, _LEAST = 2.0**-40, 2.0**-23",
        "_ERROR, _LEAST = 2.0**-80, 2.0**-63",
        ("noise/test_discrete.py",),
    ),
    Fault(
        "some integers are drawn more often than others",
        "noise/_discrete.py",
        "np.uint64(2**64 - 2**64 % bound - 1)",
        "np.uint64(2**64 - 1)",
        ("noise/test_discrete.py",),
    ),
    Fault(
        "the hybrid mechanism states the smaller epsilon of its two parts",
        "noise/_piecewise.py",
        "return max(piecewise, two_point)",
        "return min(piecewise, two_point)",
        ("noise/test_piecewise.py",),
    ),
    Fault(
        "the hybrid mechanism shows the value itself where it draws near it",
        "noise/_piecewise.py",
        "index[inside] + _uniform_below(bits, self.window, n_inside)",
        "index[inside]",
        ("noise/test_piecewise.py",),
    ),
    Fault(
        "the caps of the sphere are not enlarged by what rounding moves",
        "noise/_cap.py",
        "return max(0.0, inner - turn), min(math.pi, outer + turn)",
        "return inner, outer",
        ("noise/test_cap.py",),
    ),
]

OF_GROUPS = [
    Fault(
        "a group that shares one Gaussian release counts as so many releases",
        "privacy/accounting/_composition.py",
        "math.nextafter(size * self.mu",
        "math.nextafter(math.sqrt(size) * self.mu",
        ("privacy/test_groups.py",),
    ),
    Fault(
        "the samplers' distances of a group are counted once",
        "privacy/accounting/_composition.py",
        "residual_delta=size * self.residual_delta",
        "residual_delta=self.residual_delta",
        ("privacy/test_groups.py",),
    ),
    Fault(
        "a group changes a count by no more than one of its people",
        "privacy/accounting/_pld.py",
        "sensitivity=size * event.sensitivity",
        "sensitivity=event.sensitivity",
        ("privacy/test_groups.py",),
    ),
    Fault(
        "the delta of one unit grows by no factor on its way through a group",
        "privacy/accounting/_group_curve.py",
        "delta = factors[line] * delta + deltas[line]",
        "delta = delta + deltas[line]",
        ("privacy/test_groups.py",),
    ),
    Fault(
        "the messages of a group count as one",
        "privacy/_group.py",
        "SelfComposedDpEvent(guarantee.event, size)",
        "SelfComposedDpEvent(guarantee.event, 1)",
        ("privacy/test_groups.py",),
    ),
    Fault(
        "the largest true positive rate leaves out delta in one order",
        "privacy/_risk.py",
        "factor * (fpr + delta_at(epsilon))",
        "factor * fpr",
        ("privacy/test_risk.py",),
    ),
]

SYNTHETIC = ("completion/test_synthetic.py",)
OWN_ROWS = ("completion/test_own_rows.py",)
CONDITIONS_TESTS = ("privacy/test_conditions.py",)
OF_CONDITIONS = [
    Fault(
        "what is made of a guarantee has none of its conditions",
        "privacy/_guarantee.py",
        '"statement", "source", "conditions")',
        '"statement", "source")',
        CONDITIONS_TESTS,
    ),
    Fault(
        "many releases have none of the conditions of one",
        "privacy/_guarantee.py",
        "SelfComposedDpEvent(self.event, count),",
        "SelfComposedDpEvent(self.event, count), conditions=(),",
        CONDITIONS_TESTS,
    ),
    Fault(
        "a release about a sample has none of the earlier conditions",
        "privacy/_guarantee.py",
        "PoissonSampledDpEvent(rate, self.event),",
        "PoissonSampledDpEvent(rate, self.event), conditions=(),",
        CONDITIONS_TESTS,
    ),
    Fault(
        "a group has none of the conditions of one unit",
        "privacy/_group.py",
        "relation=group_relation(relation, size * size_of_one),",
        "relation=group_relation(relation, size * size_of_one), conditions=(),",
        CONDITIONS_TESTS,
    ),
    Fault(
        "shuffled messages have none of the conditions of one",
        "privacy/_shuffled.py",
        "    return guarantee.derived(\n        event,\n",
        "    return guarantee.derived(\n        event,\n        conditions=(),\n",
        CONDITIONS_TESTS,
    ),
    Fault(
        "releases together have no condition",
        "privacy/_guarantee.py",
        "        conditions=conditions_of(guarantees),\n    )\n\n\n"
        "def compose_parallel(",
        "    )\n\n\ndef compose_parallel(",
        CONDITIONS_TESTS,
    ),
    Fault(
        "releases about disjoint parts have no condition",
        "privacy/_guarantee.py",
        "        conditions=conditions_of(guarantees),\n    )\n\n\n"
        "def unit_and_relation(",
        "    )\n\n\ndef unit_and_relation(",
        CONDITIONS_TESTS,
    ),
    Fault(
        "a further condition takes the place of the others",
        "privacy/_guarantee.py",
        "conditions=(*self.conditions, *conditions)",
        "conditions=conditions",
        CONDITIONS_TESTS,
    ),
    Fault(
        "guarantees on other conditions are the same",
        "privacy/_guarantee.py",
        "    conditions: tuple[str, ...] = ()\n",
        "    conditions: Any = "
        '__import__("dataclasses").field(default=(), compare=False)\n',
        CONDITIONS_TESTS,
    ),
    Fault(
        "what prints leaves out the conditions",
        "privacy/_guarantee.py",
        "({self.relation}){clauses(self.conditions)}",
        "({self.relation})",
        CONDITIONS_TESTS,
    ),
    Fault(
        "a stored guarantee of shuffled messages needs no shuffler",
        "privacy/_guarantee.py",
        'vars(self)["conditions"] = united((), self.event)',
        'vars(self)["conditions"] = ()',
        CONDITIONS_TESTS,
    ),
    Fault(
        "conditions may be any text",
        "privacy/_conditions.py",
        "if condition not in VOCABULARY:",
        "if False:",
        CONDITIONS_TESTS,
    ),
    Fault(
        "a shuffle needs no trusted shuffler",
        "privacy/_conditions.py",
        "        ShuffledDpEvent: SHUFFLER,\n",
        "",
        CONDITIONS_TESTS,
    ),
    Fault(
        "a sample need not be secret",
        "privacy/_conditions.py",
        "        dp_event.PoissonSampledDpEvent: SECRET_SAMPLE,\n",
        "",
        CONDITIONS_TESTS,
    ),
    Fault(
        "the number of tries need not be secret",
        "privacy/_conditions.py",
        "        SelectionDpEvent: SECRET_TRIES,\n",
        "",
        CONDITIONS_TESTS,
    ),
    Fault(
        "a shuffle inside of a composition goes unnoticed",
        "privacy/accounting/_events.py",
        "getattr(value, f.name) for f in",
        "None for f in",
        CONDITIONS_TESTS,
    ),
    Fault(
        "what a budget has spent has no condition",
        "privacy/budgets/_budget.py",
        "            conditions=conditions_of(recorded),\n",
        "",
        CONDITIONS_TESTS,
    ),
    Fault(
        "a budget prints no condition",
        "privacy/budgets/_budget.py",
        "({relation}){conditions}",
        "({relation})",
        CONDITIONS_TESTS,
    ),
    Fault(
        "a file of a budget keeps no condition",
        "privacy/budgets/_stored.py",
        '"source", "conditions")',
        '"source")',
        CONDITIONS_TESTS,
    ),
    Fault(
        "anybody may see what is computed from a user's own entries",
        "completion/measurements/_units.py",
        "conditions=(OWN_ANSWERS, *(",
        "conditions=((",
        CONDITIONS_TESTS,
    ),
    Fault(
        "parties may reveal any sum",
        "completion/measurements/_units.py",
        "(ONE_SUM, COLLUDERS) if shares",
        "(COLLUDERS,) if shares",
        CONDITIONS_TESTS,
    ),
    Fault(
        "any number of parties may collude",
        "completion/measurements/_units.py",
        "(ONE_SUM, COLLUDERS) if shares",
        "(ONE_SUM,) if shares",
        CONDITIONS_TESTS,
    ),
    Fault(
        "anybody may see what is computed from a user's own choices",
        "completion/_implicit.py",
        '            "conditions": (OWN_ANSWERS,),\n',
        "",
        CONDITIONS_TESTS,
    ),
    Fault(
        "what clients sent is private however they randomised it",
        "completion/_entries.py",
        "return (CLIENTS,) * self.received",
        "return ()",
        CONDITIONS_TESTS,
    ),
    Fault(
        "exact sums are private from the server that sees them",
        "completion/_parties.py",
        "return (EXACT_SUMS,) if self.noise is None else ()",
        "return ()",
        CONDITIONS_TESTS,
    ),
    Fault(
        "the conditions of a fit go with its plan",
        "completion/_base.py",
        "problem.stated(measurement.guarantee).under(*entries.conditions)",
        "problem.stated(measurement.guarantee)",
        CONDITIONS_TESTS,
    ),
    Fault(
        "a later call forgets the conditions of the fit",
        "completion/_fitted.py",
        "worse.under(*first.conditions, *second.conditions)",
        "worse.under(*second.conditions)",
        CONDITIONS_TESTS,
    ),
    Fault(
        "releases of the same entries have no condition",
        "completion/_fitted.py",
        "SelfComposedDpEvent(guarantee.event, times),",
        "SelfComposedDpEvent(guarantee.event, times), conditions=(),",
        CONDITIONS_TESTS,
    ),
    Fault(
        "a private choice has none of the conditions of a fit",
        "model_selection/_private_search.py",
        "SelectionDpEvent(one_try.event, distribution),",
        "SelectionDpEvent(one_try.event, distribution), conditions=(),",
        CONDITIONS_TESTS,
    ),
]

SO_FAR = ("privacy/test_released_so_far.py",)
OF_OBJECTS = [
    Fault(
        "a release is not kept by the object that made it",
        "base.py",
        "            self._keep(guarantee)\n        if recorded",
        "            pass\n        if recorded",
        SO_FAR,
    ),
    Fault(
        "the last guarantee counts for all releases of an object",
        "privacy/_parts.py",
        'made.update(getattr(obj, "_made", {}))',
        "made[guarantee] = sum(obj._made.values())",
        SO_FAR,
    ),
    Fault(
        "releases that are equal count once",
        "base.py",
        "counts[guarantee] += 1",
        "counts[guarantee] = 1",
        SO_FAR,
    ),
    Fault(
        "a total of several calls counts beside its parts",
        "base.py",
        "self._keep(total, instead_of=self.privacy_guarantee_)",
        "self._keep(total)",
        SO_FAR,
    ),
    Fault(
        "what clients sent counts again at every fit",
        "base.py",
        "elif not (received and guarantee in self._made):",
        "else:",
        SO_FAR,
    ),
    Fault(
        "two threads count one release",
        "base.py",
        "        with self._count_releases().lock:\n            self._made =",
        "        if True:\n            self._made =",
        SO_FAR,
    ),
    Fault(
        "a fit forgets what another thread releases meanwhile",
        "base.py",
        "        with self._count_releases().lock:\n            kept =",
        "        if True:\n            kept =",
        SO_FAR,
    ),
    Fault(
        "a mechanism does not keep that it has released a range",
        "mechanisms/_base.py",
        "            self._keep(guarantee)\n",
        "",
        SO_FAR,
    ),
    Fault(
        "a recommender forgets the releases of earlier fits",
        "completion/_recommender.py",
        "            completion._made = dict(self._made)\n            try:",
        "            try:",
        SO_FAR,
    ),
    Fault(
        "a recommender forgets a fit that was interrupted",
        "completion/_recommender.py",
        "        completion._made = self._made\n        if",
        "        if",
        SO_FAR,
    ),
    Fault(
        "what is frozen counts in each fit of a search what all of them released",
        "privacy/_parts.py",
        '"made" if context.counts == "made" else "call"',
        '"made" if context.counts != "call" else "call"',
        SO_FAR,
    ),
    Fault(
        "a report takes a scaler for a step that learns nothing",
        "privacy/_stateless.py",
        "return condition is not None and is_of_sklearn and condition(step)",
        "return condition is not None and is_of_sklearn",
        ("privacy/test_stateless.py",),
    ),
    Fault(
        "a report of several fits counts the first one",
        "privacy/_parts.py",
        "[(fit, fit) for fit in fits]",
        "[(fit, fit) for fit in fits[:1]]",
        ("privacy/test_stateless.py",),
    ),
    Fault(
        "metadata count twice in a pipeline that is fitted",
        "privacy/_parts.py",
        "more = len(pipeline.transform_input or ()) if context.planned else 0",
        "more = len(pipeline.transform_input or ())",
        ("privacy/test_report_counts.py",),
    ),
]

OF_ACCOUNTING = [
    Fault(
        "delta of Gaussian noise is rounded down",
        "privacy/accounting/_gaussian.py",
        "min(log_delta + error, 0.0)",
        "min(log_delta - error, 0.0)",
        ("hardening/test_float_edges.py",),
    ),
    Fault(
        "mu of Gaussian noise is a billionth too large",
        "privacy/accounting/_gaussian.py",
        "(1 - _ERROR - _ERROR_OF_LOG * abs(root))",
        "(1 + 1e-9)",
        ("privacy/test_gaussian.py",),
    ),
    Fault(
        "the epsilon that is printed is rounded down",
        "privacy/_numbers.py",
        "decimal.ROUND_CEILING",
        "decimal.ROUND_FLOOR",
        ("privacy/test_guarantee.py",),
    ),
    Fault(
        "a guarantee may state a smaller epsilon than its event has",
        "privacy/_guarantee.py",
        "if self.epsilon < truth * (1 - 1e-12):",
        "if False:",
        ("privacy/test_guarantee.py",),
    ),
    Fault(
        "a refusal states the shape of private data",
        "completion/_checks.py",
        'f"X has another shape than {shape}, which is declared."',
        'f"X has shape {X.shape}, but shape is {shape}."',
        ("hardening/test_private_sizes.py",),
    ),
    Fault(
        "an infinite epsilon is printed as a claim",
        "privacy/_guarantee.py",
        "if math.isinf(epsilon):",
        "if False:",
        ("privacy/test_guarantee.py",),
    ),
    Fault(
        "sampling amplifies a guarantee for replaced records",
        "privacy/_guarantee.py",
        'not in ("add-or-remove", CALLERS_RELATION)',
        'not in ("add-or-remove", "replace-one", CALLERS_RELATION)',
        ("privacy/test_sampled_accounting.py::test_subsampled_guarantee",),
    ),
    Fault(
        "a guarantee of many releases is that of one",
        "privacy/_guarantee.py",
        "SelfComposedDpEvent(self.event, count)",
        "SelfComposedDpEvent(self.event, 1)",
        ("privacy/test_mixtures.py",),
    ),
    Fault(
        "guarantees for different units are composed",
        "privacy/_guarantee.py",
        "if len(units) > 1:",
        "if False:",
        ("privacy/test_guarantee.py",),
    ),
    Fault(
        "a part of the data that another part covers is taken to be the worse one",
        "privacy/accounting/_composition.py",
        "and other.mu <= self.mu",
        "and other.mu >= self.mu",
        ("privacy/test_mixtures.py",),
    ),
    Fault(
        "of two Gaussian releases the larger one alone is counted",
        "privacy/accounting/_curves.py",
        "composition.mu = composed_mu(composition.mu, mu)",
        "composition.mu = max(composition.mu, mu)",
        ("privacy/test_accounting.py",),
    ),
    Fault(
        "samplers' distances from their laws do not add up",
        "privacy/accounting/_curves.py",
        "composition.residual_delta += count * event.delta",
        "composition.residual_delta += event.delta",
        ("privacy/test_accounting.py",),
    ),
    Fault(
        "a sample amplifies pure epsilon more than it does",
        "privacy/accounting/_curves.py",
        "math.log1p(rate * math.expm1(epsilon))",
        "rate * epsilon",
        ("privacy/test_sampled_accounting.py",),
    ),
    Fault(
        "the delta of a sampler is counted under one of two neighbours",
        "privacy/accounting/_curves.py",
        "d1 * (1 + math.exp(epsilon - e1))",
        "d1",
        ("privacy/test_accounting.py",),
    ),
    Fault(
        "a sum of two epsilons is rounded to the nearest",
        "privacy/accounting/_curves.py",
        "math.nextafter(total, math.inf) if first and second else total",
        "total",
        ("hardening/test_float_edges.py", "privacy/test_accounting.py"),
    ),
    Fault(
        "the pure epsilon of Laplace noise is rounded down",
        "privacy/accounting/_pld.py",
        "nearest if nearest >= exact else math.nextafter(nearest, math.inf)",
        "nearest if nearest <= exact else math.nextafter(nearest, -math.inf)",
        ("hardening/test_float_edges.py",),
    ),
    Fault(
        "the cheapest corner of a box is taken for the dearest one",
        "privacy/calibration/_gaussian.py",
        'order = np.argsort(-gains, kind="stable")',
        'order = np.argsort(gains, kind="stable")',
        ("privacy/test_calibration.py",),
    ),
    Fault(
        "the bound of rotated noise is as low as a heuristic finds it",
        "privacy/calibration/_gaussian.py",
        "candidates.append(multipliers + shift)",
        "candidates.append(multipliers)",
        ("privacy/test_calibration.py",),
    ),
    Fault(
        "the sensitivity of a ball is its radius",
        "privacy/calibration/_sensitivity.py",
        "return 2 * self.norm_bound *",
        "return self.norm_bound *",
        ("privacy/test_sensitivity.py",),
    ),
    Fault(
        "the L1 sensitivity of a ball is its L2 sensitivity",
        "privacy/calibration/_sensitivity.py",
        "return self.diameter * math.sqrt(self.n_entries)",
        "return self.diameter",
        ("privacy/test_sensitivity.py",),
    ),
    Fault(
        "samples are not clipped to their ranges",
        "privacy/calibration/_sensitivity.py",
        "return np.clip(block, low, high, dtype=float, out=out)",
        "return np.positive(block, dtype=float, out=out)",
        ("privacy/test_sensitivity.py",),
    ),
    Fault(
        "an adaptive budget admits whatever fits into it alone",
        "privacy/budgets/_filter.py",
        "alone = total.n_releases <= 1",
        "alone = True",
        ("privacy/test_filter.py",),
    ),
    Fault(
        "an adaptive budget admits twice the Gaussian releases",
        "privacy/budgets/_filter.py",
        "total.squared_mu <= limits.max_squared_mu",
        "total.squared_mu <= 2 * limits.max_squared_mu",
        ("privacy/test_filter.py",),
    ),
    Fault(
        "a budget that is fixed beforehand looks at each release alone",
        "privacy/budgets/_filter.py",
        "composed = recorded.event(account, event)",
        "composed = event",
        ("privacy/test_budget.py",),
    ),
    Fault(
        "a budget admits releases about other neighbours",
        "privacy/budgets/_budget.py",
        "unit_and_relation([guarantee, *self._account.guarantees()])",
        "unit_and_relation([guarantee])",
        ("privacy/test_budget.py",),
    ),
    Fault(
        "what a task releases after its part of the data has ended counts for the part",
        "privacy/budgets/_open.py",
        "for branch in BRANCHES.get() if branch.is_open",
        "for branch in BRANCHES.get()",
        ("privacy/test_budget.py",),
    ),
    Fault(
        "a forked process spends from a copy of the budget",
        "privacy/budgets/_ledger.py",
        "if self.mark.process != process_name():",
        "if False:",
        ("privacy/test_budget_processes.py::test_forks_refuse",),
    ),
    Fault(
        "a budget for users forgets that their ids were published",
        "privacy/budgets/_budget.py",
        "self._publishers.append(label)",
        "pass",
        ("privacy/test_budget.py",),
    ),
    Fault(
        "a budget charges two calls once",
        "privacy/budgets/_filter.py",
        "self.direct_totals = self.direct_totals + totals",
        "self.direct_totals = self.direct_totals | totals",
        ("privacy/test_budget.py",),
    ),
    Fault(
        "what was spent shows two equal releases as one",
        "privacy/budgets/_filter.py",
        "(name, guarantee, last[2] + 1)",
        "(name, guarantee, last[2])",
        ("privacy/test_budget.py",),
    ),
    Fault(
        "a fit may reveal more than was planned for it and charged",
        "privacy/budgets/_reserved.py",
        "for share in _CHECKED]",
        "for share in ()]",
        ("model_selection/test_private_search_accounting.py",),
    ),
    Fault(
        "the best of several tries costs what one try does",
        "privacy/accounting/_selection.py",
        "self.distribution.mean * self.delta_of_try(",
        "self.delta_of_try(",
        ("privacy/test_selection.py",),
    ),
    Fault(
        "a message hides among one more than there are",
        "privacy/accounting/_shuffling.py",
        "    values, blanket = pair.summands(epsilon)",
        "    n_messages += 1; values, blanket = pair.summands(epsilon)",
        ("privacy/test_shuffling.py",),
    ),
    Fault(
        "every randomizer has the blanket of binary response",
        "privacy/accounting/_shuffling.py",
        "np.full(2, small / 2)",
        "np.full(2, small / (1 + small))",
        ("privacy/test_shuffling.py",),
    ),
    Fault(
        "shuffled messages are compared in one direction alone",
        "privacy/accounting/_shuffling.py",
        "in permutations(rows, 2):",
        "in list(permutations(rows, 2))[:1]:",
        ("privacy/test_shuffling.py",),
    ),
    Fault(
        "shuffled messages come from an ideal sampler",
        "privacy/accounting/_shuffling.py",
        "math.exp(epsilon - 2 * self.error)",
        "math.exp(epsilon)",
        ("privacy/test_shuffling.py",),
    ),
    Fault(
        "a bit hides among one more than there are",
        "privacy/accounting/_shuffled_bits.py",
        "self.n_counted - 1)",
        "self.n_counted)",
        ("privacy/test_shuffling.py",),
    ),
    Fault(
        "of the people who may hold either bit, none is left out",
        "privacy/accounting/_shuffled_bits.py",
        "left_out = min(width - 1, n_others - first)",
        "left_out = 0",
        ("privacy/test_shuffling.py",),
    ),
    Fault(
        "shuffled bits are compared in one direction alone",
        "privacy/accounting/_shuffled_bits.py",
        "{self.least, self.least[::-1]}",
        "{self.least}",
        ("privacy/test_shuffling.py",),
    ),
    Fault(
        "of several pairs of messages, one is kept that is not the worst",
        "privacy/accounting/_shuffling.py",
        "pair.summands(epsilon) for pair in pairs",
        "pair.summands(epsilon + 2 * pair.error) for pair in pairs",
        ("privacy/test_shuffling.py",),
    ),
    Fault(
        "shuffled bits come from an ideal sampler",
        "privacy/accounting/_shuffling.py",
        "(pair.blanket * math.exp(-pair.error)).tolist()",
        "(pair.blanket * math.exp(-_PROBABILITY_ERROR)).tolist()",
        ("privacy/test_shuffling.py",),
    ),
    Fault(
        "what other people's messages reveal is not in delta",
        "privacy/accounting/_shuffling.py",
        "(1 + share)\n    return",
        "0\n    return",
        ("privacy/test_shuffling.py",),
    ),
    Fault(
        "any guarantee may be shuffled",
        "privacy/_shuffled.py",
        "if not guarantee.local:",
        "if False:",
        ("privacy/test_shuffling.py",),
    ),
    Fault(
        "of all tries, the sampler of one alone may be off its law",
        "privacy/accounting/_curves.py",
        "count * distribution.mean * d1",
        "count * d1",
        ("privacy/test_filter.py",),
    ),
    Fault(
        "a random number of tries costs one pure epsilon less",
        "privacy/accounting/_repetitions.py",
        "return (self.eta + 1) *",
        "return self.eta *",
        ("privacy/test_selection.py",),
    ),
    Fault(
        "an epsilon by Rényi divergences forgets half of its delta",
        "privacy/accounting/_renyi_bound.py",
        "log_share = (math.log(delta) + math.log(order)) / (order - 1)",
        "log_share = (math.log(delta) / 2 + math.log(order)) / (order - 1)",
        ("privacy/test_sampled_accounting.py",),
    ),
    Fault(
        "a delta by Rényi divergences is that of a tenth of the releases",
        "privacy/accounting/_renyi_bound.py",
        "excess = divergence - epsilon + math.log1p(-1 / order)",
        "excess = divergence / 10 - epsilon + math.log1p(-1 / order)",
        ("privacy/test_sampled_accounting.py",),
    ),
    Fault(
        "the Rényi divergence of Gaussian noise is halved",
        "privacy/accounting/_renyi_bound.py",
        "order * composition.mu**2 / 2",
        "order * composition.mu**2 / 4",
        ("privacy/test_filter.py", "privacy/test_selection.py"),
    ),
    Fault(
        "the odds of PrivUnit's cap are those of twice the epsilon",
        "privacy/calibration/_privunit.py",
        "return self.epsilon + self.log_mass",
        "return 2 * self.epsilon + self.log_mass",
        ("privacy/test_privunit.py",),
    ),
    Fault(
        "keeping a level reveals half of what it does",
        "privacy/accounting/_randomized_response.py",
        "math.log1p(keep * self.mass / (1 - keep))",
        "math.log1p(keep * self.mass / (1 - keep) / 2)",
        ("privacy/test_randomized_response.py",),
    ),
    Fault(
        "a table of levels is accounted for by its best symbol",
        "privacy/accounting/_pld.py",
        "ratio = max(Fraction(max(c), min(c)) for c in columns if any(c))",
        "ratio = min(Fraction(max(c), min(c)) for c in columns if any(c))",
        ("privacy/test_accounting.py",),
    ),
    Fault(
        "levels are randomised by a table that exceeds its budget",
        "privacy/calibration/_table.py",
        "return max(math.log1p((high - low) / low)",
        "return min(math.log1p((high - low) / low)",
        ("privacy/test_table.py",),
    ),
    Fault(
        "a report counts the fits of a search once",
        "privacy/_searches.py",
        "return ((n_splits - tested, tested),)",
        "return ((1, tested),)",
        ("privacy/test_report_counts.py",),
    ),
    Fault(
        "a report leaves out what is transformed to be scored",
        "privacy/_searches.py",
        "train * trained + test * scored",
        "train * trained",
        ("privacy/test_report_counts.py",),
    ),
    Fault(
        "a report leaves out the refit of a search",
        "privacy/_parts.py",
        "        findings.add(refit)",
        "",
        ("privacy/test_report_counts.py",),
    ),
    Fault(
        "a search counts the residual of the fitted samples' length for longer ones",
        "mechanisms/_gaussian_noise.py",
        "largest = max(largest_residual(most, residual.delta), residual.epsilon)",
        "largest = residual.epsilon",
        ("privacy/test_report_counts.py",),
    ),
    Fault(
        "a search takes a curve without an epsilon for that of other samples",
        "mechanisms/_base.py",
        "return replace(guarantee, event=dp_event.NonPrivateDpEvent())",
        "return guarantee",
        ("privacy/test_report_counts.py",),
    ),
    Fault(
        "a report forgets which guarantees cover the targets",
        "privacy/_parts.py",
        'return "Xy" if has_targets else "X"',
        'return "X"',
        ("privacy/test_report.py",),
    ),
    Fault(
        "a report takes codes for samples of the same shape",
        "privacy/_parts.py",
        'decoded = getattr(step, "output", "decoded") == "decoded"',
        "decoded = True",
        ("privacy/test_report.py",),
    ),
    Fault(
        "a plan for moments of one shape is taken for all",
        "moments/_base.py",
        "        return self._planned_guarantee(None)",
        "        return guarantee",
        ("privacy/test_report.py",),
    ),
    Fault(
        "raw columns beside noisy ones are taken for noisy",
        "privacy/_parts.py",
        "findings.noisy &= inner.noisy",
        "findings.noisy |= inner.noisy",
        ("privacy/test_report.py",),
    ),
    Fault(
        "a report adds up one release of each kind",
        "privacy/_report.py",
        "guarantee if count == 1 else guarantee.repeated(count)",
        "guarantee",
        ("privacy/test_report_counts.py",),
    ),
]

OF_MECHANISMS = [
    Fault(
        "a fit that reads the range off the samples is not recorded",
        "mechanisms/_base.py",
        "            self._record(guarantee)",
        "            pass",
        ("privacy/test_budget.py", "contracts/test_mechanisms.py"),
    ),
    Fault(
        "a range that was read off the samples does not void the guarantee",
        "mechanisms/_base.py",
        "event = dp_event.NonPrivateDpEvent()",
        "pass",
        ("contracts/test_mechanisms.py",),
    ),
    Fault(
        "the neighbours of a declared sensitivity are called replaced records",
        "mechanisms/_base.py",
        "relation = CALLERS_RELATION",
        "pass",
        ("contracts/test_mechanisms.py",),
    ),
    Fault(
        "Laplace noise is for half the diameter of a ball",
        "mechanisms/_iid.py",
        "l1=domain.l1",
        "l1=domain.l1 / 2",
        ("mechanisms/test_guarantees.py",),
    ),
    Fault(
        "Gaussian noise on a box is for one of its entries",
        "mechanisms/_gaussian_noise.py",
        "return min(domain.width * math.sqrt(n), diameter)",
        "return min(domain.width, diameter)",
        ("mechanisms/test_guarantees.py",),
    ),
    Fault(
        "correlated noise is for half the sensitivity of a box",
        "mechanisms/_gaussian_noise.py",
        "bounds.append(math.sqrt(float(total)))",
        "bounds.append(math.sqrt(float(total)) / 2)",
        ("mechanisms/test_guarantees.py",),
    ),
    Fault(
        "samples are not clipped to their ball",
        "mechanisms/_noise.py",
        "ball = None if self.domain.norm_bound is None else self.domain",
        "ball = None",
        ("contracts/test_mechanisms.py", "hardening/test_clip_then_round.py"),
    ),
    Fault(
        "all tiles of a call share their noise",
        "mechanisms/_noise.py",
        "None if streams is None else streams.stream(number)",
        "None if streams is None else streams.stream(0)",
        ("contracts/test_mechanisms.py",),
    ),
    Fault(
        "all parts of a call share their correlated noise",
        "mechanisms/_noise.py",
        "number += 1",
        "number += 0",
        ("contracts/test_mechanisms.py",),
    ),
    Fault(
        "the noise of structured mechanisms is for twice the epsilon",
        "mechanisms/_structured.py",
        "noise = diagonal_noise(domain, sigma, epsilon, delta, rescale=True)",
        "noise = diagonal_noise(domain, sigma, 2 * epsilon, delta, rescale=True)",
        ("mechanisms/test_guarantees.py",),
    ),
    Fault(
        "the strategy of linear queries is answered for half its sensitivity",
        "mechanisms/_matrix_mechanism.py",
        "self.sensitivity * longest,",
        "self.sensitivity * longest / 2,",
        ("mechanisms/test_matrices.py",),
    ),
    Fault(
        "the hybrid mechanism counts one of the entries that it shows",
        "mechanisms/_hybrid.py",
        "SelfComposedDpEvent(entry_event, randomizer.n_sampled)",
        "SelfComposedDpEvent(entry_event, 1)",
        ("mechanisms/test_hybrid.py",),
    ),
    Fault(
        "PrivUnit leaves out how far its sampler is from its law",
        "mechanisms/_privunit.py",
        "return self.design.epsilon + self.residual",
        "return self.design.epsilon",
        ("mechanisms/test_privunit.py", "hardening/test_float_edges.py"),
    ),
    Fault(
        "all parts of a call share PrivUnit's directions",
        "mechanisms/_privunit.py",
        "self.cap.estimates(self._lifted(block), bits)",
        "self.cap.estimates(self._lifted(block), streams.stream(0))",
        ("contracts/test_mechanisms.py",),
    ),
    Fault(
        "entries with weights are accounted for by the least kept of them",
        "mechanisms/_levels.py",
        "float(keeps[group == g].max())",
        "float(keeps[group == g].min())",
        (
            "mechanisms/test_randomized_response.py::TestGuarantee"
            "::test_many_weights_are_accounted_for_from_above",
        ),
    ),
    Fault(
        "levels are kept more often than the law says",
        "mechanisms/_responses.py",
        "bernoulli(bits, self.thresholds[kinds], _KEEP_TOTAL, levels.shape)",
        "bernoulli(bits, self.thresholds[kinds], _KEEP_TOTAL // 2, levels.shape)",
        ("mechanisms/test_randomized_response.py::TestLaw",),
    ),
    Fault(
        "the published response is said to show nothing as it is",
        "papers/_yuan_2025.py",
        "revealed = max(-math.expm1(log_hidden), _LEAST_REVEALED)",
        "revealed = 0.0",
        ("papers/test_yuan_2025.py",),
    ),
    Fault(
        "all chunks of Dask share their noise",
        "mechanisms/_chunks.py",
        "self.streams.step(number)",
        "self.streams.step(0)",
        ("with_dask/test_lazy_transforms.py",),
    ),
]

OF_ENCODERS = [
    Fault(
        "codes are not moved into their ball",
        "encoding/_code_noise.py",
        "block /= np.maximum(norms, 1.0)[:, np.newaxis]",
        "pass",
        ("hardening/test_clip_then_round.py::test_clipped_codes_are_in_the_unit_ball",),
    ),
    Fault(
        "Laplace noise on codes is for half their diameter",
        "encoding/_code_noise.py",
        "l1=ball.diameter",
        "l1=ball.diameter / 2",
        ("hardening/test_float_edges.py", "encoding/test_encoders.py"),
    ),
    Fault(
        "the published encoder is said to be private",
        "papers/_cheng_2022.py",
        "from dp_accounting.dp_event import NonPrivateDpEvent\n\n    lattice",
        "from ..privacy.accounting._events import PureDpEvent\n\n"
        "    NonPrivateDpEvent = lambda: PureDpEvent(epsilon)\n    lattice",
        ("encoding/test_encoders.py",),
    ),
    Fault(
        "K-norm noise is accounted for by half the diameter",
        "encoding/_knorm.py",
        "return 2 * (1 + (self.n_entries + 8) * _EPS)",
        "return 1 + (self.n_entries + 8) * _EPS",
        ("encoding/test_knorm.py",),
    ),
    Fault(
        "K-norm noise is half as large",
        "encoding/_knorm.py",
        "radius *= self.scale / self.step",
        "radius *= self.scale / self.step / 2",
        ("encoding/test_knorm.py",),
    ),
    Fault(
        "an encoder keeps the rows that it was fitted to",
        "encoding/_base.py",
        "_fitted_shape=array.shape[1:],",
        "_fitted_shape=array.shape[1:], rows_=rows,",
        (
            "hardening/test_leaks.py::test_rows_that_an_encoder_learned_from_are_not_kept",
        ),
    ),
    Fault(
        "a report takes an encoder in a pipeline for one fitted to public data",
        "privacy/_parts.py",
        "findings.learners.append(name)",
        "pass",
        ("contracts/test_encoders.py",),
    ),
    Fault(
        "users are divided by their rank among those who are there",
        "model_selection/_holdout.py",
        "return parts(hashes([users], seed), self.n_splits) == number",
        "return np.unique(users, return_inverse=True)[1] % self.n_splits == number",
        ("model_selection/test_folds.py",),
    ),
    Fault(
        "the side of an id follows from the type of its column",
        "_sides.py",
        "return _words_of_numbers(array)\n",
        "return array.astype(np.int64).view(np.uint64)\n",
        ("model_selection/test_ids.py",),
    ),
    Fault(
        "an id that is no number turns all ids of a list into text",
        "_sides.py",
        'dtype=None if hasattr(values, "__array__") else object)',
        "dtype=None)",
        ("model_selection/test_ids.py",),
    ),
    Fault(
        "text of a number has another side than the number",
        "_sides.py",
        "id_ = _WRITTEN.get(id_.lower(), id_)",
        "return None",
        ("model_selection/test_ids.py",),
    ),
    Fault(
        "equal objects are on several sides if they look different",
        "_sides.py",
        'return f"object {hash(id_)}"',
        'return f"object {id_}"',
        ("model_selection/test_ids.py",),
    ),
    Fault(
        "a report counts one training set too few",
        "model_selection/_holdout.py",
        "return int(self.n_splits) - (unit == self.mode)",
        "return int(self.n_splits) - 1",
        ("model_selection/test_folds.py",),
    ),
    Fault(
        "a report counts folds by position where users are protected",
        "privacy/_searches.py",
        "                return _OTHERS_MOVE.format(name)",
        "                return ((n_splits, 0),)",
        ("model_selection/test_folds.py",),
    ),
    Fault(
        "a report counts folds that follow from the protected values",
        "privacy/_searches.py",
        "if name in _STRATIFIED and (protects_y or name not in _TEST_ONCE):",
        "if name in _STRATIFIED and name not in _TEST_ONCE:",
        ("model_selection/test_folds.py",),
    ),
    Fault(
        "a report counts halving searches that draw rows",
        "privacy/_searches.py",
        "        if self.draws_rows:",
        "        if False:",
        ("model_selection/test_folds.py",),
    ),
    Fault(
        "a scorer folds in entries by their position",
        "completion/_scoring.py",
        "below(hashes(columns_of(X), self.random_state), self.history)",
        "np.random.default_rng(0).random(len(y)) < self.history",
        ("model_selection/test_folds.py",),
    ),
    Fault(
        "a data set without entries is refused where users are protected",
        "completion/_checks.py",
        "ensure_min_samples=0 if may_be_empty(estimator) else 1,",
        "ensure_min_samples=1,",
        ("completion/test_units.py",),
    ),
    Fault(
        "two processes answer with the noise of one party",
        "completion/_parties.py",
        "if self._process not in (None, process_name()):",
        "if False:",
        ("completion/test_parties.py",),
    ),
    Fault(
        "a private search does not know that encoders learn from raw samples",
        "encoding/_base.py",
        "_learns_in_fit = True",
        "_learns_in_fit = False",
        ("model_selection/test_private_search_candidates.py",),
    ),
    Fault(
        "a client draws with the key of the release before",
        "_client.py",
        "as streams:\n",
        "as streams:\n"
        "            streams = vars(self).setdefault('_sent', streams.sent())\n",
        ("hardening/test_noise_reuse.py::test_copies_of_a_client_share_no_noise",),
    ),
]

KEPT = f"{'':16}self._fitted = fitted\n"
DRAWN = f"{'':16}randomized = randomizer.randomize(entries.values, noise)\n"

OF_COMPLETION = [
    Fault(
        "observations in place of a table's outputs do not grow with what is unknown",
        "tensor/_likelihood.py",
        "(expected - m) / share[:, np.newaxis]",
        "(expected - m)",
        ("tensor/test_likelihood.py",),
    ),
    Fault(
        "the levels of a table are taken to be equally frequent",
        "tensor/_likelihood.py",
        "self._weights * ratio",
        "self._weights",
        ("tensor/test_likelihood.py",),
    ),
    Fault(
        "the stated noise is that of what replaced the randomised values",
        "completion/measurements/_residual_variance.py",
        "        model = _restated(model, known, randomizer.noise_variance, noise)\n",
        "",
        ("completion/test_uncertainty.py",),
    ),
    Fault(
        "all blocks of values share their noise",
        "completion/_values.py",
        "self._draw_block(filled, streams.stream(block))",
        "self._draw_block(filled, streams.stream(0))",
        ("completion/test_input.py",),
    ),
    Fault(
        "the range of a value counts half",
        "completion/_values.py",
        "LatticeLaplaceDpEvent.of(mechanism, mechanism.n_steps)",
        "LatticeLaplaceDpEvent.of(mechanism, mechanism.n_steps // 2)",
        ("completion/test_input.py", "hardening/test_float_edges.py"),
    ),
    Fault(
        "a range that was read off the values does not void the guarantee",
        "completion/_values.py",
        "void_for = None if domain.is_declared else float(epsilon)",
        "void_for = None",
        (
            "completion/test_streams.py"
            "::test_a_range_read_off_the_values_stays_read_off",
        ),
    ),
    Fault(
        "values off the levels enter sums as they are",
        "completion/measurements/_sums.py",
        "clipped = self.domain.clip(values.astype(float))",
        "clipped = values.astype(float)",
        ("completion/test_sums.py",),
    ),
    Fault(
        "a value beyond the range counts for more steps than the noise is for",
        "completion/measurements/_sums.py",
        "return np.clip(steps, 0, self.lattice.n_steps)",
        "return steps",
        ("completion/test_sums.py",),
    ),
    Fault(
        "sums of many entries have more steps than floats count",
        "measure/_noisy_sums.py",
        "math.log2(2 * n_entries / _LARGEST_INTEGER)",
        "math.log2(n_entries / 8 / _LARGEST_INTEGER)",
        ("completion/test_noisy_sums.py",),
    ),
    Fault(
        "the noise of sums is half as large",
        "completion/measurements/_sums.py",
        "streams.stream(block), (lattice.numerator,",
        "streams.stream(block), (2 * lattice.numerator,",
        ("completion/test_sums.py",),
    ),
    Fault(
        "a value that is in a sum of every mode is counted once",
        "completion/measurements/_sums.py",
        "LatticeLaplaceDpEvent.of(lattice, lattice.n_steps), n_modes",
        "LatticeLaplaceDpEvent.of(lattice, lattice.n_steps), 1",
        ("completion/test_noisy_sums.py",),
    ),
    Fault(
        "many Gaussian releases are accounted for as one",
        "measure/_noisy_sums.py",
        "distance / lattice.sigma * math.sqrt(n_releases)",
        "distance / lattice.sigma",
        ("completion/test_noisy_sums.py",),
    ),
    Fault(
        "many Laplace releases are accounted for as one",
        "measure/_noisy_sums.py",
        "LatticeLaplaceDpEvent.of(lattice, lattice.l1_steps), n_releases",
        "LatticeLaplaceDpEvent.of(lattice, lattice.l1_steps), 1",
        ("completion/test_noisy_sums.py",),
    ),
    Fault(
        "gradients are not clipped",
        "completion/measurements/_gradient.py",
        "clipped = np.clip(residual * length / self.clip, -1.0, 1.0)",
        "clipped = residual * length / self.clip",
        ("completion/test_gradient.py",),
    ),
    Fault(
        "gradients are twice as long as the noise is for",
        "completion/measurements/_gradient.py",
        "weights[chunk] = clipped / (2 * length)",
        "weights[chunk] = clipped / length",
        ("completion/test_gradient.py",),
    ),
    Fault(
        "one of all iterations is accounted for",
        "completion/measurements/_gradient.py",
        "n_releases=problem.max_iter,",
        "n_releases=1,",
        ("completion/test_gradient.py",),
    ),
    Fault(
        "all iterations share their noise",
        "completion/measurements/_gradient.py",
        "descent.contributions(residuals), streams_of and streams_of(step)",
        "descent.contributions(residuals), streams_of and streams_of(1)",
        ("completion/test_noisy_sums.py", "completion/test_gradient.py"),
    ),
    Fault(
        "residuals are not clipped",
        "completion/measurements/_statistics.py",
        "return np.clip(residuals / self.clip, -1.0, 1.0)",
        "return residuals / self.clip",
        ("completion/test_blocks.py",),
    ),
    Fault(
        "weights that rounding lengthens are not cut off",
        "completion/measurements/_statistics.py",
        "return weighted / excess[:, np.newaxis]",
        "return weighted",
        ("completion/test_blocks.py",),
    ),
    Fault(
        "right-hand sides of regressions are twice as long as the noise is for",
        "completion/measurements/_statistics.py",
        "np.where(longest > 0, 2 * longest, 1.0)",
        "np.where(longest > 0, longest, 1.0)",
        ("completion/test_blocks.py",),
    ),
    Fault(
        "guarantees for users are said to be about replaced ones",
        "completion/measurements/_units.py",
        'delta=delta,\n        unit=unit,\n        relation="add-or-remove"',
        'delta=delta,\n        unit=unit,\n        relation="replace-one"',
        (
            "contracts/test_measurements.py::test_the_guarantee_is_stated_before_any_data_are_seen",
        ),
    ),
    Fault(
        "a shape that was read off the coordinates does not void what protects users",
        "completion/_problem.py",
        "    return is_public\n",
        "    return True\n",
        (
            "contracts/test_measurements.py::test_what_is_not_declared_voids_the_guarantee",
        ),
    ),
    Fault(
        "factors of the protected users are published",
        "completion/_base.py",
        "factors[unit] = None",
        "pass",
        ("completion/test_units.py",),
    ),
    Fault(
        "releases about users forget what earlier ones spent",
        "completion/_releases.py",
        "self._used += math.fsum(",
        "self._used = math.fsum(",
        ("completion/test_units.py",),
    ),
    Fault(
        "all releases about users share their noise",
        "completion/_releases.py",
        "self._n_releases += 1",
        "pass",
        ("completion/test_units.py",),
    ),
    Fault(
        "what a user contributes is twice as long as its share of the budget",
        "completion/_releases.py",
        "            math.sqrt(self.share),\n            self.step,",
        "            2 * math.sqrt(self.share),\n            self.step,",
        ("completion/test_units.py",),
    ),
    Fault(
        "the rows of protected users leave the process in a pickle",
        "completion/_local.py",
        "class LocalRows(Local):\n",
        "class LocalRows(Local):\n    __reduce__ = object.__reduce__\n\n",
        ("completion/test_units.py",),
    ),
    Fault(
        "where protected users have entries is kept",
        "completion/_fitted.py",
        "observed=(), local",
        "observed=(entries.without_values(),), local",
        ("completion/test_units.py",),
    ),
    Fault(
        "answers from own rows are for everybody",
        "completion/_own_rows.py",
        "return guarantee.under(OWN_ANSWERS) if guarantee.protects else guarantee",
        "return guarantee",
        OWN_ROWS,
    ),
    Fault(
        "values without noise are stored",
        "completion/_own_rows.py",
        "NoisyValues(kept, noise) if is_noisy else LocalValues(kept, noise)",
        "NoisyValues(kept, noise)",
        OWN_ROWS,
    ),
    Fault(
        "later entries leave others the factors of before",
        "completion/_fitted.py",
        "local.model is None or local.model.released is not self.model",
        "local.model is None",
        OWN_ROWS,
    ),
    Fault(
        "a tensor is completed from own rows",
        "completion/_own_rows.py",
        "        return self.released.dense()\n",
        "        import numpy as np\n\n"
        "        shape = self.released.shape\n"
        "        where = np.indices(shape).reshape(len(shape), -1).T\n"
        "        return self.predict(where).reshape(shape)\n",
        OWN_ROWS,
    ),
    Fault(
        "an index beyond the shape is known if another one is",
        "completion/_checks.py",
        "    others[is_new, 0] = 0\n",
        "    others[:, 0] *= not is_new.size\n",
        OWN_ROWS,
    ),
    Fault(
        "a private search scores predictions from raw values",
        "model_selection/_private_search.py",
        'if getattr(step, "personal", False) and step.unit == "entry":',
        "if False:",
        OWN_ROWS,
    ),
    Fault(
        "similar items are read off users' own rows",
        "completion/_fitted.py",
        "people = self.model.directions(self.domain.scale)",
        "people = self.answering.inner",
        ("completion/test_answers_to_others.py",),
    ),
    Fault(
        "which items users have observed is pickled once it was looked up",
        "completion/_local.py",
        "class Lookups(Local):",
        "class Lookups:",
        ("completion/test_item_lists.py",),
    ),
    Fault(
        "the number of synthetic users is the true one",
        "completion/_implicit.py",
        "UserSampler.of_choices(sums, model)",
        "UserSampler.of_choices(\n"
        "                replace(\n"
        "                    sums,\n"
        "                    population=replace(\n"
        "                        sums.population, n_users=float(len(choices.users))\n"
        "                    ),\n"
        "                ),\n"
        "                model,\n"
        "            )",
        SYNTHETIC,
    ),
    Fault(
        "a user counts twice in the histogram of numbers of choices",
        "completion/_cooccurrence.py",
        "    return math.floor(length) * bins.astype(float)\n",
        "    return 2 * math.floor(length) * bins.astype(float)\n",
        ("completion/test_implicit.py",),
    ),
    Fault(
        "the report does not list lengths that a caller passed",
        "completion/_implicit.py",
        "self._fitted.has_public_lengths:",
        "False:",
        SYNTHETIC,
    ),
    Fault(
        "a synthetic user chooses an item twice",
        "tensor/kernels/_drawn.py",
        "                sums[row] = -np.inf\n",
        "",
        SYNTHETIC,
    ),
    Fault(
        "which rows count as unknown is read off exact counts of users' entries",
        "completion/measurements/_unit_first.py",
        "    return [\n        _read(noisy[:, 0], error, whole)\n",
        "    from dataclasses import replace\n\n"
        "    from .._releases import contribute\n\n"
        "    exact = iter(units.summed(contribute, question)[0])\n"
        "    return [\n"
        "        replace(_read(noisy[:, 0], error, whole), known=next(exact)[:, 0])\n",
        ("completion/test_answers_to_others.py", "hardening/test_replay.py"),
    ),
    Fault(
        "the average row of all users is part of what one of them is told",
        "completion/_shared_model.py",
        "counts = [None, *self.counts]",
        "counts = [np.ones(len(rows)), *self.counts]",
        ("completion/test_answers_to_others.py",),
    ),
    Fault(
        "the mean of the raw values is kept in an attribute",
        "completion/_fitted.py",
        '"n_iter": outcome.n_iter,',
        '"n_iter": [outcome.n_iter, entries.values.mean()],',
        ("hardening/test_leaks.py",),
    ),
    Fault(
        "a client that adds no noise is not recorded",
        "completion/_client.py",
        "with self._release(self.privacy_guarantee_, draws=False):",
        "with self._release(self.privacy_guarantee_, recorded=True):",
        ("completion/test_client.py",),
    ),
    Fault(
        "clients randomise single values where users are to be protected",
        "completion/_base.py",
        "return is_input and self._unit is None",
        "return is_input",
        ("completion/test_client.py",),
    ),
    Fault(
        "what a user adds to counts grows with the user's choices",
        "completion/_cooccurrence.py",
        "_length(sums) / np.sqrt(choices.sizes)",
        "_length(sums) / np.sqrt(np.minimum(choices.sizes, 1))",
        ("completion/test_implicit.py",),
    ),
    Fault(
        "what a user adds to co-occurrences is as long as it is",
        "tensor/kernels/_choices.py",
        "scale / max(length, least)",
        "scale / least",
        ("completion/test_implicit.py",),
    ),
    Fault(
        "the diagonal of co-occurrences is not part of their length",
        "tensor/kernels/_choices.py",
        "(square * square - powers) / 2 + diagonal * diagonal * powers",
        "(square * square - powers) / 2",
        ("completion/test_implicit.py",),
    ),
    Fault(
        "the diagonal of co-occurrences is released whole and counted by half",
        "completion/_products.py",
        " rounded(limbs[:, on_diagonal], shift + _DIAGONAL_BITS)",
        " rounded(limbs[:, on_diagonal], shift)",
        ("completion/test_implicit.py",),
    ),
    Fault(
        "the diagonal of many users exceeds 64 bits",
        "completion/_products.py",
        "2 ** (63 - _CELL_BITS - _DIAGONAL_BITS)",
        "2 ** (63 - _CELL_BITS)",
        ("completion/test_implicit.py",),
    ),
    Fault(
        "half of the diagonal is not given back",
        "completion/_products.py",
        "*= 2**_DIAGONAL_BITS",
        "*= 1",
        ("completion/test_implicit.py",),
    ),
    Fault(
        "users with few choices weigh more than the floor allows",
        "completion/_cooccurrence.py",
        "_LEAST_LENGTH = 1.0",
        "_LEAST_LENGTH = 1e-3",
        ("completion/test_implicit.py",),
    ),
    Fault(
        "the true number of users decides which items take part",
        "completion/_cooccurrence.py",
        "        totals.n_users,\n",
        "        float(len(choices.users)),\n",
        ("completion/test_implicit.py",),
    ),
    Fault(
        "the number of users has no say in how many items take part",
        "completion/_cooccurrence.py",
        "np.sqrt(n_users / products_noise)",
        "np.sqrt(1e9 / products_noise)",
        ("completion/test_implicit.py",),
    ),
    Fault(
        "items take part that nobody chose",
        "completion/_cooccurrence.py",
        "min(_n_real(counts, counts_noise), most)",
        "min(len(counts), most)",
        ("completion/test_implicit.py",),
    ),
    Fault(
        "items take part although noise hides their co-occurrences",
        "completion/_cooccurrence.py",
        "int(m[best]) if value[best] > 0 else 0",
        "int(m[-1])",
        ("completion/test_implicit.py",),
    ),
    Fault(
        "a user's totals are longer than their share",
        "completion/_cooccurrence.py",
        "math.floor(length / math.sqrt(2))",
        "math.floor(length)",
        ("completion/test_implicit.py",),
    ),
    Fault(
        "counts and co-occurrences share their noise",
        "completion/_releases.py",
        "self._streams.step(self._n_releases)",
        "self._streams.step(0)",
        ("completion/test_implicit.py", "hardening/test_noise_reuse.py"),
    ),
    Fault(
        "the rounding of co-occurrences is not paid for",
        "completion/_cooccurrence.py",
        "n_changed=cells",
        "n_changed=1",
        ("completion/test_implicit.py",),
    ),
    Fault(
        "users' own choices travel in a pickle",
        "completion/_implicit.py",
        "class _LocalChoices(Local):\n",
        "class _LocalChoices(Local):\n    __reduce__ = object.__reduce__\n\n",
        ("completion/test_implicit.py", "hardening/test_leaks.py"),
    ),
    Fault(
        "the ids of users leave with a pickle, and the rows that they have",
        "completion/_local.py",
        "class LocalUsers(Local):\n",
        "class LocalUsers(Local):\n    __reduce__ = object.__reduce__\n\n",
        ("completion/test_recommender_privacy.py", "hardening/test_leaks.py"),
    ),
    Fault(
        "the ids of users are shown",
        "completion/_local.py",
        "        self._rows = rows or {}\n",
        "        self._rows = rows or {}\n\n"
        "    def __repr__(self):\n        return f'LocalUsers({self._rows})'\n",
        ("completion/test_recommender_privacy.py",),
    ),
    Fault(
        "an encoder learns which items protected users have chosen",
        "completion/_recommender.py",
        "        if encoder._publishes_ids:",
        "        if False:",
        ("completion/test_recommender.py",),
    ),
    Fault(
        "rows follow from the order of users, so that one moves others",
        "completion/_local.py",
        "bits.integers(first, N_RESERVED, size=len(waiting)).tolist()",
        "list(range(len(taken), len(taken) + len(waiting)))",
        ("completion/test_recommender.py",),
    ),
    Fault(
        "two users have one row",
        "completion/_local.py",
        "if row in taken:",
        "if False:",
        ("completion/test_recommender.py",),
    ),
    Fault(
        "unknown ids of protected users are told",
        "completion/_recommender.py",
        'if not n_unknown or completion.unit != "entry":',
        "if not n_unknown:",
        ("completion/test_recommender.py", "hardening/test_refusals.py"),
    ),
    Fault(
        "unknown ids of protected users are refused",
        "completion/_recommender.py",
        'if completion.unit != "entry" and self.unknown != "drop":',
        "if False:",
        ("completion/test_recommender.py",),
    ),
    Fault(
        "more users than a number are refused",
        "completion/_recommender.py",
        "            local = LocalUsers().joined_by(users[0])",
        "            if users and len({*users[0]}) > 100:\n"
        '                raise ValueError("There are too many users.")\n'
        "            local = LocalUsers().joined_by(users[0])",
        ("hardening/test_refusals.py",),
    ),
    Fault(
        "one protected user with an id of another type is refused",
        "completion/_recommender.py",
        'by_type = completion.unit != "entry"\n        declared',
        "by_type = False\n        declared",
        ("hardening/test_refusals.py",),
    ),
    Fault(
        "an id of one protected user makes text of those of others",
        "completion/_recommender.py",
        'if completion.unit == "entry" or not isinstance(X, list | tuple):',
        "if True:",
        ("hardening/test_refusals.py",),
    ),
    Fault(
        "an empty list of protected rows is refused",
        "completion/_checks.py",
        "if shape is not None and is_empty_list(X):",
        "if False:",
        ("hardening/test_refusals.py",),
    ),
    Fault(
        "a private search over users needs so many rows",
        "model_selection/_private_search.py",
        "ensure_min_samples=folds if is_public else 0,",
        "ensure_min_samples=folds,",
        ("hardening/test_refusals.py",),
    ),
    Fault(
        "the true number of users decides whether a fit to ratings is noise",
        "completion/measurements/_unit_first.py",
        "n_units, offset, typical_size, offset_error, are_noise(total, error)",
        "n_units, offset, typical_size, offset_error, not len(units.units)",
        ("completion/test_noise_only.py",),
    ),
    Fault(
        "the true number of users decides whether a fit to choices is noise",
        "completion/_cooccurrence.py",
        'totals = _read_totals(first["totals"], *answers["totals"], choices.n_items)',
        'totals = _read_totals(first["totals"], *answers["totals"], choices.n_items)'
        "\n    object.__setattr__(totals, 'are_noise', not len(choices.users))",
        ("completion/test_noise_only.py",),
    ),
    Fault(
        "the owner's look at the data is possible inside of a budget",
        "completion/_check_table.py",
        "if OPEN.stack or current_reservation() is not None:",
        "if False:",
        ("completion/test_check_table.py",),
    ),
    Fault(
        "a bar shows how long the data of users took",
        "base.py",
        "with Sign(name, task, max_tasks, has_time=has_time) as sign:",
        "with Sign(name, task, max_tasks) as sign:",
        ("test_waiting.py",),
    ),
    Fault(
        "a private search shows how many tries it makes",
        "base.py",
        "is_secret = max_tasks is None or current_reservation() is not None",
        "is_secret = max_tasks is None",
        ("test_waiting.py",),
    ),
    Fault(
        "whether a protected user is there decides a warning about items",
        "completion/_recommender.py",
        "ids = asked[is_asked if self.hides_users else is_asked & (rows < 0)]",
        "ids = asked[is_asked & (rows < 0)]",
        ("first_hour/test_nothing_in_silence.py",),
    ),
    Fault(
        "entries of protected users decide a warning about the order of columns",
        "completion/_recommender.py",
        '        if completion.unit == "entry":\n            warn_of_many',
        "        if True:\n            warn_of_many",
        ("first_hour/test_nothing_in_silence.py",),
    ),
    Fault(
        "a private search over users warns of its tries",
        "completion/_likely_mistakes.py",
        "if are_noise and not (_is_search() or",
        "if are_noise and not (",
        ("completion/test_noise_only.py",),
    ),
    Fault(
        "two fits of a recommender with an integer share their noise",
        "completion/_recommender.py",
        "            completion._releases = self._count_releases()",
        "            pass",
        ("completion/test_recommender.py", "hardening/test_noise_reuse.py"),
    ),
    Fault(
        "a recommender that protects users answers with those of another copy",
        "completion/_recommender.py",
        "completion = copy.copy(fitted.completion)",
        "completion = fitted.completion",
        ("completion/test_recommender.py",),
    ),
    Fault(
        "a report of a recommender leaves out that ids are published",
        "privacy/_parts.py",
        "[(step, step if alone else None) for step in steps]",
        "[(step, step if alone else None) for step in steps[1:]]",
        ("completion/test_recommender.py",),
    ),
    Fault(
        "the sums of squares of a scaler are not accounted for",
        "papers/_biscaler.py",
        "[r.event for r in randomizers]",
        "[randomizers[0].event]",
        ("papers/test_biscaler.py",),
    ),
    Fault(
        "the sums of values and of squares share their noise",
        "papers/_scales.py",
        "streams.step(step)",
        "streams.step(0)",
        ("papers/test_biscaler.py",),
    ),
    Fault(
        "ids are published and no budget learns of it",
        "completion/_encoder.py",
        "            record_ids(name, unprotected, self._marks())",
        "            pass",
        ("privacy/test_budget.py",),
    ),
    Fault(
        "items rank the protected users who like them",
        "completion/_ranking.py",
        "if self._fitted.unit == 1:",
        "if False:",
        ("completion/test_answers_to_others.py", "completion/test_recommend.py"),
    ),
    Fault(
        "what one protected user has seen is left out for another",
        "completion/_fitted.py",
        "sorted({0, self.unit or 0}), self.extent",
        "[0], self.extent",
        ("completion/test_answers_to_others.py",),
    ),
    Fault(
        "a further call about the same entries is not counted",
        "completion/_fitted.py",
        "n_uses=max(self.n_uses, recurring)",
        "n_uses=self.n_uses",
        ("completion/test_streams.py",),
    ),
    Fault(
        "a call counts when its noise has been drawn, and not if it is interrupted",
        "completion/_base.py",
        KEPT + DRAWN,
        DRAWN + KEPT,
        ("completion/test_streams.py", "hardening/test_interruption.py"),
    ),
    Fault(
        "of two calls with different budgets the better one counts",
        "completion/_fitted.py",
        "first if first.epsilon >= second.epsilon else second",
        "first if first.epsilon <= second.epsilon else second",
        ("completion/test_streams.py",),
    ),
    Fault(
        "published claims that do not hold are stated as guarantees",
        "papers/_wei_2022.py",
        '    if name != "input":\n        return entry',
        '    if name == "none":\n        return entry',
        ("papers/test_wei_2022.py",),
    ),
    Fault(
        "all partitions of Dask begin with the same noise",
        "completion/_dask.py",
        "randomizer.draw(part.values, streams, start, first[-1])",
        "randomizer.draw(part.values, streams, 0, first[-1])",
        ("with_dask/test_completion.py",),
    ),
    Fault(
        "values of another frame, which Dask shuffles each time anew, are randomised",
        "completion/_partitions.py",
        "if not (X.known_divisions and y.known_divisions):",
        "if False:",
        ("with_dask/test_completion.py",),
    ),
    Fault(
        "entries that have changed since they were checked get the same noise",
        "completion/_dask.py",
        "if digest != digests[number]:",
        "if False:",
        ("with_dask/test_completion.py", "with_dask/test_users.py"),
    ),
    Fault(
        "partitions are recognised by their coordinates alone",
        "completion/_dask.py",
        "digest.update(np.ascontiguousarray(values).data)",
        "pass",
        ("with_dask/test_completion.py",),
    ),
    Fault(
        "what is drawn from the second partition on is in another order",
        "completion/_dask.py",
        'np.argsort(numbers, kind="stable")',
        'np.argsort(-numbers, kind="stable")',
        ("with_dask/test_completion.py", "with_dask/test_users.py"),
    ),
    Fault(
        "what users contribute elsewhere is added to what others have contributed",
        "completion/_releases.py",
        "totals = tuple(sums.zeros() for sums in question.sums)",
        "totals = vars(question).setdefault('_', [s.zeros() for s in question.sums])",
        ("with_dask/test_users.py", "completion/test_parties.py"),
    ),
    Fault(
        "a party answers a server that asks for more than the budget",
        "completion/_parties.py",
        "if used > 1 + 1e-10:",
        "if False:",
        ("completion/test_parties.py",),
    ),
    Fault(
        "a party answers a server with another epsilon",
        "completion/_requests.py",
        "    if difference:",
        "    if False:",
        ("completion/test_parties.py",),
    ),
    Fault(
        "the largest sum of parties has one bit too few",
        "completion/_releases.py",
        "return 1 + math.ceil(math.log2(ROUNDED_UP * self.largest(n_units) + 1))",
        "return math.ceil(math.log2(ROUNDED_UP * self.largest(n_units) + 1))",
        ("completion/test_parties.py",),
    ),
    Fault(
        "parties add half their shares of the noise",
        "completion/_noise_shares.py",
        "discrete_gaussian(streams.stream(block), self.scale, len(chunk))",
        "discrete_gaussian(streams.stream(block), self.scale // 2, len(chunk))",
        ("completion/test_noise_shares.py",),
    ),
    Fault(
        "noise is shared by parties that may drop out",
        "completion/_noise_shares.py",
        "math.sqrt(needed / shares.n_honest)",
        "math.sqrt(needed / shares.n_parties)",
        ("completion/test_noise_shares.py",),
    ),
    Fault(
        "a fit goes on although parties whose noise was planned are missing",
        "completion/_parties.py",
        "if not (is_whole and least <= n_answers <= most):",
        "if not (is_whole and 1 <= n_answers <= most):",
        ("completion/test_noise_shares.py",),
    ),
    Fault(
        "a party has the same noise in all releases",
        "completion/_parties.py",
        "streams = self._streams.step(request.number)",
        "streams = self._streams.step(0)",
        ("completion/test_noise_shares.py",),
    ),
    Fault(
        "two requests of one number get the same noise",
        "completion/_parties.py",
        "if self._hashes.get(number, found) != found:\n",
        "if self._answers.pop(number, None) is False:\n",
        ("completion/test_noise_shares.py",),
    ),
    Fault(
        "a party answers a server that counts on other noise",
        "completion/_parties.py",
        '"noise_shares": noise_shares and astuple(noise_shares),',
        '"noise_shares": noise_shares and 1,',
        ("completion/test_noise_shares.py",),
    ),
    Fault(
        "no budget learns of a party's noisy answers",
        "completion/_parties.py",
        "            self._record(self.privacy_guarantee_)\n",
        "",
        ("completion/test_noise_shares.py",),
    ),
    Fault(
        "discrete Gaussian noise is drawn by another density",
        "noise/_discrete.py",
        "lambda k: (denominator, 2 * denominator * k)",
        "lambda k: (denominator, denominator * k)",
        ("noise/test_discrete.py",),
    ),
    Fault(
        "the bound of a row is that of its last partition",
        "completion/measurements/_statistics.py",
        "longest[rows] = np.maximum(longest[rows], lengths)",
        "longest[rows] = lengths",
        ("with_dask/test_completion.py",),
    ),
    Fault(
        "what a user contributes is not scaled down to its bound",
        "tensor/kernels/_units.py",
        "factor = share / max(length, bound)",
        "factor = share / bound",
        ("tensor/test_units.py",),
    ),
    Fault(
        "a user's row is that of the user before in the stack",
        "tensor/kernels/_units.py",
        "shift[a] = shifts[a, k]",
        "shift[a] = shifts[a, max(k - 1, 0)]",
        ("tensor/test_units.py",),
    ),
    Fault(
        "what a user contributes depends on the user before",
        "tensor/kernels/_units.py",
        "                along[a] = 0.0\n",
        "                along[a] *= 1e-3\n",
        ("tensor/test_units.py",),
    ),
    Fault(
        "factors that have seen an entry are fitted to its residual",
        "completion/measurements/_unit_questions.py",
        "solved.residuals[:, np.newaxis] * solved.held_out",
        "solved.residuals[:, np.newaxis] * model.split(solved.rows)[2][numbers]",
        ("completion/test_units.py::test_a_rank_too_high_does_not_hurt",),
    ),
    Fault(
        "the rounding of products of users is not paid for",
        "completion/measurements/_units.py",
        "n_changed=products,",
        "n_changed=0,",
        ("completion/test_units.py",),
    ),
    Fault(
        "the rounding of products by parties is not paid for",
        "completion/_noise_shares.py",
        "ROUNDED_UP * (1 + self.step * math.sqrt(self.n_changed))",
        "ROUNDED_UP",
        ("completion/test_noise_shares.py",),
    ),
    Fault(
        "products of users are twice as long as their share of the budget",
        "completion/_products.py",
        "scale = math.sqrt(self.share) * BELOW_ONE",
        "scale = 2 * math.sqrt(self.share) * BELOW_ONE",
        ("completion/test_units.py", "completion/test_implicit.py"),
    ),
    Fault(
        "the true number of users decides whether a pattern is released",
        "completion/measurements/_unit_pattern.py",
        "_share(m, totals.n_units * np.maximum(coverage, 1e-300), releases.sigma)",
        "_share(m, len(units.units) * np.maximum(coverage, 1e-300), releases.sigma)",
        ("completion/test_parties.py",),
    ),
    Fault(
        "a party answers with more products than the noise was planned for",
        "completion/_parties.py",
        "if n_changed > noise.n_changed:",
        "if False:",
        ("completion/test_noise_shares.py",),
    ),
    Fault(
        "a party multiplies numbers that exceed 64 bits",
        "completion/_requests.py",
        "if shares.sum() > 2 ** (SHARE_BITS + 1):",
        "if False:",
        ("completion/test_requests.py",),
    ),
    Fault(
        "a party loads a request that is a pickle",
        "measure/_messages.py",
        "    fields = Fields.of_text(line, what, _LONGEST_LINE)",
        '    fields = Fields(__import__("pickle").loads(data), what)',
        ("completion/test_requests.py",),
    ),
    Fault(
        "a party takes NaN in a request for a number",
        "measure/_messages.py",
        "        if not np.all((found >= least) & (found <= most)):",
        "        if np.any((found < least) | (found > most)):",
        ("completion/test_requests.py",),
    ),
    Fault(
        "a party reads rows of a request that no entry can have",
        "completion/_requests.py",
        'rows = arrays.integers("rows", shape[0], n_rows - 1)',
        'rows = arrays.integers("rows", shape[0], 2**60)',
        ("completion/test_requests.py",),
    ),
    Fault(
        "a unit's vector is twice as long as its bound",
        "tensor/kernels/_units.py",
        "        factor = share / max(length, bound)",
        "        factor = 2 * share / max(length, bound)",
        ("completion/test_parties.py",),
    ),
    Fault(
        "what is known of users does not follow from the noise of their sums",
        "tensor/_shared_rows.py",
        "_VARIANCES = np.geomspace(0.0005, 0.25, 25)",
        "_VARIANCES = np.geomspace(0.05, 0.25, 25)",
        ("completion/test_units.py", "tensor/test_units.py"),
    ),
    Fault(
        "a later pass over users takes more than is left of the budget",
        "completion/measurements/_unit_rounds.py",
        "[_divided(blocks, (left - first) / FACTOR_PASSES)]",
        "[_divided(blocks, (left - first) / 5)]",
        ("completion/test_units.py",),
    ),
    Fault(
        "what a user contributes is rounded up beyond its bound",
        "tensor/kernels/_units.py",
        "added = np.trunc(added / step)",
        "added = np.rint(added / step)",
        ("tensor/test_units.py",),
    ),
    Fault(
        "rows are fitted to the sums of the last pass over users alone",
        "completion/measurements/_unit_rounds.py",
        "    if block in state.known:\n        drift = np.zeros(",
        "    if False:\n        drift = np.zeros(",
        ("completion/test_units.py",),
    ),
    Fault(
        'the expected error of "auto" is not that of what it would take',
        "completion/measurements/_unit_expected.py",
        "takes_factors = expectation.takes_factors",
        "takes_factors = not expectation.takes_factors",
        ("model_selection/test_expected_error.py",),
    ),
    Fault(
        "rows are expected to have more entries than cells",
        "completion/measurements/_unit_expected.py",
        "n_cells * -np.expm1(-math.exp(log_scale) * weights / n_cells)",
        "math.exp(log_scale) * weights",
        ("model_selection/test_expected_error.py",),
    ),
]

OF_SEARCHES = [
    Fault(
        "a try is charged for one of its fits",
        "model_selection/_plan.py",
        "compose(*[fit] * trained,",
        "compose(fit,",
        ("model_selection/test_private_search_accounting.py",),
    ),
    Fault(
        "a score is charged as if a record were scored once",
        "model_selection/_private_search.py",
        "l1=float(STEPS * max(tested for _, tested in uses))",
        "l1=float(STEPS)",
        (
            "model_selection/test_private_search.py",
            "model_selection/test_private_search_accounting.py",
        ),
    ),
    Fault(
        "the scores of all tries share their noise",
        "model_selection/_private_search.py",
        "streams.stream(number)",
        "streams.stream(1)",
        ("model_selection/test_private_search_accounting.py",),
    ),
    Fault(
        "the last fit of a search is not charged",
        "model_selection/_private_search.py",
        "replace(compose(chosen, fit), statement=statement)",
        "replace(chosen, statement=statement)",
        ("model_selection/test_private_search_accounting.py",),
    ),
    Fault(
        "a search keeps how many candidates it tried",
        "model_selection/_private_search.py",
        "self.best_params_, noisy, fitted = best",
        "self.best_params_, noisy, fitted = best; self.n_tries_ = n_tries",
        ("model_selection/test_private_search.py",),
    ),
    Fault(
        "scores are not clipped to their range",
        "model_selection/_scores.py",
        "np.clip(np.nan_to_num(scores, nan=low), low, high)",
        "np.nan_to_num(scores, nan=low)",
        ("model_selection/test_private_search.py",),
    ),
    Fault(
        "all entries of a user count in the score",
        "model_selection/_groups.py",
        "(STEPS - sums[occur] // counts[occur]).sum()",
        "(STEPS * counts[occur] - sums[occur]).sum()",
        ("model_selection/test_private_search_accounting.py",),
    ),
    Fault(
        "the score is divided by the true number of users",
        "model_selection/_groups.py",
        "n_held_out += n_fitted * split.share / (1 - split.share)",
        "n_held_out += len(np.unique(split.users))",
        ("model_selection/test_private_search_accounting.py",),
    ),
]

OF_AUDITS = [
    Fault(
        "a bound holds at three times the stated chance of error",
        "audit/_bounds.py",
        "return min(1.0, float(np.max(np.sum(chances * tails, axis=1))) + gamma)",
        "return min(1.0, float(np.max(np.sum(chances * tails, axis=1))) / 3)",
        ("audit/test_bounds.py",),
    ),
    Fault(
        "the error of the interval of a rate is not subtracted",
        "audit/_bounds.py",
        "return min(1.0, float(np.max(np.sum(chances * tails, axis=1))) + gamma)",
        "return min(1.0, float(np.max(np.sum(chances * tails, axis=1))))",
        ("audit/test_bounds.py",),
    ),
    Fault(
        "the delta of a claim weakens the bound from guesses by half as much",
        "audit/_bounds.py",
        "chance + 2 * n_canaries * delta * slack",
        "chance + n_canaries * delta * slack",
        ("audit/test_bounds.py",),
    ),
    Fault(
        "an audit counts the outputs that chose the event",
        "audit/_audit.py",
        "(zeros[:start], ones[:start]),",
        "(zeros[start:end], ones[start:end]),",
        ("audit/test_audit.py::test_outputs_that_chose_an_event_do_not_certify_it",),
    ),
    Fault(
        "every look of an audit that may stop early spends the whole error",
        "audit/_audit.py",
        "level = alpha * share if early_stopping else alpha",
        "level = alpha",
        ("audit/test_audit.py",),
    ),
    Fault(
        "stages are combined as if only the largest counted",
        "audit/_bounds.py",
        "return needed - float(np.dot(weights, z))",
        "return needed - float(np.linalg.norm(weights) * max(z))",
        ("audit/test_bounds.py",),
    ),
    Fault(
        "the lower bound that is printed is rounded up",
        "audit/_report.py",
        "shown_below(self.epsilon_lower)",
        "shown(self.epsilon_lower)",
        ("audit/test_audit.py",),
    ),
    Fault(
        "a claim that does not hold is drawn as if it did",
        "plotting/_claims.py",
        "if guarantee.claimed is not None:",
        "if False:",
        ("plotting/test_claims.py", "plotting/test_privacy_utility.py"),
    ),
]

SUMS = ("moments/test_sums.py",)
REGRESSION = ("moments/test_regression.py",)
OF_MOMENTS = [
    Fault(
        "samples may be twice as long as the bound",
        "moments/_sums.py",
        "is_long = squares > limit**2",
        "is_long = squares > 4 * limit**2",
        SUMS,
    ),
    Fault(
        "the diagonal of moments has the weight of other cells",
        "moments/_sums.py",
        "np.where(row == column, _DIAGONAL, _OTHERS)",
        "np.where(row == column, _OTHERS, _OTHERS)",
        SUMS,
    ),
    Fault(
        "a mean moves by twice its share",
        "moments/_sums.py",
        "math.floor(math.sqrt(self.shares[0]) / 2 *",
        "math.floor(math.sqrt(self.shares[0]) *",
        SUMS,
    ),
    Fault(
        "targets of a sample may be longer than their bound",
        "moments/_sums.py",
        "        further = _within(further, further_limit)\n",
        "",
        SUMS,
    ),
    Fault(
        "the low limbs of moments wrap",
        "moments/_sums.py",
        "high, low = sums[0] + (sums[1] >> 32), sums[1] & _LIMB",
        "high, low = sums[0], sums[1]",
        SUMS,
    ),
    Fault(
        "moments have half the noise",
        "moments/_base.py",
        "        return question.read(noisy)",
        "        return question.read((noisy + steps * self._noise.step) / 2)",
        ("moments/test_pca.py::test_with_half_the_noise_an_audit_would_tell",),
    ),
    Fault(
        "the first moments are used without noise",
        "moments/_base.py",
        "        return question.read(noisy)",
        "        first = self._n_releases == 1\n"
        "        return question.read(steps * self._noise.step if first else noisy)",
        ("moments/test_pca.py::test_what_is_published_follows_from_releases",),
    ),
    Fault(
        "parties are asked for exact sums before the budget",
        "moments/_base.py",
        "        if not self._samples.is_here:\n            self._begin()\n",
        "",
        ("moments/test_pca.py::test_a_budget_that_refuses_asks_no_party",),
    ),
    Fault(
        "an interrupted fit keeps the projection of the fit before",
        "moments/_pca.py",
        '_of_fit = ("_projection",)',
        "_of_fit = ()",
        ("moments/test_pca.py::test_an_interrupted_fit_leaves_nothing",),
    ),
    Fault(
        "a party projects samples on what is not whole",
        "moments/_requests.py",
        "if own.exact and np.any(bases[k] != np.rint(bases[k])):",
        "if False:",
        ("moments/test_pca.py::test_damaged_questions_are_refused",),
    ),
    Fault(
        "every mode gets the whole share",
        "moments/_spectrum.py",
        "return tuple(total * root / sum(roots) for root in roots)",
        "return tuple(total for root in roots)",
        ("moments/test_pca.py::test_features_and_names",),
    ),
    Fault(
        "shares of moments are not counted",
        "moments/_base.py",
        "self._used += sum(question.shares)",
        "self._used += 0.0",
        ("moments/test_pca.py::test_more_than_the_budget_is_refused",),
    ),
    Fault(
        "cells of moments that are rounded are not accounted for",
        "moments/_base.py",
        "            n_changed=total,",
        "            n_changed=0,",
        ("moments/test_pca.py::test_the_guarantee_is_that_of_the_noise",),
    ),
    Fault(
        "a norm bound that is read off the data counts as declared",
        "moments/_base.py",
        "return min(max(bound, 1e-100), 1e100), False",
        "return min(max(bound, 1e-100), 1e100), True",
        ("moments/test_pca.py::test_undeclared_bounds_protect_nobody",),
    ),
    Fault(
        "nothing says that projections are not protected",
        "moments/_pca.py",
        "_conditions = (PROJECTIONS,)",
        "_conditions = ()",
        ("moments/test_pca.py::test_a_transform_is_not_protected_until_a_mechanism_is",),
    ),
    Fault(
        "folds by label count although labels are protected",
        "moments/_regression.py",
        "_protects_y = True",
        "_protects_y = False",
        REGRESSION,
    ),
    Fault(
        "folds that a search stratifies count as folds by position",
        "privacy/_searches.py",
        "classifier=is_classifier(search.estimator)",
        "classifier=False",
        REGRESSION,
    ),
    Fault(
        "classes that are read off the data count as declared",
        "moments/_regression.py",
        "return self._read_off(targets), math.isinf(self.epsilon)",
        "return self._read_off(targets), True",
        REGRESSION,
    ),
]  # fmt: skip

FAULTS = [
    *OF_MOMENTS,
    *OF_RELEASES,
    *OF_FILES,
    *OF_OUTLIVING,
    *OF_NOISE,
    *OF_GROUPS,
    *OF_CONDITIONS,
    *OF_OBJECTS,
    *OF_ACCOUNTING,
    *OF_MECHANISMS,
    *OF_ENCODERS,
    *OF_COMPLETION,
    *OF_SEARCHES,
    *OF_AUDITS,
]


def problems(root=ROOT):
    """Yield what is wrong with the table: texts and tests that are not there."""
    names = [fault.name for fault in FAULTS]
    yield from (f"two faults: {name}" for name in {*names} if names.count(name) > 1)
    for fault in FAULTS:
        count = (root / "sktensordp" / fault.file).read_text().count(fault.old)
        if count != 1:
            yield f"{fault.name}: {fault.file} has its text {count} times"
        if fault.old == fault.new:
            yield f"{fault.name}: nothing changes"
        for test in fault.tests:
            file, *within = test.split("::")
            path = root / "tests" / file
            text = path.read_text() if path.exists() else ""
            if not text or not all(re.search(rf"\b{name}\b", text) for name in within):
                yield f"{fault.name}: there is no {test}"


def random_faults(n, seed):
    """Mutants as faults, which the tests of their part of the package see first."""
    found = []
    for file, name, old, new in mutants(ROOT / "sktensordp", n, seed):
        own = [file.partition("/")[0], "contracts"]
        tests = tuple(one for one in own if (ROOT / "tests" / one).is_dir())
        found.append(Fault(f"{file}, {name}", file, old, new, tests))
    return found


class Copies:
    """Copies of the tree, one a worker, in which faults are planted."""

    def __init__(self, folder, n_workers):
        self.origin = folder / "origin"
        shutil.copytree(ROOT, self.origin, ignore=LEFT_OUT)
        self._free = SimpleQueue()
        for number in range(n_workers):
            self._free.put(folder / f"worker-{number}")

    def run(self, function, *arguments):
        """Call a function with a fresh copy of the tree, and what follows."""
        worker = self._free.get()
        try:
            # At the same place every time: what is compiled of other files is kept.
            tree = worker / "tree"
            shutil.rmtree(tree, ignore_errors=True)
            shutil.copytree(self.origin, tree)
            return function(tree, *arguments)
        finally:
            self._free.put(worker)


def python(tree, *arguments):
    """Run Python on a copy alone, whatever is installed."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(tree),
        "PYTHONPYCACHEPREFIX": str(tree.parent / "bytecode"),
        "NUMBA_CACHE_DIR": str(tree.parent / "kernels"),
        "PYTEST_ADDOPTS": "",
    }
    return subprocess.run(
        [sys.executable, *arguments], cwd=tree, env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT,
    )  # fmt: skip


def run_tests(tree, *arguments):
    """Run tests; those that failed, or None where it is not tests that failed."""
    found = python(
        tree, "-m", "pytest", "-n0", "-q", "-p", "no:cacheprovider", "--tb=no",
        *arguments,
    )  # fmt: skip
    if found.returncode in (0, 5):
        return []
    # Of a file that cannot be read, pytest names no test.
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+::.*?)(?: - .*)?$", found.stdout, re.M)
    if found.returncode == 1 and failed:
        return failed
    print(found.stdout[-2000:], file=sys.stderr)
    return None


def plant(tree, fault):
    """Put a fault into a copy; return whether it can still be imported."""
    path = tree / "sktensordp" / fault.file
    path.write_text(path.read_text().replace(fault.old, fault.new))
    module = "sktensordp." + fault.file.removesuffix(".py").replace("/", ".")
    found = python(tree, "-c", f"import {module} as m; print(m.__file__)")
    return found.returncode == 0 and Path(found.stdout.strip()) == path


def judge(tree, fault):
    """Which test sees a fault, and of which tier."""
    start = time.monotonic()
    found = {"name": fault.name, "key": key_of(fault), "tier": None, "test": None}
    if not plant(tree, fault):
        return found | {"test": "cannot be imported"}
    for tier, own in STAGES:
        chosen = [f"tests/{test}" for test in fault.tests] if own else []
        marked = "slow" if tier == "slow" else "not slow"
        try:
            failed = run_tests(tree, "-x", "-m", marked, *chosen)
        except subprocess.TimeoutExpired:
            failed = None
        found["seconds"] = round(time.monotonic() - start)
        if failed is None:
            return found | {"test": f"tests of tier {tier!r} did not run"}
        if failed:
            return found | {"tier": tier, "test": failed[0]}
    return found


def key_of(fault):
    """What a result was found out about."""
    return list(map(str, astuple(fault)))


def table(faults, results):
    """Return the results as text, one a line, and what they come to."""
    lines = []
    for fault in faults:
        one = results.get(fault.name)
        if one is not None:
            tier = one["tier"] or "UNSEEN"
            seconds, test = one.get("seconds", 0), one["test"] or ""
            line = f"{tier:6} {seconds:5} s  {fault.file:36} {fault.name}"
            lines.append(f"{line}\n{'':17}{test.removeprefix('tests/')}")
    tiers = [one["tier"] for one in results.values()]
    n_caught = len(tiers) - tiers.count(None)
    lines.append(
        f"{len(tiers)} faults: {n_caught} caught, {tiers.count('own')} by their own "
        f"tests, {tiers.count('slow')} by slow ones"
    )
    return "\n".join(lines)


def main():
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", help="pattern of names or files")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--results", type=Path, help="file to go on from and add to")
    parser.add_argument("--list", action="store_true", help="print the table alone")
    parser.add_argument("--mutants", type=int, default=0, help="number of mutants")
    parser.add_argument("--seed", type=int, default=0, help="of the mutants")
    parser.add_argument("--check", action="store_true", help="run no test")
    options = parser.parse_args()
    wrong = list(problems())
    if wrong:
        sys.exit("\n".join(wrong))
    drawn = random_faults(options.mutants, options.seed) if options.mutants else FAULTS
    chosen = [f for f in drawn if re.search(options.only, f"{f.file} {f.name}")]
    if options.list:
        print("\n".join(f"{f.file}: {f.name} ({' '.join(f.tests)})" for f in chosen))
    if options.list or options.check:
        return
    results = {}
    if options.results is not None and options.results.exists():
        lines = map(json.loads, options.results.read_text().splitlines())
        known = {fault.name: key_of(fault) for fault in chosen}
        results = {
            one["name"]: one for one in lines if known.get(one["name"]) == one["key"]
        }
    with tempfile.TemporaryDirectory() as folder:
        copies = Copies(Path(folder), options.jobs)
        left = [fault for fault in chosen if fault.name not in results]
        pool = ThreadPoolExecutor(options.jobs)
        try:
            judged = [pool.submit(copies.run, judge, fault) for fault in left]
            for one in map(Future.result, as_completed(judged)):
                results[one["name"]] = one
                print(one["tier"] or "UNSEEN", one["name"], flush=True)
                if options.results is not None:
                    with options.results.open("a") as file:
                        file.write(json.dumps(one) + "\n")
        finally:
            pool.shutdown(cancel_futures=True)
        # What fails without a fault, too, sees none.
        tests = {one["test"] for one in results.values() if one["tier"]}
        fails = copies.run(run_tests, *sorted(tests)) if tests else []
    print(table(chosen, results))
    for test in tests if fails is None else fails:
        print(f"This fails without a fault, too: {test}")
    if fails or fails is None or not all(one["tier"] for one in results.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
