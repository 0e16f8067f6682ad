"""Clients of encoders as text: the same noise, no code, no seed."""

import json
import math
import pickle
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

from sktensordp.completion import CompletionClient
from sktensordp.encoding import EncoderClient, TaskAgnosticEncoder, TaskAwareEncoder
from sktensordp.papers import PublishedTaskAwareEncoder
from tests.support.noise import drawing
from tests.support.refusing import assert_hostile_texts_are_refused, refused
from tests.support.seams import make_client

X, Y = make_classification(120, 5, random_state=0)
X[:, 3] = 2.0  # a column that does not vary enters no code
CLASSIFIER = LogisticRegression().fit(X, Y)
ENCODERS = {
    **{
        mechanism: TaskAwareEncoder(
            2.0, task=np.eye(2, 5), mechanism=mechanism,
            delta=1e-5 * (mechanism == "gaussian"),
        )
        for mechanism in ("laplace", "l2", "privunit", "gaussian")
    },
    "without noise": TaskAwareEncoder(math.inf, task=np.eye(2, 5)),
    "without noise, clipped": TaskAwareEncoder(math.inf, task=np.eye(2, 5), clip=1.0),
    "agnostic": TaskAgnosticEncoder(2.0),
    "learned": TaskAwareEncoder(4.0, task=CLASSIFIER, n_components=2),
    "learned with hidden units": TaskAwareEncoder(
        4.0, task=CLASSIFIER, n_components=2, encoder="mlp"
    ),
    "learned, gaussian": TaskAwareEncoder(
        4.0, delta=1e-5, task=CLASSIFIER, n_components=2, mechanism="gaussian"
    ),
}  # fmt: skip


@pytest.fixture(scope="module", params=ENCODERS)
def client(request):
    return ENCODERS[request.param].fit(X).client(random_state=3)


def test_a_client_made_of_text_releases_the_same_codes(client):
    text = client.to_json()
    assert "random" not in text
    shipped = EncoderClient.from_json(text)
    assert shipped.random_state is None
    assert shipped.to_json() == text
    assert shipped.privacy_guarantee_ == client.privacy_guarantee_
    assert shipped.sample_shape == client.sample_shape
    shipped.random_state = client.random_state
    for rows in (X, X.astype(np.float32), 1e300 * X):
        np.testing.assert_array_equal(shipped.privatize(rows), client.privatize(rows))


def test_texts_that_are_no_client_are_refused(client):
    assert_hostile_texts_are_refused(client, lambda found: found.privatize(1e300 * X))


@pytest.mark.parametrize(
    ("mechanism", "delta", "accepts"),
    [("privunit", 0.0, {}), ("gaussian", 1e-5, {"max_delta": 1e-5})],
)
def test_a_device_accepts_no_larger_epsilon(mechanism, delta, accepts):
    encoder = TaskAwareEncoder(8.0, delta=delta, mechanism=mechanism).fit(X, Y)
    text = encoder.client().to_json()
    spent = encoder.privacy_guarantee_.epsilon
    for ceiling in (8, 8.0, 1000, math.inf):
        client = EncoderClient.from_json(text, max_epsilon=ceiling, **accepts)
        assert client.privacy_guarantee_.epsilon == spent
    for ceiling in (4, math.nextafter(spent, 0)):
        with pytest.raises(ValueError, match="epsilon = 8, but this device accepts"):
            EncoderClient.from_json(text, max_epsilon=ceiling, **accepts)
    open_text = encoder.set_params(epsilon=math.inf).fit(X, Y).client().to_json()
    EncoderClient.from_json(open_text)
    for ceiling in (8, math.inf):
        with pytest.raises(ValueError, match="epsilon = inf, but this device accepts"):
            EncoderClient.from_json(open_text, max_epsilon=ceiling, **accepts)


def test_a_device_accepts_no_larger_delta():
    """Epsilon alone says nothing: with a delta of .9, noise is next to none."""
    encoder = TaskAwareEncoder(8.0, delta=0.9, mechanism="gaussian").fit(X, Y)
    text = encoder.client().to_json()
    with pytest.raises(ValueError, match=r"delta = 0\.9, but this device accepts"):
        EncoderClient.from_json(text, max_epsilon=8)
    EncoderClient.from_json(text, max_epsilon=8, max_delta=0.9)


