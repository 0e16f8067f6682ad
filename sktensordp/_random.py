"""Random streams of releases: one key per release, one stream per block of the data.

The key comes from the operating system or, for tests and papers, from an integer seed
and the number of releases that the object has made. The streams are AES-128 in counter
mode: block b of a release reads the words whose 128-bit counter begins with b. The
noise is therefore a function of (key, block) alone, and does not depend on the order,
chunks or threads in which the blocks are computed.
"""

import hashlib
import operator
import os
import secrets
import threading
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

_KEY_BYTES = 16
# Number of values per stream, unless something else divides them into blocks.
BLOCK = 2**16


class NoiseSource(Protocol):
    """Random streams of a release or of one step of it, one for each block of noise.

    `NoiseStreams` and `SentStreams` are those of a whole release, and `StepStreams`
    those of a step.
    """

    def stream(self, block: int) -> np.random.BitGenerator:
        """Bit generator of one block, at the start of its stream."""


def fresh_bits() -> np.random.BitGenerator:
    """Random bits from a new key, for draws that are not the noise of a release.

    No seed repeats them, and nobody can predict some of them from others.
    """
    return _stream(secrets.token_bytes(_KEY_BYTES), 0)


def words_of_part(seed: bytes, part: int, size: int) -> NDArray[np.uint64]:
    """Random words for the records of a part of the data; no two parts share any.

    Parameters
    ----------
    seed : bytes
        16 random ones, which serve nothing else.
    part : int
        In [0, 2**64).
    size : int
    """
    return _stream(seed, part).random_raw(size)


def _stream(key: bytes, block: int) -> np.random.BitGenerator:
    from randomgen import AESCounter

    words = np.frombuffer(key, dtype="<u8").astype(np.uint64)
    counter = np.array([0, operator.index(block)], dtype=np.uint64)
    return AESCounter(key=words, counter=counter)


class ReleaseCounter:
    """Count of the releases that an object has begun; no two threads share a number.

    Parameters
    ----------
    count : int, default=0
        Releases begun so far.
    """

    def __init__(self, count: int = 0) -> None:
        self._count = count
        self._locks: dict[int, threading.RLock] = {}

    @property
    def lock(self) -> threading.RLock:
        """Lock that a thread holds while it fits the object.

        Without the lock, the model of one thread could end up with the guarantee of
        another. Each forked process has its own lock: a lock that a thread of the
        parent held during the fork would never be released.
        """
        return self._locks.setdefault(os.getpid(), threading.RLock())

    def next(self) -> int:
        """Count one more release; return the number before it."""
        with self.lock:
            self._count += 1
            return self._count - 1

    def __reduce__(self) -> tuple[Any, ...]:
        return ReleaseCounter, (self._count,)


class NoiseStreams:
    """Random streams of one release, closed when the release ends.

    Parameters
    ----------
    random_state : int or None
        None takes a key from the operating system. With an integer, the key is a
        function of it and `n_releases`: reproducible, so no protection against anyone
        who knows or guesses the integer.
    n_releases : int
        Number of releases that the object made before this one.

    Attributes
    ----------
    are_recorded : bool
        Whether the open budgets have recorded the release. The gate of all releases
        sets it; sums over people and single values get noise from no other streams.
    """

    _key: bytes | None
    are_recorded = False

    def __init__(self, random_state: int | None, n_releases: int) -> None:
        self._taken: set[int] = set()
        if random_state is None:
            self._key = secrets.token_bytes(_KEY_BYTES)
        else:
            text = f"sktensordp release {operator.index(random_state)} {n_releases}"
            self._key = hashlib.sha256(text.encode()).digest()[:_KEY_BYTES]

    def stream(self, block: int) -> np.random.BitGenerator:
        """Bit generator of one block, at the start of its stream.

        Parameters
        ----------
        block : int
            In [0, 2**64).

        Returns
        -------
        bits : randomgen.AESCounter
            Its ``random_raw`` returns 64-bit words.
        """
        if self._key is None:
            raise RuntimeError(
                "This release has ended; its noise can be drawn only once."
            )
        return _stream(self._key, block)

    def step(self, number: int) -> "StepStreams":
        """Streams of one step of a release; no two steps share a stream.

        Parameters
        ----------
        number : int
            Number of the step, in [0, 2**32). A step uses fewer than 2**32 blocks.

        Returns
        -------
        streams : object
            Its ``stream`` takes the number of the block within the step.
        """
        return StepStreams(self, number)

    def take(self, number: int) -> "StepStreams":
        """Streams of one step, which can be taken only once.

        Parameters
        ----------
        number : int
            See `step`.

        Raises
        ------
        RuntimeError
            If they were taken before: two results would have the same noise.
        """
        if number in self._taken:
            raise RuntimeError(
                "The noise of this release was drawn before, so there is none for it. "
                "Nothing was released; please report this error."
            )
        self._taken.add(number)
        return self.step(number)

    def sent(self) -> "SentStreams":
        """The same streams for tasks that run elsewhere.

        Returns
        -------
        streams : SentStreams
        """
        return SentStreams(self._key, are_recorded=self.are_recorded)

    def close(self) -> None:
        """Forget the key."""
        self._key = None

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError(
            "The key of a release cannot be copied or pickled, and ends with it."
        )


class SentStreams(NoiseStreams):
    """Streams of a release that is computed later, and perhaps more than once.

    Anyone who has this object or a pickle of it can remove the noise.

    Parameters
    ----------
    key : bytes
    are_recorded : bool, default=False
    """

    def __init__(self, key: bytes | None, are_recorded: bool = False) -> None:
        self._key, self.are_recorded = key, are_recorded
        self._taken = set()

    def __reduce__(self) -> tuple[Any, ...]:
        return SentStreams, (self._key, self.are_recorded)


def check_recorded(streams: NoiseStreams | None) -> NoiseStreams:
    """Streams of a release that the open budgets have recorded; raise for all others.

    Raises
    ------
    RuntimeError
        If there are no streams, or no budget was asked to record their release.
    """
    if streams is None or not streams.are_recorded:
        raise RuntimeError(
            "No budget has recorded this release, so there is no noise for it. "
            "Nothing was released; please report this error."
        )
    return streams


class StepStreams:
    """Streams of one step of a release."""

    def __init__(self, streams: NoiseStreams, number: int) -> None:
        self._streams, self._number = streams, operator.index(number)

    def stream(self, block: int) -> np.random.BitGenerator:
        return self._streams.stream((self._number << 32) + block)
