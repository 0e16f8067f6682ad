#!/usr/bin/env python3
"""Check that a commit can be released, from a fresh clone.

    python tests/check_release.py

clones the last commit into a temporary folder, looks for what would be wrong in a
release, builds both distributions, installs each in an environment of its own, and
runs the README's example there. It prints every step and every problem, and exits 1 if
there is one. It does not run the tests: `.ci/run` does.
"""

import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Stands where an address or a contact has to be filled in: a domain that leads nowhere.
PLACEHOLDER = ".invalid"
CHOOSER = ".github/ISSUE_TEMPLATE/config.yml"
URLS = ("Source", "Documentation", "Changelog", "Issues")


def problems(folder):
    """What keeps the files in a folder from being a release.

    Parameters
    ----------
    folder : Path

    Returns
    -------
    found : list of str
    """
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    package = (folder / "sktensordp" / "__init__.py").read_text()
    version = re.search(r'__version__ = "(.*)"', package)[1]
    citation = (folder / "CITATION.cff").read_text()
    changelog = (folder / "doc" / "changelog.md").read_text()
    found = [
        f"{path} has a placeholder: {line.strip()}"
        for path in ("pyproject.toml", "CITATION.cff", "SECURITY.md", CHOOSER)
        for line in (folder / path).read_text().splitlines()
        if PLACEHOLDER in line
    ]
    urls = project.get("urls", {})
    found += [f"pyproject.toml has no {name} URL" for name in URLS if name not in urls]
    if not any("email" in author for author in project["authors"]):
        found.append("pyproject.toml names no author with an address")
    if "dev" in version:
        found.append(f"the version is {version}")
    if f"version: {version}\n" not in citation:
        found.append("CITATION.cff has another version")
    if not re.search(r"^date-released: \d{4}-\d\d-\d\d$", citation, re.MULTILINE):
        found.append("CITATION.cff has no date")
    if not re.search(rf"^## {re.escape(version)} \(", changelog, re.MULTILINE):
        found.append(f"the changelog has no section for {version}")
    if "## Unreleased" in changelog:
        found.append("the changelog has unreleased changes")
    return found


def run(*command, cwd):
    print("+", *command, flush=True)
    finished = subprocess.run([*map(str, command)], cwd=cwd, check=False)
    return finished.returncode == 0


def example(readme):
    """The code of the README's example."""
    return re.search(r"<!-- example -->\n```python\n(.*?)```", readme, re.DOTALL)[1]


def built(clone, temporary):
    """Build both distributions, and use each; yields problems."""
    tools = temporary / "tools"
    venv.create(tools, with_pip=True)
    python = tools / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "build", "twine", cwd=temporary)
    if not run(python, "-m", "build", clone, cwd=temporary):
        yield "the distributions cannot be built"
        return
    files = sorted((clone / "dist").iterdir())
    if not run(python, "-m", "twine", "check", "--strict", *files, cwd=temporary):
        yield "twine refuses the distributions"
    code = example((clone / "README.md").read_text())
    for file in files:
        environment = temporary / file.name.partition("-")[2]
        venv.create(environment, with_pip=True)
        own = environment / "bin" / "python"
        run(own, "-m", "pip", "install", "--quiet", f"{file}[plot]", cwd=temporary)
        if not run(own, "-c", code, cwd=environment):
            yield f"the README's example fails with {file.name}"


def main():
    found = []
    if subprocess.check_output(["git", "status", "--porcelain"], cwd=ROOT):
        found.append("the working tree has changes that are not committed")
    with tempfile.TemporaryDirectory() as name:
        temporary, clone = Path(name), Path(name) / "clone"
        run("git", "clone", "--quiet", ROOT, clone, cwd=temporary)
        found += problems(clone)
        found += built(clone, temporary)
    print(*(f"- {problem}" for problem in found), sep="\n")
    print("not ready for a release" if found else "ready for a release")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
