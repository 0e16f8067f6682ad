#!/usr/bin/env python3
"""Test the package with the oldest and the newest versions of what it depends on.

    python tests/check_supply.py

makes two environments of its own, runs the tests in both, without the slow ones, and
writes the result to doc/supply.md. It exits 1 if a test failed; ``--all`` leaves no
test out.
"""

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
RESOLUTIONS = {"oldest": "lowest-direct", "newest": "highest"}
# Extras that are not installed: gigabytes, and programs that no test runs.
NOT_INSTALLED = ("peers", "torch")
LEFT_OUT = ("-m", "not slow")
HEAD = """# Versions tested with

The tests run in two environments: one with the oldest version that `pyproject.toml`
admits of every declared dependency, one with the newest that is published. Slow tests
are left out; `--all` runs them too. This command makes the page:

```bash
python tests/check_supply.py
```

Dependencies of dependencies are at their newest in both environments. The extras that
are installed are {installed}; {left_out} are not.
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
    """Names of the direct dependencies, with what is declared of their versions."""
    listed = list(project()["dependencies"])
    for extra in extras():
        listed += project()["optional-dependencies"][extra]
    # Extras that share a dependency declare the same of it.
    pairs = {re.match(r"([\w.-]+)\s*(.*)", one).groups() for one in listed}
    names = [name.lower() for name, _ in pairs]
    assert len(set(names)) == len(names), sorted(names)
    return dict(sorted(pairs, key=lambda pair: pair[0].lower()))


def head():
    """The page above its table."""
    *first, last = (f"`{name}`" for name in extras())
    left_out = " and ".join(f"`{name}`" for name in NOT_INSTALLED)
    return HEAD.format(installed=f"{', '.join(first)} and {last}", left_out=left_out)


def tested(resolution, folder, left_out):
    """Versions that were installed, and the last line of the tests."""
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
        "--resolution", resolution, "--editable", package,
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
    return versions, re.sub(r" in .*", f" in {minutes:.0f} minutes", last), tests


def main():
    left_out = () if "--all" in sys.argv[1:] else LEFT_OUT
    commit = run("git", "rev-parse", "--short", "HEAD").strip()
    with tempfile.TemporaryDirectory() as folder:
        results = {
            name: tested(resolution, Path(folder) / name, left_out)
            for name, resolution in RESOLUTIONS.items()
        }
    lines = [
        head(),
        f"Measured on {datetime.date.today()}, at commit {commit}, with Python "
        f"{platform.python_version()} on {platform.system()} {platform.machine()}.\n",
        "| | declared | oldest | newest |",
        "|---|---|---|---|",
    ]
    for name, bound in declared().items():
        versions = (results[one][0][name.lower()] for one in RESOLUTIONS)
        lines.append(f"| {name} | {bound} | {' | '.join(versions)} |")
    ends = " | ".join(results[one][1] for one in RESOLUTIONS)
    lines.append(f"| **tests** | | {ends} |")
    (ROOT / "doc" / "supply.md").write_text("\n".join(lines) + "\n")
    return int(any(tests.returncode for _, _, tests in results.values()))


if __name__ == "__main__":
    sys.exit(main())
