"""Threads that begin at once."""

import threading

__all__ = ["in_threads"]


def in_threads(*actions):
    """Run at once; whatever they raise is raised here."""
    barrier, raised = threading.Barrier(len(actions)), []

    def run(action):
        try:
            barrier.wait(60)
            action()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=(action,)) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]
