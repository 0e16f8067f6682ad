"""Threads that begin at once."""

import threading


def in_threads(*actions):
    """What actions return that run at once; whatever they raise is raised here."""
    barrier, found, raised = threading.Barrier(len(actions)), {}, []

    def run(number, action):
        try:
            barrier.wait(60)
            found[number] = action()
        except BaseException as error:
            raised.append(error)

    threads = [
        threading.Thread(target=run, args=numbered) for numbered in enumerate(actions)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]
    return [found[number] for number in range(len(actions))]
