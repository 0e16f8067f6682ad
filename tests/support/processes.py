"""Actions in processes of their own."""

import os
from multiprocessing import get_context

SPAWN = get_context("spawn")


def in_spawned(action, *args):
    """What an action returns in a new process, which imports it and gets arguments."""
    with SPAWN.Pool(1) as pool:
        return pool.apply(action, args)


def refused_in_fork(action, message):
    """Whether a forked process is refused an action, with words of a message."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            action()
            code = 0
        except RuntimeError as error:
            code = 7 if message in str(error) else 1
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 7)
    return code == 7