@pytest.mark.parametrize("wrong", [0, -1, math.nan, "8", [8], True])
def test_a_ceiling_is_a_positive_number(wrong):
    text = TaskAwareEncoder(8.0).fit(X, Y).client().to_json()
    with pytest.raises((TypeError, ValueError), match="max_epsilon must be"):
        EncoderClient.from_json(text, max_epsilon=wrong)


def test_a_text_states_no_guarantee_that_it_does_not_calibrate():
    """A smaller epsilon in the text gives more noise, and not just a claim."""
    client = ENCODERS["laplace"].fit(X).client()
    fields = json.loads(client.to_json())
    strict = EncoderClient.from_json(json.dumps({**fields, "epsilon": 0.2}))
    assert strict.privacy_guarantee_.epsilon == 0.2
    scale, stricter = (
        one.randomizer.noise.lattice.noise_variance for one in (client, strict)
    )
    assert stricter == pytest.approx(100 * scale, rel=0.01)
    assert "guarantee" not in fields


def test_noise_of_a_paper_has_no_text():
    encoder = PublishedTaskAwareEncoder(2.0, task=np.eye(2, 5)).fit(X)
    with pytest.raises(ValueError, match="Only clients of the core"):
        encoder.client().to_json()


# --- hostile servers ------------------------------------------------------------------

# The largest numbers that a text may hold, and others that are near zero.
ENDS = {
    "mean": (-1e300, -5e-324, 0.0, 5e4, 1e300),
    "scale": (1e-300, 1.0, 1e300),
    "matrix": (-1e150, -5e-324, 0.0, 1e150),
    "vector": (-1e150, -5e-324, 0.0, 1e150),
}
HUGE = float(np.finfo(float).max)
ODD = (
    0.0, -0.0, 5e-324, -1e-310, 1.0, 5e4 - 1, 5e4 + 1, 1e150, 1e308, -1e308, HUGE,
    -HUGE, math.nan, math.inf, -math.inf,
)  # fmt: skip
SAMPLES = np.array(
    [
        *([x] * 5 for x in ODD),
        *([x, -x, x, 0.0, 1.0] for x in ODD),
        [1e-320, 1e308, -1e-160, 1e160, 1.0],
        [math.inf, -math.inf, 0.0, math.nan, 1.0],
    ]
)


@pytest.fixture(scope="module")
def made():
    """Function: the client of one of the encoders; each is fitted once."""
    known = {}

    def client_of(name):
        if name not in known:
            known[name] = pickle.dumps(ENCODERS[name].fit(X).client())
        return pickle.loads(known[name])

    return client_of


def with_numbers(client, chosen):
    """The client with other numbers in the fields of its text, from what it admits."""
    fields = json.loads(client.to_json())
    for name in chosen.keys() & fields.keys():
        fields[name] = np.resize(chosen[name], np.shape(fields[name])).tolist()
    read = EncoderClient.from_json(json.dumps(fields))
    read.random_state = 7
    return read


def hostile_clients(client):
    """Each field of ends alone, then all together, in some orders."""
    rng, fields = np.random.default_rng(0), json.loads(client.to_json()).keys()
    for name in ENDS.keys() & fields:
        for end in ENDS[name]:
            yield with_numbers(client, {name: end})
    for _ in range(12):
        yield with_numbers(client, {n: rng.choice(e, 64) for n, e in ENDS.items()})


class Shown:
    """In place of a map or noise: keeps its input and output, and does as it does."""

    def __init__(self, inner):
        self.inner, self.seen, self.made = inner, [], []

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def _show(self, method, values, *args):
        self.seen.append(np.array(values))
        self.made.append(getattr(self.inner, method)(values, *args))
        return self.made[-1]

    def __call__(self, *args):
        return self._show("__call__", *args)

    def randomize(self, *args):
        return self._show("randomize", *args)

    def estimates(self, *args):
        return self._show("estimates", *args)


