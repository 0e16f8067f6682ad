"""What contributors are told agrees with what the project does."""

import re
import shlex
import tomllib

import yaml

from tests import ROOT, check_supply
from tests.faults import FAULTS
from tests.support.tiers import DEFAULT, has_tests_of

CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def jobs():
    """Commands of all jobs of the hosted CI."""
    for path in WORKFLOWS:
        for job in yaml.safe_load(path.read_text())["jobs"].values():
            yield [step["run"] for step in job.get("steps", ()) if "run" in step]


def test_jobs_of_the_hosted_ci_end_and_use_fixed_actions():
    for path in WORKFLOWS:
        text = path.read_text()
        for name, job in yaml.safe_load(text)["jobs"].items():
            # A job that calls another workflow has the limits of that one.
            assert "timeout-minutes" in job or job["uses"].startswith("./"), name
        for action in re.findall(r"uses: (\S+)", text):
            assert re.search(r"^\./|@[0-9a-f]{40}$", action), action


def test_only_what_passes_the_tests_is_published():
    (path,) = (path for path in WORKFLOWS if path.stem == "publish")
    publish = yaml.safe_load(path.read_text())["jobs"]
    assert publish["tests"] == {"uses": "./.github/workflows/tests.yml"}
    assert (publish["build"]["needs"], publish["publish"]["needs"]) == (
        "tests",
        "build",
    )


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


def test_the_oldest_and_the_newest_versions_are_tested():
    page = (ROOT / "doc" / "supply.md").read_text()
    ours = (ROOT / ".ci" / "run").read_text()
    command = "python tests/check_supply.py"
    assert command in page
    assert f"{command} --quick" in ours
    assert any(command in job for job in jobs())
    for path in check_supply.QUICK:
        assert (ROOT / path).exists(), path
    for quick in (True, False):
        assert check_supply.extras(quick)


def test_times_are_in_one_place():
    """In the table of this page; the README repeats the time of the default tier."""
    minutes = dict(re.findall(r"`\.venv/bin/(.*?)` \| (.*?) \|", CONTRIBUTING))
    n_minutes = int(minutes["python -m pytest"].split()[0])
    said = ("Two", "Three")[n_minutes - 2]
    assert f"{said} minutes on two idle cores:" in (ROOT / "README.md").read_text()
    assert not re.search("minutes|hour", (ROOT / "noxfile.py").read_text())
    releases = (ROOT / "doc" / "releases.md").read_text()
    (step,) = re.findall(r"^1\. .*?(?=^2\. )", releases, re.MULTILINE | re.DOTALL)
    assert not re.search("minutes|hour", step)


def test_hooks_use_the_tools_of_the_environment():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    (repository,) = hooks
    assert repository["repo"] == "local"
    assert {hook["language"] for hook in repository["hooks"]} == {"system"}
