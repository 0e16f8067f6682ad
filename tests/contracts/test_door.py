"""What every estimator that releases sums over people promises, at the limits.

A fit is recorded, and then repeated for other forms of one person, with the recorded
releases in place of its own: so every fit asks the same questions. What leaves is then
compared for every two neighbours, on the sums alone and not on the lengths that a kind
of sums reports of its people. A kind of sums, or of questions, that no case releases
fails a test.
"""

import itertools
import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest

from sktensordp import measure
from sktensordp.completion import (
    CPCompletion,
    ImplicitCompletion,
    TuckerCompletion,
    fit_aggregated,
    party,
)
from sktensordp.counts import TensorCounts
from sktensordp.measure import ROUNDED_UP, BoundedSums
from sktensordp.model_selection import PrivateSearchCV
from sktensordp.moments import (
    MultilinearPCA,
    MultilinearRidge,
    MultilinearRidgeClassifier,
)
from tests.support.leaving import kinds_of_questions, kinds_of_sums, leaving
from tests.support.points import POINTS
from tests.support.replaying import accounted, with_a_pattern
from tests.support.requests import Sums as Carrier
from tests.support.seams import LARGEST_CORE, LARGEST_SAMPLE, Samples

pytestmark = [
    pytest.mark.filterwarnings("ignore::sktensordp.exceptions.AveragesOnlyWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::sktensordp.exceptions.NoiseOnlyWarning"),
    # Of samples that are pandas' or of other types, nothing is said here.
    pytest.mark.filterwarnings("ignore:.*at one end|.*end of the declared range"),
    pytest.mark.filterwarnings("ignore:The fit got:UserWarning"),
]


@dataclass(frozen=True, eq=False)
class Case:
    """One person in several forms, among others.

    Attributes
    ----------
    fit : callable
        Fits an estimator to the others and to one form of the person; returns an object
        with the guarantee of all releases.
    forms : list
        Of add-or-remove, the first is that of somebody who is not there.
    n_others : int
    replaces : bool
        Whether neighbours replace the person, or else add or remove it.
    least : float
        What the worst neighbours use up of the guarantee at least.
    context : callable
        Makes a context for the fits.
    """

    fit: Callable
    forms: list
    n_others: int
    replaces: bool
    least: float
    context: Callable = nullcontext

    @property
    def pairs(self):
        """Numbers of neighbouring forms."""
        numbers = range(len(self.forms))
        pairs = list(itertools.combinations(numbers, 2))
        return pairs if self.replaces else [(a, b) for a, b in pairs if a == 0]

    def n_people(self, number):
        """How many people there are with this form of the person."""
        return self.n_others + (self.replaces or number > 0)


# --- samples --------------------------------------------------------------------------


def samples(shape, bound):
    """A person's tensor: as long as it may be, longer, or next to nothing."""
    n = math.prod(shape)
    first, last = np.eye(n)[[0, -1]]
    unit = [
        first,
        # With a constant of .5 and opposite targets, orthogonal to the first.
        0.75 * first + math.sqrt(1 - 0.75**2) * last,
        last,
        -first,
        np.full(n, n**-0.5),
        np.resize([1.0, -1.0], n) * n**-0.5,
        np.zeros(n),
        np.random.default_rng(n).standard_normal(n),
    ]
    beyond = [np.full(n, 1e308), np.resize([5e-324, -1e300], n), np.full(n, 5e-324)]
    return [x.reshape(shape) for x in [bound * x for x in unit] + beyond]


# Most units of a mode, whose indices are below 2^31 - 1.
MOST_USERS = 2**31 - 1
TARGETS = [1e300, -1.0, 1.0, -1e300, 0.0, 5e-324, 0.3, -1.0, 1.0, -0.0, 1.0]
# Of numbers, a label of another kind is no label.
LABELS = [0, "0", 1, 10**25, 0.5, "x", 1.0, True, 2**63, 0, 1]


