"""The streams of a release: reproducible, disjoint, and forgotten at its end."""

import copy
import itertools
import os
import pickle
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from randomgen import AESCounter
from scipy.stats import chi2
from sklearn.base import clone

import sktensordp
from sktensordp._random import NoiseSource
from sktensordp.base import PrivateEstimatorMixin
from sktensordp.completion import CPCompletion

BLOCKS = [0, 1, 2, 2**16, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1]


def words(random_state, n_releases, block, size=8):
    return NoiseSource(random_state, n_releases).stream(block).random_raw(size)


def fresh():
    return words(None, 0, 0).tobytes()


def blocks_of(words):
    """128-bit blocks of the stream, as bytes."""
    return {pair.tobytes() for pair in words.reshape(-1, 2)}


class TestStreams:
    @pytest.mark.parametrize("block", BLOCKS)
    @pytest.mark.parametrize(("seed", "n_releases"), [(0, 0), (3, 7), (2**200, 10**9)])
    def test_repeatable(self, seed, n_releases, block):
        one = words(seed, n_releases, block, 1000)
        assert one.dtype == np.uint64
        assert_array_equal(words(seed, n_releases, block, 1000), one)
        source = NoiseSource(seed, n_releases)
        for _ in range(2):  # every stream begins at its beginning
            assert_array_equal(source.stream(block).random_raw(1000), one)

    @pytest.mark.parametrize("integer", [int, np.int64, np.uint8, np.intp])
    def test_integers_of_any_type(self, integer):
        assert_array_equal(
            words(integer(3), integer(4), integer(5)),
            words(3, 4, 5),
        )

    def test_seed_release_and_block_matter(self):
        # No 128-bit block occurs twice in any of 280 streams. By chance, one of
        # 17,920 random ones does with probability 5e-31.
        keys = [(s, n) for s in (0, 1, 2, 11, 12, 21, 2**64) for n in (0, 1, 2, 11)]
        streams = [
            words(seed, n_releases, block, 128)
            for (seed, n_releases), block in itertools.product(keys, BLOCKS)
        ]
        seen = set().union(*map(blocks_of, streams))
        assert len(seen) == len(keys) * len(BLOCKS) * 64

    def test_seed_and_release_do_not_run_together(self):
        # 1 and 23 are not 12 and 3, nor 123 and 0.
        keys = {words(s, n, 0).tobytes() for s, n in [(1, 23), (12, 3), (123, 0)]}
        assert len(keys) == 3

    @pytest.mark.parametrize("block", [0, 1, 2**32 - 1, 2**63 - 1, 2**64 - 2])
    def test_blocks_do_not_overlap(self, block):
        # No word of the first 4096 of a block occurs among those of the next, at
        # any shift: by chance one does with probability 1e-12.
        source = NoiseSource(5, 0)
        one = source.stream(block).random_raw(4096)
        other = source.stream(block + 1).random_raw(4096)
        assert len(np.unique(np.concatenate([one, other]))) == 8192

    def test_last_block_does_not_run_into_the_first(self):
        source = NoiseSource(5, 0)
        last, first = (source.stream(b).random_raw(4096) for b in (2**64 - 1, 0))
        assert len(np.intersect1d(last, first)) == 0

    def test_streams_are_far_apart(self):
        # A block reads the words of counters that begin with its number: 2^65 words
        # past the start of a block lies the next one, and no block is that long.
        source = NoiseSource(6, 0)
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
            NoiseSource(0, 0).stream(block)

    def test_order_does_not_matter(self):
        source = NoiseSource(7, 1)
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

    def test_threads_do_not_matter(self):
        source = NoiseSource(8, 0)
        expected = [source.stream(b).random_raw(10_000) for b in range(32)]
        with ThreadPoolExecutor(8) as pool:
            drawn = list(
                pool.map(lambda b: source.stream(b).random_raw(10_000), range(32))
            )
        assert_array_equal(drawn, expected)

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
        source = NoiseSource(0, 0)
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

    def test_release_number_is_not_needed(self):
        assert fresh() != words(None, 0, 0).tobytes() != words(None, 1, 0).tobytes()

    def test_threads(self):
        with ThreadPoolExecutor(8) as pool:
            drawn = set(pool.map(lambda _: fresh(), range(200)))
        assert len(drawn) == 200

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

    def test_spawned_process(self):
        code = (
            "from sktensordp._random import NoiseSource\n"
            "for state in (None, None, 3):\n"
            "    print(NoiseSource(state, 2).stream(1).random_raw(8).tobytes().hex())"
        )
        path = [str(Path(sktensordp.__file__).parents[1]), os.environ.get("PYTHONPATH")]
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))}
        outputs = [
            subprocess.run(
                [sys.executable, "-c", code],
                env=environ,
                capture_output=True,
                text=True,
                check=True,
                timeout=60,
            ).stdout.split()
            for _ in range(2)
        ]
        assert len({*outputs[0][:2], *outputs[1][:2]}) == 4
        # Seeded, any process gives the same.
        expected = words(3, 2, 1).tobytes().hex()
        assert outputs[0][2] == outputs[1][2] == expected


