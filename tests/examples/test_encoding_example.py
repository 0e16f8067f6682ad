"""The example of task-aware encoding runs, and its tables say what they must say."""

import re

SEED = "--random-state", "0"

UNSOUND = "published, no finite epsilon for new people:"
# Of a mean over noise and samples: approaches that do the same differ by this much.
SAME = 1.04


def losses(text):
    """Losses over epsilon, by approach."""
    rows = re.findall(r"^  (\D+?) {2,}((?: *\d\.\d{4})+)$", text, re.MULTILINE)
    return {name: [float(loss) for loss in row.split()] for name, row in rows}


def test_linear_tasks(tmp_path, run):
    arguments = ["--data", "load", "diabetes", "--splits", "1"]
    printed = run(tmp_path, "task_aware.py", *SEED, *arguments)
    _, load, diabetes, headlines = re.split(r"^(?=load:|diabetes:|the paper's)",
                                            printed, flags=re.MULTILINE)  # fmt: skip
    for table in (load, diabetes):
        sound, published = map(losses, table.split(UNSOUND))
        assert len(sound) == 4
        # What was published stands below its label, and says so again in every row.
        assert {name.removesuffix(", published") for name in published} == (
            sound.keys() - {"task-aware, Laplace"}
        )
        assert all(name.endswith(", published") for name in published)
        aware = sound["task-aware"]
        assert aware == sorted(aware, reverse=True)
        for name, row in {**sound, **published}.items():
            margin = SAME if name == "privacy-agnostic" else 1.0
            assert all(a <= margin * b for a, b in zip(aware, row, strict=True))
    least = zip(losses(load)["task-aware"], (0.62, 0.39, 0.18, 0.045), strict=True)
    assert all(loss < most for loss, most in least)
    assert "  over task-agnostic                 22.9% (10)" in headlines
    assert "  over privacy-agnostic               13.5% (5)" in headlines
    assert len(re.findall(r"\d% \(\d+\) +-?\d+\.\d% \(\d+\)", headlines)) == 4