def of_samples(
    kind, shape, least, n_others=3, bound=1.0, forms=None, batched=False, **options
):
    """A case of moments; some of the others are as the person is."""
    rng = np.random.default_rng(0)
    others = list(bound * rng.standard_normal((n_others, *shape)))
    own = {MultilinearRidge: TARGETS, MultilinearRidgeClassifier: LABELS}.get(kind)
    declared = {
        MultilinearRidge: {"target_bounds": (-1, 1)},
        MultilinearRidgeClassifier: {"classes": [0, 1]},
    }.get(kind, {})
    model = partial(kind, norm_bound=bound, random_state=0, **declared, **options)
    people = list(zip(forms or samples(shape, bound), own or TARGETS, strict=False))

    def fit(person):
        sample, target = person
        X = np.stack([*others, sample])
        y = [*itertools.islice(itertools.cycle([0, 1]), n_others), target]
        data = (X, y) if own else (X,)
        if not batched:
            return model().fit(*data)
        batches = [(X[k : k + 1], y[k : k + 1]) if own else X[k : k + 1]
                   for k in range(len(X))]  # fmt: skip
        return model().fit_batches(batches)

    return Case(fit, people, n_others, True, least)


PCA, RIDGE, CLASSIFIER = MultilinearPCA, MultilinearRidge, MultilinearRidgeClassifier
MOMENTS = {
    "PCA": of_samples(PCA, (3, 5), 0.999, n_components=(1, 1)),
    "PCA, alone": of_samples(PCA, (2, 2), 0.999, 0, n_components=(2, 2)),
    "PCA, any": of_samples(PCA, (2, 2, 2), 0.999, epsilon=0.1),
    "PCA, all of a core": of_samples(PCA, (2, 2), 0.7, n_components=4),
    "PCA, flat": of_samples(PCA, (6,), 0.999, batched=True),
    "PCA, centred": of_samples(PCA, (3, 5), 0.8, n_components=(1, 1), center=True),
    "PCA, centred core": of_samples(PCA, (3, 3), 0.5, n_components=2, center=True),
    "PCA, units": of_samples(
        PCA, (3, 5), 0.999, n_components=(1, 1), offset=0.0, scale=1e-3
    ),
    "PCA, batches": of_samples(PCA, (3, 5), 0.7, batched=True, n_components=2),
    "PCA, tiny": of_samples(PCA, (3, 2), 0.999, bound=1e-50, n_components=(1, 1)),
    "PCA, huge": of_samples(PCA, (3, 2), 0.999, bound=1e50, n_components=(1, 1)),
    "ridge": of_samples(RIDGE, (3, 4), 0.999, n_components=(3, 4)),
    "ridge, core": of_samples(RIDGE, (3, 4), 0.5, n_components=(2, 2)),
    "ridge, any": of_samples(RIDGE, (4, 2), 0.5, 40, batched=True),
    "ridge, tiny": of_samples(RIDGE, (2, 2), 0.999, bound=1e-50, n_components=4),
    "ridge, huge": of_samples(RIDGE, (2, 2), 0.999, bound=1e50, n_components=(2, 2)),
    "ridge, centred": of_samples(RIDGE, (3, 2), 0.7, n_components=6, center=True),
    "ridge, centred core": of_samples(
        RIDGE, (3, 4), 0.5, 40, batched=True, center=True
    ),
    "ridge, units": of_samples(
        RIDGE, (3, 4), 0.999, n_components=(3, 4), offset=0.0, scale=1e-3
    ),
    "classes, centred": of_samples(
        CLASSIFIER, (3, 2), 0.7, n_components=6, center=True, offset=0.5, scale=2.0
    ),
    "classes": of_samples(CLASSIFIER, (3, 2), 0.999, n_components=(3, 2)),
    "classes, core": of_samples(CLASSIFIER, (3, 4), 0.5, 30, n_components=3),
    "classes, batches": of_samples(
        CLASSIFIER, (3, 2), 0.999, 30, n_components=6, batched=True
    ),
}


# --- users ----------------------------------------------------------------------------