def test_clients_are_made_by_others():
    with pytest.raises(TypeError, match="`client` method of a fitted encoder"):
        EncoderClient(None, (2,), None, "laplace")
    with pytest.raises(TypeError, match="`client` method of a completion, or from"):
        CompletionClient(1.0)


def showing(client):
    """The same client; what shows its map; and its codes as they are randomised."""
    noise = client.randomizer.noise
    (inner,) = {"lattice", "cap"} & vars(noise).keys()
    encoder, shown = Shown(client.randomizer.encoder), Shown(getattr(noise, inner))
    noise = replace(noise, **{inner: shown})
    randomizer = replace(client.randomizer, encoder=encoder, noise=noise)
    other = make_client(
        EncoderClient,
        randomizer,
        client.privacy_guarantee_,
        7,
        sample_shape=client.sample_shape,
        mechanism=client.mechanism,
    )
    return other, encoder, shown


def assert_every_sample_is_answered(client, samples):
    """Each alone, by as many numbers, from a code in the clip set."""
    client, encoder, shown = showing(client)
    on_sphere = hasattr(shown, "sampler")
    n_components = client.privatize(X[:1]).shape[1]
    for dtype in (np.float64, np.float32):
        with np.errstate(all="ignore"):
            rows = samples.astype(dtype)
        for row in rows:
            with np.errstate(all="raise"):
                answer = client.privatize(row[np.newaxis])
            assert answer.dtype == dtype
            assert answer.shape == (1, n_components)
            assert np.all(np.isfinite(answer))
            # NaN alone makes a code that has to be replaced.
            assert np.any(np.isnan(row)) or np.all(np.isfinite(encoder.made[-1]))
    codes = np.concatenate(shown.seen)
    order = getattr(client.randomizer.noise, "order", 2)
    lengths = np.linalg.norm(codes, order, axis=1)
    # Not true of NaN.
    assert np.all(lengths < 1 + 1e-12)
    assert np.all(lengths > 1 - 1e-12) or not on_sphere


NOISY = [name for name in ENCODERS if not name.startswith("without")]


@pytest.mark.parametrize("name", NOISY)
def test_a_server_learns_no_exact_bit(name, made):
    """Differences of its numbers were NaN, and decided whether an answer came."""
    text = {"mean": [5e4, -1e300], "scale": 1e-300, "matrix": 1e150, "vector": 1e150}
    assert_every_sample_is_answered(with_numbers(made(name), text), SAMPLES[::3])


@pytest.mark.parametrize("how", ["warn", "raise"])
def test_no_warning_tells_of_a_sample(how, made):
    """Warnings are errors here, and may be elsewhere."""
    client = with_numbers(made("laplace"), {"mean": 0.0, "scale": 1e300})
    rows = np.array([[1e-50] * 5, [1e300] * 5], np.longdouble)
    with np.errstate(all=how):
        for row in (rows[:1], rows[1:] * np.longdouble("1e3000")):
            assert np.all(np.isfinite(client.privatize(row)))


@pytest.mark.thorough
@pytest.mark.parametrize("name", NOISY)
def test_no_text_makes_an_answer_depend_on_a_sample(name, made):
    """As a server would write it to learn an exact bit: warnings are errors here."""
    for client in hostile_clients(made(name)):
        assert_every_sample_is_answered(client, SAMPLES)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["laplace", "learned with hidden units"])
def test_no_generated_text_makes_an_answer_depend_on_a_sample(name, made):
    client = made(name)
    limits = {"mean": (-1e300, 1e300), "scale": (1e-300, 1e300)}
    numbers = {
        field: st.floats(*limits.get(field, (-1e150, 1e150))) | st.sampled_from(ends)
        for field, ends in ENDS.items()
    }

    @settings(max_examples=100, deadline=None, derandomize=True, database=None)
    @given(
        st.fixed_dictionaries(
            {f: st.lists(n, min_size=1, max_size=9) for f, n in numbers.items()}
        ),
        st.lists(st.floats() | st.sampled_from(ODD), min_size=5, max_size=5),
    )
    def holds(chosen, sample):
        assert_every_sample_is_answered(
            with_numbers(client, chosen), np.array([sample])
        )

    holds()


