"""The streams of a release: reproducible, disjoint, and forgotten at its end."""

import copy
import itertools
import os
import pickle
import warnings

import numpy as np
import pytest
from dp_accounting import LaplaceDpEvent
from numpy.testing import assert_array_equal
from randomgen import AESCounter
from scipy.stats import chi2

from sktensordp.base import PrivateEstimatorMixin, recorded_call
from sktensordp.privacy import PrivacyGuarantee
from tests.support.noise import following_from
from tests.support.seams import NoiseStreams

BLOCKS = [0, 1, 2, 2**16, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1]


def words(random_state, n_releases, block, size=8):
    return NoiseStreams(random_state, n_releases).stream(block).random_raw(size)


def fresh():
    return words(None, 0, 0).tobytes()


def blocks_of(words):
    """128-bit blocks of the stream, as bytes."""
    return {pair.tobytes() for pair in words.reshape(-1, 2)}


def test_noise_of_a_test_follows_from_its_name(request):
    """So no run fails by chance; without the fixture, this fails but for 1 in 2^128."""
    if request.config.getoption("fresh_noise"):
        pytest.skip("noise is fresh in this run")
    found = fresh()
    with following_from(request.node.nodeid):
        assert fresh() == found
        assert fresh() != found
    with following_from("another test"):
        assert fresh() != found


class TestStreams:
    @pytest.mark.parametrize("block", BLOCKS)
    @pytest.mark.parametrize(("seed", "n_releases"), [(0, 0), (3, 7), (2**200, 10**9)])
    def test_repeatable(self, seed, n_releases, block):
        one = words(seed, n_releases, block, 1000)
        assert one.dtype == np.uint64
        assert_array_equal(words(seed, n_releases, block, 1000), one)
        source = NoiseStreams(seed, n_releases)
        for _ in range(2):  # every stream begins at its beginning
            assert_array_equal(source.stream(block).random_raw(1000), one)

    @pytest.mark.parametrize("integer", [int, np.int64, np.uint8, np.intp])
    def test_integers_of_any_type(self, integer):
        assert_array_equal(
            words(integer(3), integer(4), integer(5)),
            words(3, 4, 5),
        )

    def test_seed_release_and_block_matter(self):
        # No 128-bit block occurs twice in any of 310 streams. By chance, one of
        # 19,840 random ones does with probability 5e-31.
        keys = [(s, n) for s in (0, 1, 2, 11, 12, 21, 2**64) for n in (0, 1, 2, 11)]
        # 1 and 23 are not 12 and 3, nor 123 and 0.
        keys += [(1, 23), (12, 3), (123, 0)]
        streams = [
            words(seed, n_releases, block, 128)
            for (seed, n_releases), block in itertools.product(keys, BLOCKS)
        ]
        seen = set().union(*map(blocks_of, streams))
        assert len(seen) == len(keys) * len(BLOCKS) * 64

    def test_streams_are_far_apart(self):
        # A block reads the words of counters that begin with its number: 2^65 words
        # past the start of a block lies the next one, and no block is that long.
        source = NoiseStreams(6, 0)
        for block in (0, 7, 2**63):
            far = source.stream(block)
            far.advance(2**65)
            assert_array_equal(
                far.random_raw(64), source.stream(block + 1).random_raw(64)
            )
            near = source.stream(block)
            near.advance(2**64)
            assert not np.intersect1d(
                near.random_raw(4096), source.stream(block + 1).random_raw(4096)
            ).size

    @pytest.mark.parametrize("block", [-1, 2**64, 2**70])
    def test_blocks_out_of_range(self, block):
        with pytest.raises(OverflowError):
            NoiseStreams(0, 0).stream(block)

    def test_order_does_not_matter(self):
        source = NoiseStreams(7, 1)
        expected = {b: source.stream(b).random_raw(100) for b in BLOCKS}
        for b in reversed(BLOCKS):
            assert_array_equal(source.stream(b).random_raw(100), expected[b])
        # Streams that are read in turns, in pieces.
        open_streams = {b: source.stream(b) for b in BLOCKS}
        pieces = {b: [] for b in BLOCKS}
        for size in (1, 2, 5, 92):
            for b, one in open_streams.items():
                pieces[b].append(one.random_raw(size))
        for b in BLOCKS:
            assert_array_equal(np.concatenate(pieces[b]), expected[b])

    def test_uniform_bits(self):
        # Each of the 64 bits is even, and bits of neighbouring words, blocks and
        # releases are not correlated: chi-square over 4 * 64 cells, false-alarm
        # rate 1e-6.
        n = 2**14
        streams = [words(*key, n) for key in [(9, 0, 0), (9, 0, 1), (9, 1, 0)]]
        shift = np.arange(64, dtype=np.uint64)
        base = streams[0]
        statistic = 0.0
        for other in (np.zeros_like(base), np.roll(base, 1), streams[1], streams[2]):
            bits = (base ^ other)[:, None] >> shift & np.uint64(1)
            ones = bits.sum(axis=0).astype(float)
            statistic += np.sum((ones - n / 2) ** 2 / (n / 4))
        assert chi2.sf(statistic, 4 * 64) > 1e-6

    def test_known_answers_of_aes(self):
        # FIPS 197, appendix C.1, and the encryption of zero under the key zero.
        def little_endian(text):
            return np.frombuffer(bytes.fromhex(text), dtype="<u8").astype(np.uint64)

        bits = AESCounter(
            key=little_endian("000102030405060708090a0b0c0d0e0f"),
            counter=little_endian("00112233445566778899aabbccddeeff"),
        )
        assert_array_equal(
            bits.random_raw(2), little_endian("69c4e0d86a7b0430d8cdb78070b4c55a")
        )
        source = NoiseStreams(0, 0)
        source._key = bytes(16)
        assert_array_equal(
            source.stream(0).random_raw(2),
            little_endian("66e94bd4ef8a2c3b884cfa59ca342b2e"),
        )