CHUNK = 8


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """People are added in several chunks, each of a few."""
    monkeypatch.setattr(*POINTS["chunk of entries"], CHUNK)


def of_users(
    kind, rank, shape, least, unit=0, n_others=5, *, bounds=(0.0, 1.0),
    context=nullcontext, parties=0, forms=None, **options,
):  # fmt: skip
    """A case of entries of users, who are in any mode."""
    low, high = bounds
    places = list(itertools.product(*map(range, shape[1:])))
    rng = np.random.default_rng(0)
    n_own = rng.integers(1, len(places), n_others)
    rows = [(u, *places[k]) for u in range(n_others) for k in range(n_own[u])]
    values = rng.uniform(low, high, len(rows)).tolist()
    beyond = 1e3 * max(abs(low), abs(high), 1.0)
    forms = forms or [
        ([], []),
        (places[:1], [high]),
        (places[:1], [low]),
        (places[:1] * 40, [beyond] * 40),
        (places, [low, high] * len(places)),
        (places, [high, low] * len(places)),
        (places * 3, [-beyond, beyond, low] * len(places)),
        (places * 60, [high] * 60 * len(places)),
        (places[::-1], rng.uniform(low, high, len(places)).tolist()),
    ]
    order = [*range(1, unit + 1), 0, *range(unit + 1, len(shape))]
    model = kind(
        rank, unit=unit, shape=tuple(shape[k] for k in order), value_bounds=bounds,
        random_state=0, **{"epsilon": 4.0, "max_iter": 2} | options,
    )  # fmt: skip

    def data_of(rows, values):
        whole = np.array([[row[k] for k in order] for row in rows], int)
        return whole.reshape(-1, len(shape)), np.array(values[: len(rows)])

    def fit(person):
        own = [(n_others, *place) for place in person[0]]
        everything = rows + own, values + person[1][: len(own)]
        if not parties:
            return model.fit(*data_of(*everything))
        of_parties = [
            [(r, v) for r, v in zip(*everything, strict=True) if r[0] % parties == k]
            for k in range(parties)
        ]
        answering = [
            party(model, *data_of(*map(list, zip(*own, strict=True)))) if own
            else party(model, *data_of([], []))
            for own in of_parties
        ]  # fmt: skip
        return fit_aggregated(model, Carrier(answering))

    return Case(fit, forms, n_others, False, least, context)


CP, TUCKER = CPCompletion, TuckerCompletion
FITS = {"perturbation": "statistics"}
PATTERN = {"context": with_a_pattern, "n_pattern_components": 2}
NOBODY, BUSY = ([], []), ([(0,), (1,)] * 30, [1.0, 0.0] * 30)
UNITS = {
    "one user": of_users(CP, 1, (3, 2), 0.7, 0, 2, forms=[NOBODY, BUSY], **FITS),
    "averages": of_users(CP, 0, (6, 5), 0.9),
    "CP": of_users(CP, 2, (6, 5), 0.75, **FITS),
    "CP, alone": of_users(CP, 1, (1, 4), 0.7, n_others=0, **FITS),
    "CP, many": of_users(CP, 1, (60, 4), 0.75, n_others=59, **FITS),
    "CP, in the second mode": of_users(CP, 1, (6, 5), 0.75, unit=1, **FITS),
    "CP of three modes": of_users(CP, 1, (6, 4, 3), 0.75, **FITS),
    "CP, equal modes": of_users(CP, 1, (6, 3, 3), 0.75, unit=2, **FITS),
    "CP, pattern": of_users(CP, 1, (6, 5), 0.75, **PATTERN, **FITS),
    "CP, tiny": of_users(CP, 1, (6, 5), 0.75, bounds=(0.0, 1e-50), **FITS),
    "CP, huge": of_users(CP, 1, (6, 5), 0.75, bounds=(-1e50, 1e50), **FITS),
    "Tucker": of_users(TUCKER, (1, 2, 2), (6, 4, 3), 0.7, **FITS),
    "Tucker, pattern": of_users(TUCKER, (1, 1), (6, 5), 0.75, **PATTERN, **FITS),
    "parties": of_users(CP, 1, (6, 5), 0.75, parties=3, **FITS),
    "parties, pattern": of_users(CP, 1, (6, 5), 0.75, parties=2, **PATTERN, **FITS),
}