@pytest.mark.parametrize("name", ["laplace", "l2", "gaussian"])
def test_every_sample_takes_as_many_random_numbers(name, made):
    """So the time of an answer does not follow from the sample."""
    client = with_numbers(
        made(name), {"mean": [5e4, -1e300], "scale": 1e-300, "matrix": [1e150, -1e150]}
    )
    used = set()
    for row in [*SAMPLES, *SAMPLES[:2]]:
        ends = []
        with drawing(after=lambda source, block, bits, to=ends: to.append(bits)):
            pickle.loads(pickle.dumps(client)).privatize(row[np.newaxis])
        words = [int(bits.random_raw(1)[0]) for bits in ends]
        used.add(tuple(words))
    assert len(used) == len(words) == 1


@pytest.mark.parametrize("name", NOISY)
def test_a_sample_that_is_no_number_has_the_code_zero(name, made):
    """The same noise as of any other sample is added to it."""
    client = with_numbers(made(name), {})
    far = X[:3].copy()
    far[1] = math.nan
    zero, _, shown = showing(client)
    zero.privatize(far)
    codes = np.concatenate(shown.seen)
    if hasattr(shown, "sampler"):
        assert abs(codes[1, -1]) == pytest.approx(1)
    else:
        assert not codes[1].any()
    plain, _, alone = showing(client)
    plain.privatize(X[:3])
    # The other samples of the call are not touched.
    np.testing.assert_array_equal(codes[::2], np.concatenate(alone.seen)[::2])


@pytest.mark.parametrize("field", ["matrix", "vector"])
@pytest.mark.parametrize("number", [1.1e150, -1e300])
def test_texts_with_larger_numbers_are_refused(field, number, made):
    client = made("laplace" if field == "matrix" else "learned")
    assert with_numbers(client, {field: 1e150}).mechanism == client.mechanism
    with pytest.raises(ValueError, match=field):
        with_numbers(client, {field: number})


ODD_ENTRIES = (
    None, pd.NA, pd.NaT, np.ma.masked, "x", "", b"x", 1j, np.complex64(1j), 10**400,
    -(10**400), Fraction(10**400), Decimal("sNaN"), np.datetime64("2020"), {}, object(),
    [1, 2], np.zeros(1), np.zeros(2), math.nan,
)  # fmt: skip


@pytest.mark.parametrize("entry", ODD_ENTRIES, ids=lambda one: type(one).__name__)
def test_an_odd_entry_is_answered_in_every_container(entry, made):
    """A refusal would tell of it. Rows beside it keep their codes and their type."""
    client, plain = made("without noise"), X[:2].tolist()
    expected = client.privatize(plain)
    odd = [list(row) for row in plain]
    odd[0][1] = entry
    forms = [odd, [tuple(row) for row in odd]]
    if not isinstance(entry, list | np.ndarray) and entry is not np.ma.masked:
        objects = np.empty((2, 5), object)
        for place in np.ndindex(2, 5):
            objects[place] = odd[place[0]][place[1]]
        forms += [objects, pd.DataFrame(objects)]
    if entry is np.ma.masked:
        mask = np.zeros((2, 5), bool)
        mask[0, 1] = True
        forms += [np.ma.array(X[:2], mask=mask), list(np.ma.array(X[:2], mask=mask))]
    is_large = isinstance(entry, int | Fraction)
    for form in forms:
        found = client.privatize(form)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found[1], expected[1])
        assert np.all(np.isfinite(found))
        assert np.any(found[0]) == is_large


@pytest.mark.parametrize(
    "wrong",
    [
        X[:2].astype(str), X[:2] + 0j, np.full((2, 5), "NaT", "M8[s]"), X[:2, :3], X[0],
        X[:0], [[1.0] * 5, [1.0]], 3.0,
    ],
)  # fmt: skip
def test_a_form_is_refused_whatever_it_holds(wrong, made):
    with refused("must hold"):
        made("laplace").privatize(wrong)
