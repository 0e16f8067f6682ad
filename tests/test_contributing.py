"""What contributors are told agrees with what the project does."""

import re
import shlex
import tomllib

import yaml

from tests import ROOT
from tests.faults import FAULTS
from tests.support.tiers import DEFAULT, has_tests_of

CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def jobs():
    """Commands of all jobs of the hosted CI."""
    for path in WORKFLOWS:
        for job in yaml.safe_load(path.read_text())["jobs"].values():
            yield [step["run"] for step in job["steps"] if "run" in step]


def test_a_job_tries_inputs_of_a_new_seed():
    (command,) = {c for job in jobs() for c in job if "fuzz.py" in c}
    assert "--seed" not in command


def test_hosted_ci_runs_what_the_project_runs():
    commands = {command for job in jobs() for command in job}
    ours = (ROOT / ".ci" / "run").read_text()
    for tool in ("ruff check .", "ruff format", "mypy"):
        assert tool in ours
        assert any(tool in command for command in commands)
    assert '-m pytest -m "thorough or slow"' in ours
    for tier in ("", ' -m "thorough and not slow"', " -m slow"):
        assert f"python -m pytest{tier}" in commands
    assert ".venv/bin/python -m pytest\n```" in (ROOT / "README.md").read_text()


def test_files_of_other_tiers_are_not_collected():
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]
    assert DEFAULT in options["ini_options"]["addopts"]
    whole = "pytestmark = [\n    pytest.mark.thorough,\n]\n"
    one = "@pytest.mark.slow\ndef test_one(): ..."
    thorough = "thorough and not slow"
    for text, tiers in (
        ("def test_one(): ...", [DEFAULT, "not slow", ""]),
        (one, [DEFAULT, "not slow", "slow", "thorough or slow", ""]),
        (whole, ["not slow", thorough, "thorough or slow", ""]),
        (whole + one, ["not slow", thorough, "slow", "thorough or slow", ""]),
    ):
        every = (DEFAULT, "not slow", thorough, "slow", "thorough or slow", "")
        assert [tier for tier in every if has_tests_of(tier, text)] == tiers


def test_hosted_ci_has_the_oldest_python():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    oldest = project["requires-python"].removeprefix(">=")
    (tests,) = (path for path in WORKFLOWS if path.stem == "tests")
    matrix = yaml.safe_load(tests.read_text())["jobs"]["test"]["strategy"]["matrix"]
    assert matrix["python"][0] == oldest
    assert {system.split("-")[0] for system in matrix["os"]} == {
        "ubuntu",
        "macos",
        "windows",
    }


def test_nox_has_the_commands_of_this_page():
    sessions = (ROOT / "noxfile.py").read_text()
    for command in re.findall(r"`\.venv/bin/python -m (.*?)`", CONTRIBUTING):
        module, *options = shlex.split(command.split(" tests/")[0])
        assert f'"{module}"' in sessions, command
        assert all(
            f'"{option}"' in sessions for option in options if module == "pytest"
        )


def test_what_contributing_names_is_there():
    for path in re.findall(r"`((?:tests|sktensordp|\.ci)/?[\w./]*)`", CONTRIBUTING):
        assert (ROOT / path).exists(), path
    (number,) = re.findall(r"plants more than (\d+) faults", CONTRIBUTING)
    assert int(number) < len(FAULTS)


def test_the_page_of_tested_versions_names_every_extra():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    page = (ROOT / "doc" / "supply.md").read_text()
    for extra in project["optional-dependencies"]:
        assert f"`{extra}`" in page, extra


def test_hooks_use_the_tools_of_the_environment():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    (repository,) = hooks
    assert repository["repo"] == "local"
    assert {hook["language"] for hook in repository["hooks"]} == {"system"}
