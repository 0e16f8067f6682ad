"""Faults that the tests have to catch: one change each, where privacy rests on it.

`faults.txt` has them. A fault names a function or class and states what is wrong as
code, which is looked up in the syntax tree: how the code is laid out does not matter.
Each is planted in a copy of the package, where the tests that should see it are run, up
to the first that fails. What survives them meets all other tests, the slow ones last:

    python -m tests.faults
    python -m tests.faults --only completion --results faults.jsonl

With a file of results, what has been found out already is not run again. `--check` runs
no test: it says which faults no longer have their place. `--mutants 60 --seed 0` plants
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

from tests.mutants import likely_tests, mutants
from tests.support.planting import Piece, n_places, planted

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
    """Code of the package, and wrong code in its place.

    Parameters
    ----------
    name : str
        What goes wrong, for which object.
    file : str
        Below the package.
    within : str or None
        Qualified name of the function or class that has the old code once; empty for
        the whole module. None if `old` and `new` are all of the file.
    old, new : str
    tests : tuple of str
        Files below ``tests``, or tests in them, that should see it.
    """

    name: str
    file: str
    within: str | None
    old: str
    new: str
    tests: tuple[str, ...]

    def planted(self, text):
        """Return the text of the file with the fault."""
        if self.within is None:
            return self.new
        return planted(text, self.within, self.old, self.new)


COMMENT = re.compile(r"(?:#.*\n)+")
FAULT = re.compile(
    r"fault: (?P<name>.+)\n"
    r"in: (?P<file>[\w/]+\.py)(?:::(?P<within>\w+(?:\.\w+)*))?\n"
    r"tests: (?P<tests>\S+(?: \S+)*)\n"
    r"(?P<old>(?:-.*\n)+)"
    r"(?P<new>(?:\+.*\n)+)"
)


def read(text):
    """Read the faults of a table, which says how it is to be written.

    Parameters
    ----------
    text : str
        Paragraphs, each a comment or a fault.

    Returns
    -------
    list of Fault

    Raises
    ------
    ValueError
        If a paragraph is neither.
    """
    faults = []
    for paragraph in text.removesuffix("\n").split("\n\n"):
        if COMMENT.fullmatch(f"{paragraph}\n"):
            continue
        found = FAULT.fullmatch(f"{paragraph}\n")
        if found is None:
            raise ValueError(f"This is not a fault:\n{paragraph}")
        old, new = (
            found[part][1:-1].replace(f"\n{sign}", "\n")
            for part, sign in (("old", "-"), ("new", "+"))
        )
        tests = tuple(found["tests"].split())
        within = found["within"] or ""
        faults.append(Fault(found["name"], found["file"], within, old, new, tests))
    return faults


FAULTS = read((ROOT / "tests" / "faults.txt").read_text(encoding="utf-8"))


def problem_of_place(fault, text):
    """What is wrong with a fault of a module, or None."""
    try:
        n = n_places(text, fault.within, fault.old, fault.new)
    except SyntaxError as error:
        return f"{error.text!r} is no expression, argument or statement"
    if n != 1:
        return f"{fault.file}::{fault.within} has its code {n} times"
    if Piece(fault.old) == Piece(fault.new):
        return "nothing changes"
    return None


def problems(root=ROOT):
    """Yield what is wrong with the table: code and tests that are not there."""
    names = [fault.name for fault in FAULTS]
    yield from (f"two faults: {name}" for name in {*names} if names.count(name) > 1)
    for fault in FAULTS:
        path = root / "sktensordp" / fault.file
        text = path.read_text() if path.exists() else ""
        if problem := problem_of_place(fault, text):
            yield f"{fault.name}: {problem}"
        for test in fault.tests:
            file, *names = test.split("::")
            path = root / "tests" / file
            text = path.read_text() if path.exists() else ""
            if not text or not all(re.search(rf"\b{name}\b", text) for name in names):
                yield f"{fault.name}: there is no {test}"


def random_faults(n, seed, within):
    """Mutants as faults, which the tests that are likely to see them see first."""
    return [
        Fault(
            f"{file}, {name}", file, None, old, new,
            tuple(likely_tests(ROOT / "tests", file, old, line)),
        )
        for file, name, old, new, line in mutants(ROOT / "sktensordp", n, seed, within)
    ]  # fmt: skip


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
    path.write_text(fault.planted(path.read_text()))
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
    parser.add_argument(
        "--within", nargs="+", default=[""], help="folders or files of the mutants"
    )
    parser.add_argument("--check", action="store_true", help="run no test")
    options = parser.parse_args()
    wrong = list(problems())
    if wrong:
        sys.exit("\n".join(wrong))
    drawn = FAULTS
    if options.mutants:
        drawn = random_faults(options.mutants, options.seed, options.within)
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
