#!/usr/bin/env python3
"""Test the package with the oldest and the newest versions of what it depends on.

    python tests/check_supply.py
    python tests/check_supply.py --quick oldest

The oldest versions are those that pyproject.toml admits, with the Python that runs
this. The newest are those that are published for the newest Python of this machine.
Each gets an environment of its own. Slow tests are left out. ``--quick`` runs only what
hangs on other libraries most. The script prints the versions, and exits 1 if a test
failed.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent
RESOLUTIONS = {"oldest": "lowest-direct", "newest": "highest"}
# Extras that are not installed: tools, gigabytes, and what no test uses.
NOT_INSTALLED = ("dev", "flights", "peers", "torch")
QUICK = (
    "tests/noise", "tests/measure", "tests/contracts", "tests/test_common.py",
    "tests/test_golden.py",
)  # fmt: skip
# What uv reads of pip's settings, under names of its own.
OF_PIP = {
    "PIP_INDEX_URL": "UV_INDEX_URL",
    "PIP_EXTRA_INDEX_URL": "UV_EXTRA_INDEX_URL",
    "PIP_FIND_LINKS": "UV_FIND_LINKS",
    "PIP_CERT": "SSL_CERT_FILE",
}


def run(*command, **options):
    command = list(map(str, command))
    return subprocess.run(command, check=True, cwd=ROOT, text=True, **options)


def project():
    """What pyproject.toml says of the project."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def extras(quick):
    """The extras that are installed."""
    if quick:
        return ["test"]
    all_extras = set(project()["optional-dependencies"])
    assert all_extras.issuperset(NOT_INSTALLED)
    return sorted(all_extras.difference(NOT_INSTALLED))


def newest_python():
    """The newest Python of this machine, of those that the project supports."""
    versions = "|".join(
        re.findall(r"Python :: (3\.\d+)", "\n".join(project()["classifiers"]))
    )
    folders = [Path(folder) for folder in os.get_exec_path()]
    # Where pyenv has them, whose commands fail unless a version is chosen.
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    folders += pyenv.glob("versions/*/bin")
    found = {sys.version_info[:2]: sys.executable}
    for folder in folders:
        for python in folder.glob("python3.*"):
            if re.fullmatch(rf"python({versions})", python.name):
                version = tuple(map(int, python.name[6:].split(".")))
                if version not in found and is_python(python):
                    found[version] = python
    return found[max(found)]


def is_python(path):
    asked = [path, "-c", "import venv"]
    return subprocess.run(asked, capture_output=True, check=False).returncode == 0


def passes(name, uv, folder, quick):
    """Whether the tests pass with the oldest or the newest versions."""
    base = sys.executable if name == "oldest" else newest_python()
    run(uv, "venv", "--quiet", "--no-python-downloads", "--python", base, folder)
    scripts = "Scripts" if os.name == "nt" else "bin"
    python = folder / scripts / "python"
    package = f"{ROOT}[{','.join(extras(quick))}]"
    # Compiled as pip does it: what compilers warn of would come in the tests else.
    run(
        uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", python,
        "--resolution", RESOLUTIONS[name], "--editable", package,
    )  # fmt: skip
    run(python, "--version")
    run(uv, "pip", "list", "--python", python)
    tests = QUICK if quick else ("-m", "not slow")
    environ = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
    command = [python, "-m", "pytest", "-q", "-rfE", *tests]
    return subprocess.run(command, cwd=ROOT, env=environ, check=False).returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "versions", nargs="*", choices=[[], *RESOLUTIONS], help="both by default"
    )
    parser.add_argument("--quick", action="store_true", help="a few tests only")
    arguments = parser.parse_args()
    for ours, theirs in OF_PIP.items():
        if ours in os.environ:
            os.environ.setdefault(theirs, os.environ[ours])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        venv.create(folder / "tool", with_pip=True)
        scripts = folder / "tool" / ("Scripts" if os.name == "nt" else "bin")
        run(scripts / "python", "-m", "pip", "install", "--quiet", "uv")
        uv = shutil.which("uv", path=scripts)
        passed = [
            passes(versions, uv, folder / versions, arguments.quick)
            for versions in arguments.versions or RESOLUTIONS
        ]
    return int(not all(passed))


if __name__ == "__main__":
    sys.exit(main())