# --- choices --------------------------------------------------------------------------


def of_choices(shape, least, batched=False, n_reserved=None, **options):
    """A case of items that users chose; the last one in several forms."""
    n_users, n_items = shape
    items = list(range(n_items))
    others = [(u, i) for u in range(n_users - 1) for i in items[:: 1 + u % 4]]
    forms = [[], [0], [n_items - 1], items, items * 2, items[: n_items // 2], items[:2]]
    reserved = n_reserved or n_users, n_items
    model = ImplicitCompletion(shape=reserved, random_state=0, **options)

    def fit(person):
        own = [(n_users - 1, item) for item in person]
        if not batched:
            return model.fit(np.array([*others, *own]).reshape(-1, 2))
        # Users are in several batches, and so is the person.
        everything = others + own
        batches = [everything[k::3] for k in range(3)]
        return model.fit_batches([np.array(b, int).reshape(-1, 2) for b in batches])

    return Case(fit, forms, n_users - 1, False, least)


CHOICES = {
    "choices": of_choices((40, 8), 0.9, epsilon=16.0),
    "choices, popular": of_choices((40, 8), 0.9, epsilon=1.0, max_items=0),
    "choices, all items": of_choices((200, 12), 0.9, epsilon=16.0, max_items=12),
    "choices, alone": of_choices((1, 5), 0.9, epsilon=1.0),
    "choices, batches": of_choices((40, 8), 0.9, True, epsilon=16.0),
}


# --- entries --------------------------------------------------------------------------


def of_entries(kind, perturbation, shape, least, *, bounds=(0.0, 1.0), **options):
    """A case of entries with public coordinates; one of them has several values."""
    low, high = bounds
    where = np.array([*itertools.product(*map(range, shape))])
    values = np.random.default_rng(0).uniform(low, high, len(where))
    forms = [high, low, (low + high) / 2, 1e300, -1e300, 5e-324, high / 3]
    model = kind(
        perturbation=perturbation, value_bounds=bounds, shape=shape, random_state=0,
        **{"rank": 1, "epsilon": 4.0, "max_iter": 2} | options,
    )  # fmt: skip

    def fit(value):
        return model.fit(where, [*values[:-1], value])

    return Case(fit, forms, len(where) - 1, True, least)


ENTRIES = {
    "sums": of_entries(CP, "sums", (4, 3), 0.99),
    "sums of three modes": of_entries(CP, "sums", (3, 2, 2), 0.99),
    "sums, own answers": of_entries(CP, "sums", (4, 3), 0.99, personal=True),
    "sums of three modes, own answers": of_entries(
        CP, "sums", (3, 2, 2), 0.99, personal=True
    ),
    "sums, tiny": of_entries(CP, "sums", (4, 3), 0.99, bounds=(0.0, 1e-50)),
    "sums, huge": of_entries(CP, "sums", (4, 3), 0.99, bounds=(-1e50, 1e50)),
    "sums, checked scale": of_entries(CP, "sums", (50, 25), 0.99, check_scale=True),
    "statistics": of_entries(CP, "statistics", (4, 3), 0.5),
    "statistics, Tucker": of_entries(TUCKER, "statistics", (3, 2, 2), 0.5),
    "output": of_entries(CP, "output", (4, 3), 0.5, biases=False),
    "gradient": of_entries(CP, "gradient", (4, 3), 0.5, delta=1e-6),
    "gradient, Tucker": of_entries(TUCKER, "gradient", (3, 2, 2), 0.5, delta=1e-6),
}


# --- rows of counts -------------------------------------------------------------------


def of_rows(shape, least, k=None, batched=False, **options):
    """A case of rows; one person has the last ones."""
    rng = np.random.default_rng(0)
    others = [[person, *rng.integers(0, shape)] for person in range(6)]
    first, last = [0] * len(shape), [n - 1 for n in shape]
    forms = [[], [first], [last], [rng.integers(0, shape).tolist()]]
    who = {}
    if k is not None:
        forms += [
            [first] * k,
            [first, last],
            [first] * 9,
            [last] * k,
            [last, first] * 3,
        ]
        who = {"unit": 0, "max_records": k}
    model = TensorCounts(shape=shape, random_state=0, **who, **options)

    def fit(person):
        rows = np.array(others + [[6, *row] for row in person])
        rows = rows if k is not None else rows[:, 1:]
        if not batched:
            return model.fit(rows)
        return model.fit_batches([rows[part::3] for part in range(3)])

    return Case(fit, forms, len(others), False, least)


COUNTS = {
    "counts": of_rows((3, 4, 5), 0.999999),
    "counts, batches": of_rows((3, 4), 0.999999, batched=True),
    "counts of a mode": of_rows((7,), 0.999999, margins=1),
    "counts, not centred": of_rows((5000, 2), 0.999999),
    "counts of people": of_rows((3, 4, 5), 0.999999, 3),
    "counts of people, batches": of_rows((3, 4), 0.999999, 2, True, epsilon=0.1),
}
# At the limits of sizes.
SIDE = math.isqrt(LARGEST_SAMPLE)
LARGEST = {
    "largest sample": of_samples(
        PCA, (SIDE, SIDE), 0.69, 0, n_components=(1, 1),
        forms=[np.ones((SIDE, SIDE)), np.zeros((SIDE, SIDE))],
    ),
    "largest core": of_samples(
        RIDGE, (64, 64), 0.5, 0, n_components=(64, LARGEST_CORE // 64),
        forms=[np.ones((64, 64)), np.zeros((64, 64))],
    ),
    "most users": of_users(CP, 1, (MOST_USERS, 4), 0.75, **FITS),
    "most users with choices": of_choices(
        (40, 8), 0.9, epsilon=1.0, n_reserved=MOST_USERS
    ),
}  # fmt: skip
CASES = MOMENTS | UNITS | CHOICES | ENTRIES | COUNTS | LARGEST
# Of these, the default tier takes the pairs.
QUICK = ["PCA", "PCA, centred", "ridge", "classes", "choices", "one user"]
QUICK += ["sums", "statistics", "gradient", "counts", "counts of people"]


# --- what they promise ----------------------------------------------------------------


def fitted(case, number, follow=None):
    with case.context(), leaving(follow) as found:
        model = case.fit(case.forms[number])
    return found, model


def largest_part(case):
    """Largest part of the guarantee that two neighbours use up; checks all of them.

    Of the releases of entries, whose plans differ, the largest part of one of them.
    """
    start, model = fitted(case, -1)
    _, mu = accounted(model.privacy_guarantee_)
    of_entries = any(one.norm == "l1" for one in start)
    others = range(len(case.forms) - 1)
    runs = [*(fitted(case, k, start)[0] for k in others), start]
    for number, run in enumerate(runs):
        assert len(run) == len(start)
        for one, other in zip(run, start, strict=True):
            check_people(one, case.n_people(number))
            assert one.planned == other.planned
    found = []
    for a, b in case.pairs:
        distances = []
        for one, other in zip(runs[a], runs[b], strict=True):
            distances.append(one.distance(other))
            assert distances[-1] <= one.planned * ROUNDED_UP
        if of_entries:
            pairs = zip(distances, start, strict=True)
            found.append(max(distance / one.planned for distance, one in pairs))
        else:
            found.append(math.hypot(*distances) / start[0].sigma / mu)
    assert max(found) <= ROUNDED_UP
    return max(found)


def check_people(release, n_people):
    """Everybody is in every sum once."""
    n_sums = len(release.question.sums)
    assert sum(release.n_added) == n_people * n_sums, "not added once"
    assert max(release.n_added, default=0) <= n_people, "not added once"


def mark_of(name):
    return pytest.mark.slow if name in LARGEST else pytest.mark.thorough


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in QUICK else [mark_of(name)])
        for name in CASES
    ],
)
def test_neighbours_differ_by_no_more_than_planned(name):
    """And everybody is added once. The worst ones use up nearly all that is planned."""
    case = CASES[name]
    assert largest_part(case) > case.least