class TestFreshEntropy:
    def test_every_source(self):
        assert len({fresh() for _ in range(200)}) == 200

    def test_not_from_numpy_or_random(self):
        # Seeds that somebody else has set do not matter.
        drawn = set()
        state = np.random.get_state()  # noqa: NPY002 (the global state is the point)
        try:
            for _ in range(3):
                np.random.seed(0)  # noqa: NPY002
                drawn.add(fresh())
        finally:
            np.random.set_state(state)  # noqa: NPY002
        assert len(drawn) == 3

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
    def test_fork(self):
        drawn = [fresh()]
        for _ in range(3):
            reader, writer = os.pipe()
            with warnings.catch_warnings():
                # Newer Pythons warn of forks where there are threads.
                warnings.simplefilter("ignore", DeprecationWarning)
                child = os.fork()
            if child == 0:
                try:
                    os.write(writer, fresh())
                finally:
                    os._exit(0)
            os.close(writer)
            with os.fdopen(reader, "rb") as pipe:
                drawn.append(pipe.read())
            os.waitpid(child, 0)
            drawn.append(fresh())
        assert {len(one) for one in drawn} == {64}
        assert len(set(drawn)) == 7


class TestEnd:
    @pytest.mark.parametrize("random_state", [None, 0])
    def test_closed_sources_give_no_stream(self, random_state):
        source = NoiseStreams(random_state, 0)
        source.stream(0)
        for _ in range(2):  # closing twice is fine
            source.close()
            with pytest.raises(RuntimeError, match="ended"):
                source.stream(0)
        assert not [
            value for value in vars(source).values() if isinstance(value, bytes)
        ]

    @pytest.mark.parametrize("closed", [False, True])
    @pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
    def test_not_pickled(self, closed, protocol):
        source = NoiseStreams(0, 0)
        if closed:
            source.close()
        for thing in (source, [source], {"source": source}):
            with pytest.raises(TypeError, match="key of a release"):
                pickle.dumps(thing, protocol)

    @pytest.mark.parametrize("recorded", [False, True])
    def test_what_is_sent_counts_as_recorded_only_if_it_is(self, recorded):
        source = NoiseStreams(0, 0)
        source.are_recorded = recorded
        for sent in (source.sent(), pickle.loads(pickle.dumps(source.sent()))):
            assert sent.are_recorded == recorded
            words = [streams.stream(3).random_raw(4) for streams in (source, sent)]
            assert_array_equal(*words)

    @pytest.mark.parametrize("copier", [copy.copy, copy.deepcopy])
    def test_not_copied(self, copier):
        with pytest.raises(TypeError, match="key of a release"):
            copier(NoiseStreams(None, 0))
        with pytest.raises(TypeError, match="key of a release"):
            copy.deepcopy([NoiseStreams(0, 0)])

    @pytest.mark.parametrize("show", [repr, str, "{}".format, "{!r}".format, ascii])
    def test_key_is_not_shown(self, show):
        source = NoiseStreams(12345678901234567890, 0)
        shown = show(source)
        key = source._key
        number = int.from_bytes(key, "little")
        secrets = [key.hex(), repr(key), str(number), f"{number:x}", "1234567890123"]
        assert not any(secret in shown for secret in secrets)

    def test_interrupted_release_counts(self):
        class Releaser(PrivateEstimatorMixin):
            random_state = 0

        planned = PrivacyGuarantee(
            epsilon=1.0, delta=0.0, unit="entry", event=LaplaceDpEvent(1.0),
            relation="replace-one", statement="", source="",
        )  # fmt: skip
        releaser, drawn, sources = Releaser(), [], []
        for interrupted in (False, True, False):
            try:
                with recorded_call(releaser, planned) as source:
                    sources.append(source)
                    drawn.append(source.stream(0).random_raw(4).tobytes())
                    if interrupted:
                        raise KeyboardInterrupt
            except KeyboardInterrupt:
                assert interrupted
        assert drawn == [words(0, n, 0, 4).tobytes() for n in range(3)]
        assert len(set(drawn)) == 3
        for source in sources:
            with pytest.raises(RuntimeError, match="ended"):
                source.stream(0)
