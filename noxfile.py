"""The commands of CONTRIBUTING.md, each in an environment of its own: ``nox -l``.

Arguments after ``--`` go on to the command: ``nox -s tests -- tests/mechanisms``.
"""

import nox

nox.options.sessions = ["lint", "tests"]
nox.options.reuse_existing_virtualenvs = True


def pytest(session: nox.Session, *options: str, extras: str = "test,doc") -> None:
    """Install the package with everything its tests need, and run them."""
    session.install("--editable", f".[{extras}]")
    session.run("python", "-m", "pytest", *options, *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """Run what a newcomer waits for; CONTRIBUTING.md says how long each takes."""
    pytest(session)


@nox.session
def thorough(session: nox.Session) -> None:
    """Run the tests that a newcomer need not wait for, the slow ones among them."""
    pytest(session, "-m", "thorough or slow", extras="test,test-files,doc")


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, types, and the places of the planted faults."""
    session.install("--editable", ".[dev,test]")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run("python", "-m", "tests.faults", "--check")


@nox.session
def faults(session: nox.Session) -> None:
    """Plant faults, and see whether the tests catch them."""
    session.install("--editable", ".[test,doc]")
    session.run("python", "-m", "tests.faults", *session.posargs)


@nox.session
def machines(session: nox.Session) -> None:
    """Run the tests as other machines would."""
    session.install("--editable", ".[test,doc]")
    session.run("python", "-m", "tests.machines", *session.posargs)


@nox.session
def compare(session: nox.Session) -> None:
    """Audit other people's recommenders; pass ``--choices F --ratings F``."""
    session.install("--editable", ".[compare,pandas]")
    script = "tests/benchmarks/bench_audit.py"
    session.run("python", script, *(session.posargs or ["--help"]))


@nox.session
def results(session: nox.Session) -> None:
    """Name the stored results that became worse: ``nox -s results -- COMMIT``."""
    session.run("python", "doc/compare_results.py", *(session.posargs or ["HEAD"]))


@nox.session
def doc(session: nox.Session) -> None:
    """Build the documentation with its gallery in doc/_build."""
    session.install("--editable", ".[doc]")
    session.run("python", "-m", "sphinx", "-W", "doc", "doc/_build", *session.posargs)
