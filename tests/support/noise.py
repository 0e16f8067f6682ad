"""Noise: sources and streams made from a seed, and those that releases take.

The one place, but for the tests of samplers, that knows where all noise comes from.
"""

import hashlib
import itertools
import math
import os
import secrets
from contextlib import ExitStack, contextmanager
from functools import partial
from types import SimpleNamespace
from unittest import mock

import numpy as np

from tests.support.points import POINTS
from tests.support.seams import (
    NoiseStreams,
    ReleaseCounter,
    SentStreams,
    sktensordp_random,
)

FILE = sktensordp_random.__file__
_STREAM = NoiseStreams.stream


def source_of(seed, n_releases=0):
    """What a release takes all its noise from, once it is recorded."""
    streams = NoiseStreams(seed, n_releases)
    streams.are_recorded = True
    return streams


def stream_of(seed, block=0):
    """Bits of one block of a release."""
    return source_of(seed).stream(block)


def key_of(source):
    return source._key


def words_of(key, block=0):
    """First words of a stream as bytes, whoever looks on."""
    return _STREAM(SentStreams(key), block).random_raw(2).tobytes()


def n_begun(estimator):
    """How many releases an object has begun."""
    return getattr(estimator, "_releases", ReleaseCounter())._count


def begin_at(estimator, n_releases):
    """Let an object go on as if it had begun so many releases."""
    estimator._releases = ReleaseCounter(n_releases)


def _ignored(*_):
    pass


def _around(name, call):
    """While this lasts, a method is call(the method of a source, source, *args)."""
    method = getattr(NoiseStreams, name)
    return mock.patch.object(
        NoiseStreams,
        name,
        lambda source, *args: call(partial(method, source), source, *args),
    )


@contextmanager
def taking():
    """Keys that are taken while this lasts, of which all noise comes: a list."""
    taken = []

    def take(start, source, *args):
        start(*args)
        taken.append(key_of(source))

    with _around("__init__", take):
        yield taken


@contextmanager
def drawing(before=_ignored, after=_ignored):
    """The streams of noise that are opened while this lasts: keys and blocks.

    Before each is opened, `before` is called with how many there were, and then `after`
    with the source, the block and the bits.
    """
    opened = []

    def draw(start, source, block):
        before(len(opened))
        opened.append((key_of(source), int(block)))
        bits = start(block)
        after(source, block, bits)
        return bits

    with _around("stream", draw):
        yield opened


def closing(before):
    """While this lasts, `before` is called with every source that is to be closed."""

    def close(end, source):
        before(source)
        end()

    return _around("close", close)


def one_key():
    """While this lasts, all releases have the same noise."""
    return _around("__init__", lambda start, source, *_: start(0, 0))


def following_from(name):
    """While this lasts, keys of the operating system follow from a name.

    Forks draw their own.
    """
    numbers, process = itertools.count(), os.getpid()

    def token_bytes(size):
        if os.getpid() != process:
            return secrets.token_bytes(size)
        return hashlib.shake_128(f"{name} {next(numbers)}".encode()).digest(size)

    return mock.patch.object(
        sktensordp_random, "secrets", SimpleNamespace(token_bytes=token_bytes)
    )


def constant_noise(level):
    """While this lasts, all noise on lattices is at one point of its range.

    At 0 there is none, at 1 and -1 it is at an end (no larger one has a probability of
    e^-60).
    """

    def normal(bits, size, clip=math.inf):
        return np.resize(level, size) * min(clip, 11.0)

    def laplace(bits, numerator, denominator, size):
        return (np.resize(level, size) * (60 * denominator // numerator)).astype(int)

    stack = ExitStack()
    stack.enter_context(mock.patch.object(*POINTS["normal noise of a lattice"], normal))
    for kind in ("Laplace noise of a lattice", "noise of responses"):
        stack.enter_context(mock.patch.object(*POINTS[kind], laplace))
    return stack
