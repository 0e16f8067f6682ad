"""Randomness of releases: one key a release, one stream a block of the data.

The key comes from the operating system, or, for tests and papers, from an integer
seed and the number of releases that the object has made. The streams are those of
AES-128 in counter mode: block b of a release reads the words whose 128-bit counter
begins with b, so that the noise is a function of (key, block) alone and does not
depend on the order, the chunks or the threads in which the blocks are computed.
"""

import hashlib
import operator
import os
import secrets
import threading
from typing import Any

import numpy as np

__all__ = ["NoiseStreams", "ReleaseCounter", "SentStreams"]

_KEY_BYTES = 16


class ReleaseCounter:
    """How many releases an object has begun; threads never get the same number.

    Parameters
    ----------
    count : int, default=0
    seeded : bool, default=False
        Whether one of them took its noise from an integer seed.

    """

    def __init__(self, count: int = 0, seeded: bool = False) -> None:
        self._count = count
        self.seeded = seeded
        self._locks: dict[int, threading.RLock] = {}

    @property
    def lock(self) -> threading.RLock:
        """Held by the thread that fits the object.

        Another would leave a model of its own under the guarantee of this one. A
        process that was forked has a lock of its own, which no thread of its parent
        holds for good.
        """
        return self._locks.setdefault(os.getpid(), threading.RLock())

    def next(self, seeded: bool = False) -> int:
        """Number of releases before this one, which may be seeded."""
        with self.lock:
            self._count += 1
            self.seeded = self.seeded or seeded
            return self._count - 1

    def __reduce__(self) -> tuple[Any, ...]:
        return ReleaseCounter, (self._count, self.seeded)


class NoiseStreams:
    """The random streams of one release; closed when the release ends.

    Parameters
    ----------
    random_state : int or None
        None takes a key from the operating system. An integer makes the key a
        function of itself and `n_releases`: reproducible, hence no protection
        against anybody who knows or guesses it.
    n_releases : int
        How many releases the object has made before this one.
    """

    _key: bytes | None

    def __init__(self, random_state: int | None, n_releases: int) -> None:
        if random_state is None:
            self._key = secrets.token_bytes(_KEY_BYTES)
        else:
            words = f"sktensordp release {operator.index(random_state)} {n_releases}"
            self._key = hashlib.sha256(words.encode()).digest()[:_KEY_BYTES]

    def stream(self, block: int) -> np.random.BitGenerator:
        """Bit generator of one block, at its beginning.

        Parameters
        ----------
        block : int
            In [0, 2**64).

        Returns
        -------
        bits : randomgen.AESCounter
            Yields 64-bit words by ``random_raw``.
        """
        from randomgen import AESCounter

        if self._key is None:
            raise RuntimeError("This release has ended; its noise is drawn once.")
        key = np.frombuffer(self._key, dtype="<u8").astype(np.uint64)
        counter = np.array([0, operator.index(block)], dtype=np.uint64)
        return AESCounter(key=key, counter=counter)

    def step(self, number: int) -> "_StepStreams":
        """Streams of one step of a release; no two steps share a stream.

        Parameters
        ----------
        number : int
            In [0, 2**32). A step uses fewer than 2**32 blocks.

        Returns
        -------
        streams : object
            Its ``stream`` takes the block within the step.
        """
        return _StepStreams(self, number)

    def sent(self) -> "SentStreams":
        """The same streams for tasks elsewhere, after the release has been recorded.

        Returns
        -------
        streams : SentStreams
        """
        return SentStreams(self._key)

    def close(self) -> None:
        """Forget the key."""
        self._key = None

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("The key of a release is not copied and does not outlive it.")


class SentStreams(NoiseStreams):
    """The streams of a release that is computed later, and maybe more than once.

    Whoever has it, or a pickle of it, can take the noise away.

    Parameters
    ----------
    key : bytes
    """

    def __init__(self, key: bytes | None) -> None:
        self._key = key

    def __reduce__(self) -> tuple[Any, ...]:
        return SentStreams, (self._key,)


class _StepStreams:
    """The streams of one step of a release."""

    def __init__(self, streams: NoiseStreams, number: int) -> None:
        self._streams, self._number = streams, operator.index(number)

    def stream(self, block: int) -> np.random.BitGenerator:
        return self._streams.stream((self._number << 32) + block)
