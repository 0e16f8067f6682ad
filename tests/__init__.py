"""Tests of sktensordp; what they share is in `tests.support`."""

from pathlib import Path

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
DOC = ROOT / "doc"
