"""Interruptions at chosen lines of the package.

By default some lines of an action are chosen; all of them with the environment variable
SKTENSORDP_ALL_LINES set.
"""

import linecache
import os
import random
import sys
from collections import Counter
from pathlib import Path

import sktensordp
from sktensordp import base
from tests.support import noise

PACKAGE = str(Path(sktensordp.__file__).parent)
ALL_LINES = bool(os.environ.get("SKTENSORDP_ALL_LINES"))
# Of all lines, and of those where every release passes.
N_LINES, N_CENTRAL = 3, 3
CENTRE = {base.__file__, noise.FILE}
ERRORS = KeyboardInterrupt, MemoryError, SystemExit


def traced(action, on_line):
    """Call on_line(place) before every line of the package that an action runs.

    But for those of ``with``, and of a ``try`` that begins its block: an error of a
    tracer there leaves the block without its ``__exit__``, and a lock locked, which no
    signal can do.
    """

    def trace(frame, event, _):
        place = frame.f_code.co_filename, frame.f_lineno
        if not place[0].startswith(PACKAGE):
            return None
        code = linecache.getline(*place).lstrip()
        if event == "line" and not code.startswith(("with", "try:")):
            on_line(place)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        return action()
    finally:
        sys.settrace(before)


def steps(action, seed):
    """The lines to interrupt at: places, each with its first or its last time.

    Not numbers of lines: of those that come before, some are run once in a process.
    Unless all are asked for: some of these, and some of the last ones in the centre.
    """
    times = Counter()
    traced(action, lambda place: times.update([place]))
    last = sorted(times.items())
    found = sorted({*last, *((place, 1) for place in times)})
    if ALL_LINES:
        return found
    central = [step for step in last if step[0][0] in CENTRE]
    chance = random.Random(seed)
    some = chance.sample(found, N_LINES)
    return sorted({*some, *chance.sample(central, min(N_CENTRAL, len(central)))})


def interrupted(action, step):
    """Whether an action was interrupted at a line, the given time it came there."""
    (place, time), times = step, 0
    error = ERRORS[(place[1] + time) % len(ERRORS)]

    def on_line(here):
        nonlocal times
        times += here == place
        if here == place and times == time:
            raise error

    try:
        traced(action, on_line)
    except ERRORS:
        return True
    return False