def test_many_neighbours_are_compared():
    n_quick, n_all = (
        sum(len(CASES[name].pairs) for name in names) for names in (QUICK, CASES)
    )
    assert n_quick >= 50
    assert n_all >= 500


def forgotten(cases):
    """Kinds of sums, and of questions, that no fit of these cases releases."""
    missing = kinds_of_sums() | kinds_of_questions()
    for case in cases:
        if not missing:
            break
        releases = case() if callable(case) else fitted(case, -1)[0]
        for release in releases:
            missing -= {type(release.question), *release.kinds}
    return missing


def scored():
    """What leaves in a private search, whose scores test_entry_sums.py compares."""
    search = PrivateSearchCV(
        MultilinearRidge((1, 1), norm_bound=1.0, target_bounds=(-1, 1), random_state=0),
        {"alpha": [1.0, 2.0]}, score_epsilon=1.0, score_bounds=(-1, 0), random_state=0,
    )  # fmt: skip
    X = np.random.default_rng(0).standard_normal((40, 2, 2))
    with leaving() as found:
        search.fit(X, np.clip(X[:, 0, 0], -1, 1))
    return found


def test_no_kind_of_sums_or_of_questions_is_forgotten():
    first = [CASES[n] for n in ("PCA, centred", "choices", "CP, pattern")]
    assert not forgotten([scored, *first, *CASES.values()])