class TestEnd:
    @pytest.mark.parametrize("random_state", [None, 0])
    def test_closed_sources_give_no_stream(self, random_state):
        source = NoiseSource(random_state, 0)
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
        source = NoiseSource(0, 0)
        if closed:
            source.close()
        for thing in (source, [source], {"source": source}):
            with pytest.raises(TypeError, match="key of a release"):
                pickle.dumps(thing, protocol)

    @pytest.mark.parametrize("copier", [copy.copy, copy.deepcopy])
    def test_not_copied(self, copier):
        with pytest.raises(TypeError, match="key of a release"):
            copier(NoiseSource(None, 0))
        with pytest.raises(TypeError, match="key of a release"):
            copy.deepcopy([NoiseSource(0, 0)])

    @pytest.mark.parametrize("show", [repr, str, "{}".format, "{!r}".format, ascii])
    def test_key_is_not_shown(self, show):
        source = NoiseSource(12345678901234567890, 0)
        shown = show(source)
        key = source._key
        number = int.from_bytes(key, "little")
        secrets = [key.hex(), repr(key), str(number), f"{number:x}", "1234567890123"]
        assert not any(secret in shown for secret in secrets)

    def test_release_closes(self):
        class Releaser(PrivateEstimatorMixin):
            random_state = None

        releaser, sources = Releaser(), []
        with releaser._release("planned") as source:
            sources.append(source)
            assert releaser.privacy_guarantee_ == "planned"
            source.stream(0)
        with (  # noqa: PT012 (the block is what is interrupted)
            pytest.raises(KeyboardInterrupt),
            releaser._release("planned") as source,
        ):
            sources.append(source)
            raise KeyboardInterrupt
        for source in sources:
            with pytest.raises(RuntimeError, match="ended"):
                source.stream(0)

    def test_interrupted_release_counts(self):
        class Releaser(PrivateEstimatorMixin):
            random_state = 0

        releaser, drawn = Releaser(), []
        for interrupted in (False, True, False):
            try:
                with releaser._release("planned") as source:
                    drawn.append(source.stream(0).random_raw(4).tobytes())
                    if interrupted:
                        raise KeyboardInterrupt
            except KeyboardInterrupt:
                assert interrupted
        assert drawn == [words(0, n, 0, 4).tobytes() for n in range(3)]
        assert len(set(drawn)) == 3


class TestReleases:
    """No two releases of one estimator share noise."""

    X = np.indices((6, 5)).reshape(2, -1).T
    y = np.linspace(0, 1, 30)

    def model(self, random_state):
        return CPCompletion(
            perturbation="input",
            rank=1,
            epsilon=1.0,
            value_bounds=(0, 1),
            max_iter=2,
            random_state=random_state,
        )

    def fits(self, model, n_fits):
        return [model.fit(self.X, self.y).predict(self.X) for _ in range(n_fits)]

    def test_two_fits_of_one_object_differ(self):
        fits = self.fits(self.model(0), 4)
        for one, other in itertools.combinations(fits, 2):
            assert not np.allclose(one, other)

    def test_offset_is_that_of_the_release(self):
        # The noise of fit number n is that of the source (0, n), and no other.
        model = self.model(0)
        for n in range(3):
            model.fit(self.X, self.y)
            noisy = model._plan().randomize(self.y, NoiseSource(0, n))
            assert model.offset_ == np.clip(noisy.mean(), 0, 1)
        assert model._releases.next() == 3

    def test_clones_with_the_same_int_repeat(self):
        model = self.model(0)
        first = self.fits(clone(model), 2)
        model.fit(self.X, self.y)
        again = self.fits(clone(model), 2)
        assert_array_equal(again, first)
        assert_array_equal(model.predict(self.X), first[0])

    def test_clones_with_another_int_differ(self):
        one, other = (self.fits(self.model(seed), 1) for seed in (0, 1))
        assert not np.allclose(one, other)

    def test_clones_without_an_int_differ(self):
        # Nothing is seeded here; the released values have 2^20 levels a standard
        # deviation, so that equal factors are as good as impossible. (The offset
        # alone would not do: it is clipped to the range.)
        model = self.model(None)
        models = [model, model, clone(model), clone(model)]
        drawn = []
        for one in models:
            one.fit(self.X, self.y)
            drawn.append((one.offset_, *one.factors_[0].ravel(), one.noise_variance_))
        assert len(set(drawn)) == 4

    def test_equal_values_get_different_noise(self):
        # Within a release no two values share noise either: blocks are 2^16 long.
        model = self.model(3)
        y = np.full(3 * 2**16, 0.5)
        noisy = model._plan().randomize(y, NoiseSource(3, 0)).reshape(3, -1)
        for one, other in itertools.combinations(noisy, 2):
            # Two draws agree with probability 2.4e-7: the count of 65,536 exceeds 3
            # with probability 2e-9.
            assert np.sum(one == other) <= 3
            assert abs(np.corrcoef(one, other)[0, 1]) < 4.9 / 2**8  # 1e-6
