#!/usr/bin/env python3
"""Test the package with the oldest and the newest versions of what it depends on.

    python tests/check_supply.py
    python3.14 tests/check_supply.py --add newest

The first makes two environments of its own, runs the tests in both, without the slow
ones, and writes the results to doc/supply.md. The second adds a column to that page,
with the newest versions for another Python. Both exit 1 if a test failed; ``--all``
leaves no test out.
"""

import argparse
import datetime
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "doc" / "supply.md"
RESOLUTIONS = {"oldest": "lowest-direct", "newest": "highest"}
# Extras that are not installed: tools, gigabytes, and programs that no test runs.
NOT_INSTALLED = ("dev", "peers", "torch")
LEFT_OUT = ("-m", "not slow")
HEAD = """# Versions tested with

The tests run with the oldest versions that `pyproject.toml` admits, and with the newest
that are published for the Python in question. Slow tests are left out (`--all` runs
them, too). The first command makes the page; the second, with another Python, adds a
column:

```bash
python tests/check_supply.py
python3.14 tests/check_supply.py --add newest
```

Dependencies of dependencies are at their newest. The extras {installed} are installed;
{left_out} are not. The tests ran on two cores. An empty cell repeats the one before it.

"""


def run(*command):
    command = list(map(str, command))
    return subprocess.run(
        command, check=True, cwd=ROOT, text=True, stdout=subprocess.PIPE
    ).stdout


def project():
    """What pyproject.toml says of the project."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def extras():
    """The extras that are installed: all but those in NOT_INSTALLED."""
    all_extras = set(project()["optional-dependencies"])
    assert all_extras.issuperset(NOT_INSTALLED)
    return sorted(all_extras.difference(NOT_INSTALLED))


def declared():
    """Names of the direct dependencies."""
    listed = list(project()["dependencies"])
    for extra in extras():
        listed += project()["optional-dependencies"][extra]
    # Extras that share a dependency declare the same of it.
    names = [re.match(r"[\w.-]+", one)[0] for one in set(listed)]
    assert len({name.lower() for name in names}) == len(names), sorted(names)
    return sorted(names, key=str.lower)


def head():
    """The page above its table."""
    *first, last = (f"`{name}`" for name in extras())
    *others, one = (f"`{name}`" for name in NOT_INSTALLED)
    left_out = f"{', '.join(others)} and {one}"
    return HEAD.format(installed=f"{', '.join(first)} and {last}", left_out=left_out)


def tested(resolution, folder, left_out):
    """A column of the table, and the process of the tests."""
    folder.mkdir()
    venv.create(folder / "tool", with_pip=True)
    venv.create(folder / "tested")
    python = folder / "tested" / "bin" / "python"
    run(folder / "tool" / "bin" / "pip", "install", "--quiet", "uv")
    uv = folder / "tool" / "bin" / "uv", "pip"
    package = f"{ROOT}[{','.join(extras())}]"
    # Compiled as pip does it: what compilers warn of would come in the tests else.
    run(
        *uv, "install", "--quiet", "--compile-bytecode", "--python", python,
        "--resolution", RESOLUTIONS[resolution], "--editable", package,
    )  # fmt: skip
    run(*uv, "check", "--python", python)
    found = json.loads(run(*uv, "list", "--python", python, "--format", "json"))
    versions = {one["name"].lower(): one["version"] for one in found}
    start = time.monotonic()
    environ = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
    tests = subprocess.run(
        [python, "-m", "pytest", "-q", *left_out],
        cwd=ROOT, env=environ, text=True, stdout=subprocess.PIPE,
    )  # fmt: skip
    minutes = (time.monotonic() - start) / 60
    last = tests.stdout.strip().splitlines()[-1].strip("= ")
    if tests.returncode:
        print(tests.stdout)
    column = {
        "": resolution,
        "Python": f"{platform.python_version()}, {platform.system()} "
        f"{platform.machine()}",
        **{name: versions[name.lower()] for name in declared()},
        "**tests**": re.sub(r" in .*", f" in {minutes:.0f} minutes", last),
        "commit": run("git", "rev-parse", "--short", "HEAD").strip(),
        "date": str(datetime.date.today()),
    }
    return column, tests


def table(columns):
    """The lines of a table, whose columns have the same rows.

    A cell is empty if it would repeat the one before it.
    """
    rows = []
    for row in zip(*(column.items() for column in columns), strict=True):
        (name, *_), cells = row[0], [cell for _, cell in row]
        pairs = zip(["", *cells], cells, strict=False)
        shown = [cell if not name or cell != before else "" for before, cell in pairs]
        rows.append(f"| {' | '.join([name, *shown])} |")
    return [rows[0], "|---" * (1 + len(columns)) + "|", *rows[1:]]


def columns_of(page):
    """The columns of the table on the page."""
    lines = [line for line in page.splitlines() if line.startswith("|")]
    del lines[1]
    columns = []
    for line in lines:
        name, *cells = [cell.strip() for cell in line.split("|")[1:-1]]
        columns = columns or [{} for _ in cells]
        for k, cell in enumerate(cells):
            columns[k][name] = cell or columns[k - 1][name]
    return columns


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--add", choices=RESOLUTIONS, help="add a column to the page")
    parser.add_argument("--all", action="store_true", help="slow tests, too")
    arguments = parser.parse_args()
    if arguments.add:
        resolutions = [arguments.add]
        columns = columns_of(PAGE.read_text())
    else:
        resolutions, columns = list(RESOLUTIONS), []
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for name in resolutions:
            left_out = () if arguments.all else LEFT_OUT
            column, tests = tested(name, Path(folder) / name, left_out)
            columns.append(column)
            failed = failed or tests.returncode != 0
    PAGE.write_text(head() + "\n".join(table(columns)) + "\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
