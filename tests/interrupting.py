"""Interruptions at chosen lines of the package.

By default some lines of an action are chosen; all of them with the environment variable
SKTENSORDP_ALL_LINES set.
"""

import linecache
import os
import random
import sys
from pathlib import Path

import sktensordp
from sktensordp import _random, base
from sktensordp._random import NoiseSource

PACKAGE = str(Path(sktensordp.__file__).parent)
ALL_LINES = bool(os.environ.get("SKTENSORDP_ALL_LINES"))
# Of all lines, and of those where every release passes.
N_LINES, N_CENTRAL = 3, 3
CENTRE = {base.__file__, _random.__file__}
ERRORS = KeyboardInterrupt, MemoryError, SystemExit


def recorded_keys(monkeypatch):
    """A list that grows with every key that is taken, of which all noise comes."""
    taken, start = [], NoiseSource.__init__

    def record(self, *args):
        start(self, *args)
        taken.append(self._key)

    monkeypatch.setattr(NoiseSource, "__init__", record)
    return taken


def traced(action, on_line):
    """Call on_line(place) before every line of the package that an action runs.

    But for those of ``with``: an error of a tracer where such a block ends leaves it
    without its ``__exit__``, and a lock locked, which no signal can do.
    """

    def trace(frame, event, _):
        place = frame.f_code.co_filename, frame.f_lineno
        if not place[0].startswith(PACKAGE):
            return None
        code = linecache.getline(*place).lstrip()
        if event == "line" and not code.startswith("with"):
            on_line(place)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        return action()
    finally:
        sys.settrace(before)


def steps(action, seed):
    """Numbers of the lines to interrupt at: the first and last time of each place.

    Unless all are asked for: some of these, and some of the last ones in the centre.
    """
    first, last = {}, {}

    def on_line(place):
        last[place] = number = len(lines) + 1
        first.setdefault(place, number)
        lines.append(place)

    lines = []
    traced(action, on_line)
    found = sorted({*first.values(), *last.values()})
    if ALL_LINES:
        return found
    central = [n for (file, _), n in last.items() if file in CENTRE]
    chance = random.Random(seed)
    some = chance.sample(found, N_LINES)
    return sorted({*some, *chance.sample(central, min(N_CENTRAL, len(central)))})


def interrupted(action, step):
    """Whether an action was interrupted at its line of a number."""
    error, n_lines = ERRORS[step % len(ERRORS)], 0

    def on_line(_):
        nonlocal n_lines
        n_lines += 1
        if n_lines == step:
            raise error

    try:
        traced(action, on_line)
    except ERRORS:
        return True
    return False


def n_released(budget):
    return sum(count or 0 for _, count, _, _ in budget._account.lines())
