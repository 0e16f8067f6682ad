"""Actions in processes of their own."""

from multiprocessing import get_context

SPAWN = get_context("spawn")


def in_spawned(action, *args):
    """What an action returns in a new process, which imports it and gets arguments."""
    with SPAWN.Pool(1) as pool:
        return pool.apply(action, args)
