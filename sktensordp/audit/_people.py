"""Audits of models that anybody trained: what they tell about a person."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._waiting import watched
from ..privacy import PrivacyGuarantee, planned_guarantee
from ._answers import Answers, of_customers, of_labels, of_ratings
from ._attack_report import AttackReport
from ._attacks import Bits, attacks
from ._customers import Customers
from ._guesses import epsilon_bound
from ._single_values import Labels, Ratings

# With fewer, even an attacker who is always right proves little, and the pilot has too
# few to learn from.
_LEAST_CANARIES = 20

_UNITS = ("user", "entry")
_CANARIES = ("customers", "planted")


@dataclass(frozen=True, kw_only=True, eq=False)
class AuditTables:
    """Four tables to fit a model to, elsewhere, for `audit_recommender`.

    The tables differ in the canaries that they hold. Keep this object to yourself until
    the answers are there: it also holds the bits that are to be guessed. It can be
    pickled.

    Parameters
    ----------
    tables : tuple of four
        What each fit gets: ``X``, or ``(X, y)`` if there are ratings.
    accounts : ndarray, tuple or None
        With ``unit="user"``: the rows of the accounts of the attacker, in the same
        form. They are in none of the tables.
    pairs : ndarray of shape (n_pairs, 2) or None
        With ``unit="entry"``: users and items whose ratings each fit is to predict.
    shape : tuple of int
        Numbers of users, canaries and accounts included, and of items.
    unit, canaries : str
        As passed to `audit_tables`.

    See Also
    --------
    audit_tables
    """

    tables: tuple[Any, ...] = field(repr=False)
    accounts: Any = field(repr=False)
    pairs: NDArray[np.int64] | None = field(repr=False)
    shape: tuple[int, int]
    unit: str
    canaries: str
    _people: Customers | Ratings = field(repr=False)
    _bits: Bits = field(repr=False)
    _items: NDArray[Any] = field(repr=False)


def audit_tables(
    X: ArrayLike,
    y: ArrayLike | None = None,
    *,
    unit: str = "user",
    canaries: str = "customers",
    n_canaries: int = 400,
    random_state: int | None = None,
) -> AuditTables:
    """Draw canaries and their bits, for fits that take too long to be made at once.

    Fit your model to each of the four tables, with fresh noise and starts each time,
    and ask it: with ``unit="user"`` for the scores or lists of all accounts, with
    ``unit="entry"`` for predictions of all pairs. Then call
    ``audit_recommender(tables, answers=[first, second, third, fourth])``.

    Parameters
    ----------
    X : array-like or data frame of shape (n_rows, 2)
        Users and items. Items that are integers from 0 on keep their numbers; all other
        ids are numbered in their order.
    y : array-like of shape (n_rows,), default=None
        Ratings; None if the rows are choices.
    unit, canaries, n_canaries, random_state
        As for `audit_recommender`.

    Returns
    -------
    tables : AuditTables

    Raises
    ------
    ValueError
        As `audit_recommender`.

    Examples
    --------
    >>> from sktensordp.audit import audit_recommender, audit_tables
    >>> from sktensordp.datasets import make_choices
    >>> X = make_choices(300, 50, 4000, random_state=0).data
    >>> audit = audit_tables(X, n_canaries=100, random_state=0)
    >>> len(audit.tables), audit.shape
    (4, (500, 50))
    >>> import numpy as np
    >>> answers = []
    >>> for table in audit.tables:
    ...     counts = np.bincount(table[:, 1], minlength=50).astype(float)
    ...     answers.append(np.tile(counts, (100, 1)))
    >>> report = audit_recommender(audit, answers=answers)
    >>> report.violated
    False
    """
    if unit not in _UNITS:
        raise ValueError(f"unit must be one of {list(_UNITS)}, got {unit!r}.")
    if canaries not in _CANARIES:
        raise ValueError(
            f"canaries must be one of {list(_CANARIES)}, got {canaries!r}."
        )
    _check_canaries(n_canaries)
    rows, items = _coded(X)
    values = None if y is None else _values(y, len(rows))
    # Two streams, so that the bits do not depend on how many draws a design takes.
    design, coins = (
        np.random.default_rng(None if random_state is None else [random_state, k])
        for k in (2, 3)
    )
    bits = Bits.drawn(n_canaries, coins)
    how = len(items), canaries, n_canaries, design
    accounts = pairs = None
    people: Customers | Ratings
    if unit == "user":
        people = Customers(rows, values, *how)
        where, of_accounts = people.accounts
        accounts = where if values is None else (where, of_accounts)
    else:
        if values is None:
            raise ValueError("unit='entry' audits ratings. Pass them as y.")
        people = Ratings(rows, values, *how)
        pairs = people.pairs
    tables = tuple(
        table[0] if values is None else table
        for table in map(people.table, bits.of_fits)
    )
    return AuditTables(
        tables=tables,
        accounts=accounts,
        pairs=pairs,
        shape=people.shape,
        unit=unit,
        canaries=canaries,
        _people=people,
        _bits=bits,
        _items=items,
    )


@watched
def audit_recommender(
    recommender: Any,
    X: ArrayLike | None = None,
    y: ArrayLike | None = None,
    *,
    unit: str = "user",
    canaries: str = "customers",
    n_canaries: int = 400,
    epsilon: float | None = None,
    delta: float = 1e-6,
    confidence: float = 0.95,
    answers: Sequence[Any] | None = None,
    random_state: int | None = None,
) -> AttackReport:
    """Lower bound on the epsilon of any recommender, from what it tells about people.

    The audit leaves customers out of the data, each with probability one half, fits the
    recommender four times, and guesses who was in the data of the last fit. Two
    attackers guess: one with accounts of their own, who sees what these are recommended
    and knows all but one of each customer's items; and an insider, who knows all other
    data besides. The more guesses are right, the larger the epsilon that no guarantee
    can be below.

    Parameters
    ----------
    recommender : estimator, callable or AuditTables
        - An `ImplicitCompletion`, a completion with ``unit=0`` or a `Recommender`, or a
          matrix factorisation of scikit-learn, such as `TruncatedSVD`. It is cloned,
          and reseeded at each fit. With ``unit="entry"``, any estimator with `fit` and
          `predict`.
        - A function for any other library. With ``unit="user"``, ``f(X, accounts,
          shape)`` fits it to the rows of X, which has one column of users and one of
          items, both numbered from 0, and returns the scores of all items for each
          account, as floats of shape (n_accounts, n_items), or lists of items, best
          first. `accounts` has rows of further users; `shape` counts all users and
          items. With ratings, the first two arguments are tuples (rows, ratings). With
          ``unit="entry"``, ``f(X, y, pairs)`` returns predictions. It must draw fresh
          noise at each call, and keep nothing from one call to the next.
        - What `audit_tables` returned, with `answers`.
    X : array-like or data frame of shape (n_rows, 2), default=None
        Users and items. Items that are integers from 0 on keep their numbers; all other
        ids are numbered in their order.
    y : array-like of shape (n_rows,), default=None
        Ratings; None if the rows are choices.
    unit : {"user", "entry"}, default="user"
        What a bit changes: whether a customer is in the data, or whether one rating of
        a known user and item is the lowest or the highest.
    canaries : {"customers", "planted"}, default="customers"
        Real customers (at least four rows each) or ratings, drawn at random; or those
        that stand out: made-up customers with rare items, or ratings of rare items and
        users.
    n_canaries : int, default=400
        Number of canaries, at least 20. If all guesses are right, 100 canaries prove
        3.49, 400 prove 4.89, and 1,000 prove 5.81, with 95% confidence.
    epsilon : float, default=None
        Claimed epsilon at `delta`; by default, that of the fitted
        ``privacy_guarantee_``, if it protects the same unit.
    delta : float, default=1e-6
        Delta at which epsilon is bounded, in [0, 1).
    confidence : float, default=0.95
        In (0, 1). The bound of each attacker is above the true epsilon with probability
        at most 1 - `confidence`.
    answers : list of four, default=None
        Answers to the tables of `audit_tables`, in their order.
    random_state : int, default=None
        Seed of canaries, bits and seeds.

    Returns
    -------
    report : AttackReport
        `report.epsilon_lower` is the insider's bound. ``print(report)`` shows claim and
        evidence, and a paragraph for readers who know nothing about privacy.

    Raises
    ------
    ValueError
        If a parameter is out of range, there are fewer customers than canaries, or
        answers have another form.
    TypeError
        If `recommender` is something else, or has neither `fold_in` nor
        `inverse_transform`.

    See Also
    --------
    audit_training : The same for classifiers.
    sktensordp.plotting.GuessesDisplay : Picture of a report.

    Notes
    -----
    Flipping the bit of a canary adds or removes one user (replaces one rating, with
    ``unit="entry"``), whatever the other bits are, and independent fair bits are
    guessed by a function of the answers. So Theorem 5.2 of Steinke, Nasr and Jagielski
    (2023) bounds the number of right guesses, or that of Mahloujifar, Melis and
    Chaudhuri (2024), whichever should prove more. How to guess, and how many canaries,
    is learned from a pilot fit with other bits. The insider also compares the answers
    with two references, in which each canary is once in and once out. The bounds hold
    if the four fits are independent, given the data: a function that keeps answers, or
    a seed, breaks this. They hold for the released answers, so a small bound is no
    proof of privacy. See :ref:`the proof <audits-with-canaries>`.

    References
    ----------
    Steinke, Nasr and Jagielski, "Privacy auditing with one (1) training run",
    NeurIPS 2023, Theorem 5.2. Mahloujifar, Melis and Chaudhuri, "Auditing
    f-differential privacy in one run", arXiv:2410.22235.

    Examples
    --------
    Popularity, counted exactly, tells who chose rare items:

    >>> import numpy as np
    >>> from sktensordp.audit import audit_recommender
    >>> from sktensordp.datasets import make_choices
    >>> X = make_choices(500, 400, 8000, random_state=0).data
    >>> def most_popular(X, accounts, shape):
    ...     counts = np.bincount(X[:, 1], minlength=shape[1]).astype(float)
    ...     return np.tile(counts, (len(np.unique(accounts[:, 0])), 1))
    >>> report = audit_recommender(
    ...     most_popular, X, canaries="planted", n_canaries=100, random_state=0)
    >>> report.epsilon_lower > 1
    True

    >>> from sktensordp.completion import ImplicitCompletion
    >>> model = ImplicitCompletion(epsilon=1.0)
    >>> report = audit_recommender(
    ...     model, X, canaries="planted", n_canaries=100, random_state=0)
    >>> print(f"{report.claimed:.4f}", report.violated)
    1.0000 False
    """
    _check(epsilon, delta, confidence)
    source = None
    if isinstance(recommender, AuditTables):
        if X is not None or answers is None:
            raise ValueError(
                "Tables were drawn before: pass `answers`, one for each table, and "
                "neither X nor y."
            )
        design = recommender
        if len(answers) != len(design.tables):
            raise ValueError(
                f"answers must hold {len(design.tables)} answers, one for each table, "
                f"got {len(answers)}."
            )
    else:
        if X is None or answers is not None:
            raise ValueError(
                "Pass X. `answers` belong to the tables of `audit_tables`."
            )
        design = audit_tables(
            X,
            y,
            unit=unit,
            canaries=canaries,
            n_canaries=n_canaries,
            random_state=random_state,
        )
        if isinstance(design._people, Ratings):
            source = of_ratings(recommender, design._people, random_state)
        else:
            source = of_customers(
                recommender, design._people, design._items, random_state
            )
    is_user = design.unit == "user"
    n = len(design._bits.audited)
    if is_user and design.canaries == "customers":
        words = f"{n} real customers were each left out with probability one half."
    elif is_user:
        words = f"{n} made-up customers were each added with probability one half."
    else:
        words = (
            f"{n} ratings were each set to the lowest or the highest value, with "
            f"probability one half."
        )
    return _report(
        design._people,
        design._bits,
        source,
        answers,
        epsilon=epsilon,
        delta=delta,
        confidence=confidence,
        unit="customer" if is_user else "rating",
        canaries=words,
        question=(
            "whether they are in the data" if is_user else "which of the two it is"
        ),
        knowledge=(
            "an outsider with accounts who knows all but one of their choices"
            if is_user
            else "an outsider who sees predictions"
        ),
    )


@watched
def audit_training(
    estimator: Any,
    X: ArrayLike,
    y: ArrayLike,
    *,
    n_canaries: int = 400,
    epsilon: float | None = None,
    delta: float = 1e-6,
    confidence: float = 0.95,
    random_state: int | None = None,
) -> AttackReport:
    """Lower bound on the epsilon of a classifier, from wrong labels that it learned.

    The audit gives samples wrong labels, and leaves each of them out with probability
    one half, or restores its label if the claim is about replacing a sample. It fits
    the classifier four times, and guesses the bits of the last fit from the scores of
    these samples.

    Parameters
    ----------
    estimator : classifier
        With `predict_proba`, `decision_function` or only `predict`. It is cloned, and
        reseeded at each fit.
    X : array-like of shape (n_samples, ...)
        At least twice as many samples as canaries.
    y : array-like of shape (n_samples,)
        Labels of at least two classes.
    n_canaries, epsilon, delta, confidence, random_state
        As for `audit_recommender`.

    Returns
    -------
    report : AttackReport

    Raises
    ------
    ValueError
        If a parameter is out of range, or there are too few samples or classes.
    TypeError
        If `estimator` is no classifier.

    See Also
    --------
    audit_recommender : The same for recommenders; its notes say why the bound holds.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sktensordp.audit import audit_training
    >>> X, y = load_digits(n_class=4, return_X_y=True)
    >>> report = audit_training(
    ...     KNeighborsClassifier(1), X, y, n_canaries=100, random_state=0)
    >>> report.insider.n_right
    100
    """
    _check(epsilon, delta, confidence)
    _check_canaries(n_canaries)
    samples = np.asarray(X)
    classes, codes = np.unique(np.asarray(y), return_inverse=True)
    if codes.shape != (len(samples),):
        raise ValueError("y must hold one label for each sample.")
    if len(classes) < 2:
        raise ValueError("y must hold at least two classes.")
    relation = _claimed_relation(estimator)
    design, coins = (
        np.random.default_rng(None if random_state is None else [random_state, k])
        for k in (2, 3)
    )
    people = Labels(samples, codes, relation, n_canaries, design)
    source = of_labels(estimator, people, classes, random_state)
    either = (
        "each left out with probability one half"
        if relation == "add-or-remove"
        else "each given its right label with probability one half"
    )
    return _report(
        people,
        Bits.drawn(n_canaries, coins),
        source,
        None,
        epsilon=epsilon,
        delta=delta,
        confidence=confidence,
        unit="sample",
        canaries=f"{n_canaries} samples with a wrong label were {either}.",
        question="whether their wrong label was learned",
        knowledge="an outsider who sees the scores of the classes",
    )


def _report(
    people: Customers | Ratings | Labels,
    bits: Bits,
    source: Answers | None,
    answers: Sequence[Any] | None,
    *,
    epsilon: float | None,
    delta: float,
    confidence: float,
    unit: str,
    canaries: str,
    question: str,
    knowledge: str,
) -> AttackReport:
    """Fit and ask, if the answers are not there, and let both attackers guess."""
    guarantee, is_repeated = None, False
    if source is not None:
        answers, is_repeated = _asked(people, bits, source)
        guarantee = getattr(source.model, "privacy_guarantee_", None)
    assert answers is not None
    claimed, not_judged = epsilon, ""
    if epsilon is None and guarantee is not None:
        claimed, not_judged = _claim(guarantee, unit, people.relation, delta)
    alpha = 1 - confidence
    statistics = [people.statistics(answer) for answer in answers]
    account, insider = attacks(statistics, people.names, bits, delta, alpha)
    n, relation = insider.n_canaries, people.relation
    return AttackReport(
        epsilon_lower=insider.epsilon_lower,
        mu_lower=None,
        confidence=confidence,
        delta=delta,
        claimed=claimed,
        event=f"{insider.n_right} of {insider.n_guesses} bits of canaries guessed",
        n_trials=n,
        account=account,
        insider=insider,
        canaries=canaries,
        question=question,
        knowledge=knowledge,
        unit=unit,
        relation=relation,
        ceiling=epsilon_bound(n, n, n, None, delta, alpha),
        guarantee=guarantee,
        not_judged=not_judged,
        is_repeated=is_repeated,
    )


def _asked(
    people: Customers | Ratings | Labels, bits: Bits, source: Answers
) -> tuple[list[Any], bool]:
    """Answers of the four fits, and whether a function repeats its answers.

    The second call for the pilot releases nothing about the bits that are guessed.
    """
    tables = [people.table(one) for one in bits.of_fits]
    answers = [source(*table) for table in tables]
    is_repeated = source.is_function and _are_same(answers[0], source(*tables[0]))
    return answers, is_repeated


def _are_same(one: Any, other: Any) -> bool:
    """Whether two answers are the same to the bit."""
    if len(one) != len(other):
        return False
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def _claim(
    guarantee: PrivacyGuarantee, unit: str, relation: str, delta: float
) -> tuple[float | None, str]:
    """The claimed epsilon for what a bit changes, or why none is judged."""
    units: dict[str, Callable[[str | int], bool]] = {
        "customer": lambda unit: unit == 0,
        "rating": lambda unit: unit == "entry",
        "sample": lambda unit: unit == "sample",
    }
    if not units[unit](guarantee.unit) or guarantee.relation != relation:
        return None, (
            f"The guarantee of the model is not judged: it is not about one {unit} "
            f"({relation})."
        )
    epsilon = guarantee.epsilon_at(delta)
    if not np.isfinite(epsilon):
        return None, "The model claims no finite epsilon."
    return epsilon, ""


def _claimed_relation(estimator: Any) -> str:
    """What differs between the neighbours of the claim of an estimator, if any."""
    try:
        relation = planned_guarantee(estimator).relation
    except (TypeError, ValueError):
        return "add-or-remove"
    return relation if relation == "replace-one" else "add-or-remove"


def _coded(X: ArrayLike) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Users and items as numbers, and the ids of the items."""
    table = np.asarray(X)
    if table.ndim != 2 or table.shape[1] != 2:
        raise ValueError(
            f"X must have two columns, users and items; got an array of shape "
            f"{table.shape}."
        )
    users = np.unique(table[:, 0], return_inverse=True)[1]
    column = table[:, 1]
    if column.dtype.kind in "iu" and len(column) and column.min() >= 0:
        return np.column_stack([users, column.astype(np.int64)]), np.arange(
            int(column.max()) + 1
        )
    items, codes = np.unique(column, return_inverse=True)
    return np.column_stack([users, codes]), items


def _values(y: ArrayLike, n_rows: int) -> NDArray[np.float64]:
    values = np.asarray(y, dtype=float)
    if values.shape != (n_rows,) or not np.isfinite(values).all():
        raise ValueError("y must hold one finite number for each row of X.")
    return values


def _check_canaries(n_canaries: int) -> None:
    if not isinstance(n_canaries, Integral) or isinstance(n_canaries, bool):
        raise TypeError(f"n_canaries must be an integer, got {n_canaries!r}.")
    if n_canaries < _LEAST_CANARIES:
        raise ValueError(
            f"n_canaries must be at least {_LEAST_CANARIES}, got {n_canaries}."
        )


def _check(epsilon: float | None, delta: float, confidence: float) -> None:
    if epsilon is not None and not epsilon >= 0:
        raise ValueError(f"epsilon must be >= 0, got {epsilon}.")
    if not 0 <= delta < 1 or not 0 < confidence < 1:
        raise ValueError("delta must be in [0, 1) and confidence in (0, 1).")