def test_a_kind_without_a_case_is_noticed(monkeypatch):
    class Forgotten(BoundedSums):
        """A kind of sums without a case."""

    class Asking:
        """A kind of questions without one."""

        sums, chunks_at_once = (), 1

        def add(self, chunk, *totals):
            """Add nothing."""

    for kind in (Forgotten, Asking):
        monkeypatch.setattr(kind, "__module__", measure.__name__)
    monkeypatch.setattr(measure, "Asking", Asking, raising=False)
    assert forgotten([]) >= {Forgotten, Asking}


def users_in_halves(monkeypatch):
    """Every vector is added in two halves, in two calls."""
    add, weighed = BoundedSums.add_people, BoundedSums._weighed

    def twice(self, *data):
        add(self, *data)
        add(self, *data)

    def half(self, *data):
        weights, lengths = weighed(self, *data)
        return np.floor(weights / 2), lengths / 2

    monkeypatch.setattr(BoundedSums, "add_people", twice)
    monkeypatch.setattr(BoundedSums, "_weighed", half)


def samples_in_halves(monkeypatch):
    """Every sample is read in two halves, as two people."""
    chunks = Samples.chunks

    def halves(self, chunks_at_once=1):
        for chunk in chunks(self, chunks_at_once):
            yield from (chunk._replace(rows=chunk.rows * part) for part in (0.5, 0.5))

    monkeypatch.setattr(Samples, "chunks", halves)


@pytest.mark.parametrize(
    ("name", "plant"), [("PCA", samples_in_halves), ("one user", users_in_halves)]
)
def test_a_person_in_two_calls_is_noticed(name, plant, monkeypatch):
    """Though the sums of both halves are no longer than planned."""
    plant(monkeypatch)
    with pytest.raises(AssertionError, match="not added once"):
        largest_part(CASES[name])


@pytest.mark.thorough
@pytest.mark.parametrize("cases", [MOMENTS, UNITS, CHOICES])
def test_the_noise_is_as_large_as_stated(cases):
    """A false alarm, 6.5 standard deviations, has a probability below 1e-10."""
    noise = [
        release.noise for case in cases.values() for release in fitted(case, -1)[0]
    ]
    noise = np.concatenate(noise)
    assert len(noise) > 250
    assert abs(np.mean(noise**2) - 1) < 6.5 * math.sqrt(2 / len(noise))
