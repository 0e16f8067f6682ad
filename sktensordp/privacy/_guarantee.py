"""Guarantees: what one release, or several together, reveal."""

import copy
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, Self

from . import _risk
from ._conditions import clauses, united
from ._group import for_group, group_relation, split_relation
from ._html import coloured, curve, rows
from ._numbers import check_number, checked_integer, exact, shown
from ._shuffled import shuffled

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent

# Relation of a query whose sensitivity the caller vouches for.
CALLERS_RELATION = "any change within the declared sensitivity"
# The largest delta that a claim may have.
_BELOW_ONE = math.nextafter(1.0, 0.0)
_UNITS = {
    "entry": "the value of one observed entry",
    "sample": "one row of X",
    "person": "all rows of X of one person",
    "cell": "one cell of one histogram",
}


def check_guarantee(guarantee: object) -> None:
    """Refuse what is not a guarantee."""
    if not isinstance(guarantee, PrivacyGuarantee):
        raise TypeError(
            f"guarantee must be a PrivacyGuarantee, such as that of a fitted model, "
            f"model.privacy_guarantee_; got {type(guarantee).__name__}."
        )


def unit_name(unit: str | int) -> str:
    """The unit in words."""
    return _UNITS.get(str(unit), f"everything at one index of mode {unit}")


def _format_pair(epsilon: float, delta: float) -> str:
    """(epsilon, delta) with four digits, rounded up so that neither is understated."""
    return f"(epsilon = {shown(epsilon)}, delta = {shown(delta)})"


@dataclass(frozen=True, kw_only=True)
class PrivacyGuarantee:
    """The most that one release, or several together, reveal about one unit.

    Parameters
    ----------
    epsilon : float
        Epsilon at `delta`. Infinity means that nothing is protected.
    delta : float
        In [0, 1).
    unit : {"entry", "sample", "person", "cell"} or int
        What differs between neighbouring inputs: the value of one observed entry
        (whose coordinates are public), one row of X, all rows of one person, one cell
        of one sample that is a histogram, or everything at one index of the given mode.
    event : dp_accounting.DpEvent
        What was done, for composition with other releases.
    statement : str
        What was done, in one sentence.
    source : str
        The theorem that proves the guarantee.
    relation : str, default="replace-one"
        How neighbouring inputs differ.
    claimed : tuple of (float, float), default=None
        The (epsilon, delta) that you requested or that a paper claims, if it differs
        from the truth. An infinite epsilon claims nothing, and is stored as None.
    conditions : tuple of str, default=()
        Whom you have to trust, and who may see what: clauses of a closed vocabulary,
        which ``doc/guarantee.md`` lists. They are printed with the guarantee. Those
        that the event implies are added: for shuffled messages, a sample that was drawn
        or a try that was selected.
    local : bool or None, default=None
        Whether the release is one message per person: each unit is randomised on its
        own, all by the same randomizer, and nothing else is sent. Only such messages
        can be `shuffled`. False if noise was added to what several units have in
        common, such as a sum; None if it is not known, or if there are several
        messages.
    protected : str, default=""
        The unit in the words of the table that was fitted, such as "all rows with the
        same 'user_id'". It is printed in place of `unit`, and changes nothing else:
        guarantees that differ only in it are equal.
    scope : str, default=""
        Which release this is, such as "This fit", where others of the same estimator
        add up with it. It is printed before the guarantee, and changes nothing else.

    Attributes
    ----------
    protects : bool
        Whether a finite epsilon holds at `delta`.

    Raises
    ------
    ValueError
        If a number is out of range, if a condition is not in the vocabulary, or if
        `epsilon` is smaller than the epsilon of `event` at `delta`: a guarantee never
        claims more privacy than it has.
    TypeError
        If `epsilon` or `delta` is not a number.

    Examples
    --------
    >>> import dp_accounting
    >>> from sktensordp.privacy import PrivacyGuarantee
    >>> noise = dp_accounting.GaussianDpEvent(noise_multiplier=4.0)
    >>> guarantee = PrivacyGuarantee.from_event(
    ...     noise, delta=1e-5, unit="sample", statement="Gaussian noise.",
    ...     source="Balle and Wang (2018), Theorem 8")
    >>> print(guarantee)
    (epsilon = 0.9264, delta = 1e-05)-differential privacy for one row of X
    (replace-one).
    >>> guarantee.statement, guarantee.source
    ('Gaussian noise.', 'Balle and Wang (2018), Theorem 8')
    """

    epsilon: float
    delta: float
    unit: str | int
    event: "DpEvent"
    statement: str
    source: str
    relation: str = "replace-one"
    claimed: tuple[float, float] | None = None
    conditions: tuple[str, ...] = ()
    local: bool | None = None
    protected: str = field(default="", compare=False)
    scope: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        check_number(self.epsilon, "epsilon")
        check_number(self.delta, "delta")
        if not self.epsilon >= 0:
            raise ValueError(f"epsilon must be >= 0, got {self.epsilon}.")
        if not 0 <= self.delta < 1:
            raise ValueError(f"delta must be in [0, 1), got {self.delta}.")
        if isinstance(self.unit, int) and not isinstance(self.unit, bool):
            is_unit = self.unit >= 0
        else:
            is_unit = self.unit in list(_UNITS)
        if not is_unit:
            raise ValueError(
                f"unit must be one of {sorted(_UNITS)} or the number of a mode, "
                f"got {self.unit!r}."
            )
        if self.claimed is not None:
            epsilon, delta = self.claimed
            if not (epsilon >= 0 and 0 <= delta < 1):
                raise ValueError(
                    f"claimed must be a pair of epsilon >= 0 and delta in [0, 1), got "
                    f"{self.claimed}."
                )
            if math.isinf(epsilon):
                object.__setattr__(self, "claimed", None)
        from .accounting._events import hashable

        object.__setattr__(self, "event", hashable(self.event))
        object.__setattr__(self, "conditions", united(self.conditions, self.event))
        truth = self.epsilon_at(self.delta)
        if self.epsilon < truth * (1 - 1e-12):
            raise ValueError(
                f"epsilon = {exact(self.epsilon)} is smaller than the {shown(truth)} "
                f"that the event gives at delta = {exact(self.delta)}."
            )

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if "conditions" not in state:  # stored before there were any
            vars(self)["conditions"] = united((), self.event)

    @classmethod
    def from_event(cls, event: "DpEvent", *, delta: float = 0.0, **fields: Any) -> Self:
        """Guarantee of an event; its epsilon is computed at `delta`.

        Parameters
        ----------
        event : dp_accounting.DpEvent
            What was done.
        delta : float, default=0.0
            The delta at which the guarantee states its epsilon.
        **fields
            The other parameters of the guarantee.

        Returns
        -------
        guarantee : PrivacyGuarantee
        """
        from .accounting._curves import event_epsilon

        check_number(delta, "delta")
        return cls(
            event=event, epsilon=event_epsilon(event, delta), delta=delta, **fields
        )

    def derived(
        self, event: "DpEvent", *, delta: float = 0.0, **changes: object
    ) -> Self:
        """Guarantee of a release that is built on this one, about the same unit.

        Its epsilon is computed at `delta`. The unit, its words, the relation,
        statement, source and conditions are those of this guarantee; `claimed` is not.
        If this guarantee is not `local`, the result is not, either; otherwise its
        `local` is None.

        Parameters
        ----------
        event : dp_accounting.DpEvent
            What was done.
        delta : float, default=0.0
            The delta at which the guarantee states its epsilon.
        **changes
            Fields that differ.

        Returns
        -------
        guarantee : PrivacyGuarantee
        """
        names = ("unit", "protected", "relation", "statement", "source", "conditions")
        kept = {name: getattr(self, name) for name in names}
        kept["local"] = local_of([self])
        return type(self).from_event(event, delta=delta, **{**kept, **changes})

    def with_conditions(self, *conditions: str) -> Self:
        """The same guarantee, if these conditions hold as well.

        Parameters
        ----------
        *conditions : str
            Clauses of the vocabulary of `conditions`.

        Returns
        -------
        guarantee : PrivacyGuarantee
        """
        return replace(self, conditions=(*self.conditions, *conditions))

    def epsilon_at(self, delta: float) -> float:
        """Smallest epsilon known to hold at `delta`.

        Parameters
        ----------
        delta : float
            In [0, 1).

        Returns
        -------
        epsilon : float
            Infinite if no finite epsilon holds.
        """
        from .accounting._curves import event_epsilon

        check_number(delta, "delta")
        if not 0 <= delta < 1:
            raise ValueError(f"delta must be in [0, 1), got {delta}.")
        return event_epsilon(self.event, delta)

    def delta_at(self, epsilon: float) -> float:
        """Smallest delta known to hold at `epsilon`.

        Parameters
        ----------
        epsilon : float
            At least 0.

        Returns
        -------
        delta : float
            In [0, 1].
        """
        from .accounting._curves import event_delta

        check_number(epsilon, "epsilon")
        if not epsilon >= 0:
            raise ValueError(f"epsilon must be >= 0, got {epsilon}.")
        return event_delta(self.event, epsilon)

    def renyi_at(self, order: float) -> float:
        """Rényi divergence between neighbours, for accountants that compose it.

        This is the divergence for ideal noise. A sampler's noise is bounded, so its
        distance from ideal noise is not a Rényi divergence and is left out here;
        `epsilon_at` and `delta_at` include it.

        Parameters
        ----------
        order : float
            Greater than 1.

        Returns
        -------
        divergence : float
            order mu^2 / 2 for Gaussian noise (Mironov 2017, Proposition 7); infinite if
            there is none.
        """
        from .accounting._renyi import event_renyi

        check_number(order, "order")
        if not order > 1:
            raise ValueError(f"order must be > 1, got {order}.")
        return event_renyi(self.event, order)

    def subsampled(self, rate: float, *, delta: float | None = None) -> Self:
        """Guarantee of the same release, computed on a Poisson sample of the records.

        Every record is in the sample with probability `rate`, independently, and it
        stays secret which records are. The release must be a query of bounded
        sensitivity under adding or removing one record, such as a sum of clipped
        gradients. For private gradient descent, compose one guarantee for each step.

        Parameters
        ----------
        rate : float
            In (0, 1].
        delta : float, default=None
            The delta at which to state the epsilon; that of this guarantee by default.

        Returns
        -------
        guarantee : PrivacyGuarantee
            Its relation is "add-or-remove".

        Raises
        ------
        ValueError
            If each record is released by itself (by a mechanism with `bounds` or
            `norm_bound`): the output then shows who is in the Poisson sample, and
            sampling gains nothing.

        Examples
        --------
        >>> import numpy as np
        >>> from sktensordp.mechanisms import GaussianMechanism
        >>> from sktensordp.privacy import compose
        >>> gradients = np.zeros((1, 5))
        >>> step = GaussianMechanism(2.0, delta=1e-6, sensitivity=1.0).fit(gradients)
        >>> sampled = step.privacy_guarantee_.subsampled(0.01)
        >>> round(compose(*[sampled] * 1000, delta=1e-5).epsilon, 2)
        0.54
        """
        from dp_accounting import dp_event

        check_number(rate, "rate")
        if not 0 < rate <= 1:
            raise ValueError(f"rate must be in (0, 1], got {rate}.")
        if self.relation not in ("add-or-remove", CALLERS_RELATION):
            raise ValueError(
                f"Sampling records does not help a release with relation "
                f"{self.relation!r}. It helps queries with a declared sensitivity."
            )
        return self.derived(
            dp_event.PoissonSampledDpEvent(rate, self.event),
            delta=self.delta if delta is None else delta,
            relation="add-or-remove",
            statement=f"{self.statement} On a Poisson sample with rate {exact(rate)}.",
        )

    def repeated(self, count: int, *, delta: float | None = None) -> Self:
        """Guarantee of `count` such releases about the same data.

        Parameters
        ----------
        count : int
            At least 1; fixed before the first release.
        delta : float, default=None
            The delta at which to state the epsilon. By default, `count` times that of
            this guarantee; or that of this guarantee, if the product is not below 1.

        Returns
        -------
        guarantee : PrivacyGuarantee

        Raises
        ------
        TypeError
            If `count` is not an integer.
        ValueError
            If `count` is out of range.
        """
        from dp_accounting import dp_event

        count = checked_integer(count, "count")
        if not 1 <= count < 2**63:
            raise ValueError(f"count must be from 1 to 2**63 - 1, got {count}.")
        total = count * self.delta if count * self.delta < 1 else self.delta
        claimed = self.claimed
        return self.derived(
            dp_event.SelfComposedDpEvent(self.event, count),
            delta=total if delta is None else delta,
            statement=f"{count} times: {self.statement}",
            claimed=claimed
            and (count * claimed[0], min(count * claimed[1], _BELOW_ONE)),
        )

    def for_group(
        self, size: int, *, local: bool = False, delta: float | None = None
    ) -> Self:
        """Guarantee of this release for any `size` units together, such as a household.

        Parameters
        ----------
        size : int
            Number of units that may all change at once, at least 1.
        local : bool, default=False
            Whether every unit is randomised by itself, as on people's own devices: by
            a mechanism with `bounds` or `norm_bound`, an encoder, or a client. Then
            `size` messages change, and the guarantee is that of `size` releases. If the
            `local` of this guarantee is None, you vouch for this. It does not hold if
            noise is added to sums, as by a completion with a perturbation other than
            "input", and is then refused. The default holds for every release, but is
            larger for such messages: with Gaussian noise, mu grows by a factor of
            `size` instead of its square root.
        delta : float, default=None
            The delta at which to state the epsilon. By default that of this guarantee;
            if no finite epsilon holds there, its delta times
            (e^(size epsilon) - 1) / (e^epsilon - 1), for local units times `size`.

        Returns
        -------
        guarantee : PrivacyGuarantee
            Its relation says how many units change together. It does not compose with
            guarantees of other numbers of units.

        Raises
        ------
        ValueError
            If `size` is less than 1, or if `local` is set although the noise was not
            added to each unit by itself, the unit is not "sample" or "entry", the
            relation is not replace-one, or the messages were shuffled: several people
            in one shuffle are a group.
        TypeError
            If `size` is not an integer.

        Notes
        -----
        Several samples of one person in one fit are such a group. If you can, pass
        `groups` to the `fit` of an estimator of :mod:`sktensordp.moments` instead: its
        guarantee is then for a person, however many samples each has.

        Inputs that differ in `size` units are joined by `size` steps from neighbour to
        neighbour. So 1 minus the trade-off function, applied `size` times, bounds the
        power of every test (Dong, Roth and Su 2022, group privacy). For Gaussian noise
        this is `size` mu. A pure epsilon becomes `size` epsilon at delta = 0, and less
        at larger deltas. If only (epsilon, delta) is known, the group has size epsilon
        and delta (e^(size epsilon) - 1) / (e^epsilon - 1). Units may be replaced, or
        added and removed in any mixture, as the relation of one unit says.

        Examples
        --------
        A mean with Gaussian noise, for one person and for a household of four:

        >>> import numpy as np
        >>> from sktensordp.mechanisms import GaussianMechanism
        >>> mean = GaussianMechanism(0.5, delta=1e-6, sensitivity=0.01)
        >>> person = mean.fit(np.zeros((1, 3))).privacy_guarantee_
        >>> household = person.for_group(4)
        >>> round(household.epsilon, 2)
        2.24
        >>> household.relation
        'any change within the declared sensitivity, any 4 together'

        Four people who each send a message of their own:

        >>> device = GaussianMechanism(0.5, delta=1e-6, bounds=(0, 1))
        >>> message = device.fit(np.zeros((1, 3))).privacy_guarantee_
        >>> round(message.for_group(4, local=True).epsilon, 2)
        1.05
        """
        return for_group(self, size, local=local, delta=delta)

    def describe(self) -> str:
        """Describe the guarantee for a filing, in the words of NIST SP 800-226.

        Returns
        -------
        text : str
            Mechanism, unit of privacy, neighbouring data sets, privacy parameters,
            trust model, conditions, theorem, and the build of the package that runs
            now. It holds no data. For a release of another build, state that of its row
            in the history of a budget.

        Examples
        --------
        >>> from sktensordp.mechanisms import LaplaceMechanism
        >>> noise = LaplaceMechanism(1.0, bounds=(0, 1)).fit([[0.0, 0.5]])
        >>> print(noise.privacy_guarantee_.describe())
        Mechanism: ...
        Unit of privacy: one row of X. It stands for a person (user level) only if each
        person has a single row.
        Neighbouring data sets: one unit has other data, and the number of units is
        public (bounded differential privacy).
        Privacy parameters: epsilon = 1, delta = 0. Whoever holds two guesses about a
        unit to be equally likely, and knows all else, learns the right one with
        probability at most 0.621.
        Trust model: ...
        Proof: ...
        Implementation: sktensordp ..., dp-accounting ..., build ...
        """
        from ._filing import filing

        return filing(self)

    def advantage(self) -> float:
        """Largest difference between an attacker's true and false positive rates.

        The attacker knows all the rest of the data, and tests a suspicion about the
        unit: that the data are these, rather than a given neighbour of them. Whatever
        the test, its true positive rate minus its false positive rate is at most this.

        Returns
        -------
        advantage : float
            From 0, if nothing is revealed, to 1: the delta at epsilon 0, over the whole
            curve and both orders of the neighbours. 2 Phi(mu / 2) - 1 for Gaussian
            noise.

        Examples
        --------
        >>> from dp_accounting import GaussianDpEvent
        >>> from sktensordp.privacy import PrivacyGuarantee
        >>> guarantee = PrivacyGuarantee.from_event(
        ...     GaussianDpEvent(2.0), delta=1e-5, unit="sample",
        ...     statement="Gaussian noise.", source="Balle and Wang (2018), Theorem 8")
        >>> round(guarantee.advantage(), 4)
        0.1974
        """
        return _risk.advantage(self.delta_at)

    def max_accuracy(self, prior: float = 0.5) -> float:
        """Largest probability that an attacker's guess about the unit is right.

        Parameters
        ----------
        prior : float, default=0.5
            Probability of the suspicion before the release, in (0, 1).

        Returns
        -------
        accuracy : float
            At least max(prior, 1 - prior), which is possible without the release.

        Raises
        ------
        TypeError
            If `prior` is not one number.
        ValueError
            If `prior` is not in (0, 1).

        See Also
        --------
        sktensordp.privacy.epsilon_for_accuracy : The epsilon for an accuracy.

        Examples
        --------
        >>> from dp_accounting import LaplaceDpEvent
        >>> from sktensordp.privacy import PrivacyGuarantee
        >>> guarantee = PrivacyGuarantee.from_event(
        ...     LaplaceDpEvent(1.0), unit="sample", statement="Laplace noise.",
        ...     source="Dwork et al. (2006)")
        >>> round(guarantee.max_accuracy(), 4)
        0.6967
        >>> round(guarantee.max_accuracy(prior=0.01), 4)
        0.99
        """
        return _risk.max_accuracy(self.delta_at, prior)

    def max_tpr(self, fpr: float) -> float:
        """Largest true positive rate of a test with this false positive rate.

        Parameters
        ----------
        fpr : float
            Probability that the test confirms a wrong suspicion, in [0, 1].

        Returns
        -------
        tpr : float
            Upper bound on the probability that it confirms a true one, in either order
            of the neighbours. Where both orders have the same trade-off function, as
            with Gaussian noise, this is 1 minus that function, and a test reaches it.

        Raises
        ------
        TypeError
            If `fpr` is not one number.
        ValueError
            If `fpr` is not in [0, 1].

        Examples
        --------
        >>> from dp_accounting import GaussianDpEvent
        >>> from sktensordp.privacy import PrivacyGuarantee
        >>> guarantee = PrivacyGuarantee.from_event(
        ...     GaussianDpEvent(1.0), delta=1e-5, unit="sample",
        ...     statement="Gaussian noise.", source="Balle and Wang (2018), Theorem 8")
        >>> round(guarantee.max_tpr(0.01), 4)
        0.0924
        """
        return _risk.max_tpr(self.delta_at, self.epsilon_at(0.0), fpr)

    def predictive_values(self, prior: float, fpr: float) -> _risk.PredictiveValues:
        """How often an attacker's answers can be right, by Bayes' rule.

        Parameters
        ----------
        prior : float
            Probability of the suspicion before the release, in (0, 1).
        fpr : float
            Probability that the test confirms a wrong suspicion, in [0, 1].

        Returns
        -------
        values : PredictiveValues
            `positive`: largest probability that a confirmed suspicion is true.
            `negative`: largest probability that a rejected suspicion is false.

        Raises
        ------
        TypeError
            If an argument is not one number.
        ValueError
            If `prior` is not in (0, 1), or `fpr` not in [0, 1].

        Examples
        --------
        >>> from dp_accounting import LaplaceDpEvent
        >>> from sktensordp.privacy import PrivacyGuarantee
        >>> guarantee = PrivacyGuarantee.from_event(
        ...     LaplaceDpEvent(1.0), unit="sample", statement="Laplace noise.",
        ...     source="Dwork et al. (2006)")
        >>> values = guarantee.predictive_values(prior=0.1, fpr=0.05)
        >>> round(values.positive, 4), round(values.negative, 4)
        (0.232, 0.9082)
        """
        return _risk.predictive_values(self.delta_at, self.epsilon_at(0.0), prior, fpr)

    def shuffled(self, n_messages: int, *, delta: float = 1e-6) -> Self:
        """Guarantee against everybody who sees such messages only after a shuffle.

        A trusted shuffler collects the messages of many people, removes everything that
        identifies the senders (names, addresses, times, labels, the order), and passes
        them on. Against the shuffler itself, each message keeps its own guarantee.

        Parameters
        ----------
        n_messages : int
            Number of messages that are shuffled together and randomised as agreed, at
            least 2: one per person, including the protected person. Do not count those
            of people who may cheat or collude with the server.
        delta : float, default=1e-6
            The delta at which to state the epsilon, in [0, 1). At 0, shuffling gains
            nothing.

        Returns
        -------
        guarantee : PrivacyGuarantee
            Never larger than that of one message. For several rounds, compose it.

        Raises
        ------
        TypeError
            If `n_messages` is not an integer.
        ValueError
            If no theorem covers this guarantee: if it is not `local`, such as that of a
            query, of several releases, or of values that are sent with their
            coordinates; if it is shuffled already; or if its own delta adds so much
            that shuffling gains nothing.

        See Also
        --------
        sktensordp.model_selection.epsilon_before_shuffling : The epsilon of a message.

        Notes
        -----
        If a message is one symbol of a table with at most 16 rows (randomised response
        for one entry), the bound is the privacy blanket of Balle, Bell, Gascón and
        Nissim (2019), for the worst pair of rows; if only two messages are possible, it
        is exact for up to 256 people. For every other randomizer it is that
        of Feldman, McMillan and Talwar (2021, Theorem 3.2), which depends on its
        epsilon alone. A randomizer with a delta of its own, delta_0 at epsilon_0, adds
        about 2 n_messages e^-epsilon_0 delta_0 to delta. ``doc/shuffling.md`` has the
        proofs.

        Examples
        --------
        >>> import numpy as np
        >>> from sktensordp.mechanisms import HybridMechanism
        >>> mechanism = HybridMechanism(4.0, bounds=(-1, 1)).fit(np.zeros((1, 3)))
        >>> message = mechanism.privacy_guarantee_
        >>> round(message.shuffled(100_000, delta=1e-6).epsilon, 3)
        0.17
        """
        return shuffled(self, n_messages, delta)

    def __add__(self, other: Self) -> "PrivacyGuarantee":
        """Guarantee of both releases, about the same data: `compose`."""
        return (
            compose(self, other)
            if isinstance(other, PrivacyGuarantee)
            else NotImplemented
        )

    def __radd__(self, other: object) -> Self:
        """Accept the 0 with which ``sum`` begins."""
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def __mul__(self, count: int) -> Self:
        """Guarantee of `count` such releases about the same data: `repeated`.

        Not that of one release for a person who has `count` samples in it: `for_group`,
        or pass `groups` to the fit, so that the guarantee is for people.
        """
        is_count = isinstance(count, Integral) and not isinstance(count, bool)
        return self.repeated(int(count)) if is_count else NotImplemented

    __rmul__ = __mul__

    def __or__(self, other: Self) -> "PrivacyGuarantee":
        """Guarantee of both releases, about disjoint data: `compose_parallel`."""
        return (
            compose_parallel(self, other)
            if isinstance(other, PrivacyGuarantee)
            else NotImplemented
        )

    @property
    def protects(self) -> bool:
        """Whether a finite epsilon holds at `delta`."""
        return math.isfinite(self.epsilon)

    def __str__(self) -> str:
        unit = unit_in_words([self])
        text = f"{self.scope}: " if self.scope else ""
        if self.protects:
            text += (
                f"{_format_pair(self.epsilon, self.delta)}-differential privacy for "
                f"{unit} ({self.relation}){clauses(self.conditions)}"
            )
        else:
            text += f"No differential privacy for {unit}: no finite epsilon holds"
        if self.claimed is not None:
            text += f"; the claim was {_format_pair(*self.claimed)}"
        return f"{text}."

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(epsilon={exact(self.epsilon)}, "
            f"delta={exact(self.delta)}, unit={self.unit!r}, "
            f"relation={self.relation!r})"
        )

    def _repr_html_(self) -> str:
        told = {"statement": self.statement, "unit": self.protected or self.unit}
        told |= {"relation": self.relation, "source": self.source}
        table = rows(told.items())
        return guarantee_line(self) + table + curve(self.event, self.epsilon)


def in_words(
    guarantee: PrivacyGuarantee, *, protected: str = "", scope: str = ""
) -> PrivacyGuarantee:
    """The same guarantee, printed in these words where they are given."""
    # A copy, since what was checked needs no second check, which may take long.
    told = copy.copy(guarantee)
    words = {"protected": protected, "scope": scope}
    vars(told).update({name: text for name, text in words.items() if text})
    return told


def protected_by(guarantees: Iterable[PrivacyGuarantee]) -> str:
    """The `protected` of guarantees if it is the same for all, else nothing."""
    words = {g.protected for g in guarantees}
    return words.pop() if len(words) == 1 else ""


def unit_in_words(guarantees: Sequence[PrivacyGuarantee]) -> str:
    """The common unit of guarantees, in the words that all of them use, if they do."""
    return protected_by(guarantees) or unit_name(guarantees[0].unit)


def guarantee_line(guarantee: PrivacyGuarantee, before: str = "") -> str:
    """A guarantee in one coloured line of HTML, without its full stop."""
    text = before + str(guarantee).removesuffix(".")
    return coloured(text, holds=guarantee.protects)


def no_guarantee(
    statement: str, *, unit: str | int = "sample", relation: str = "replace-one"
) -> PrivacyGuarantee:
    """What a release without noise guarantees: nothing."""
    from dp_accounting import dp_event

    return PrivacyGuarantee.from_event(
        dp_event.NonPrivateDpEvent(),
        unit=unit,
        relation=relation,
        statement=statement,
        source="not private",
    )


def compose(
    *guarantees: PrivacyGuarantee, delta: float | None = None
) -> PrivacyGuarantee:
    """Guarantee of several releases about the same data, taken together.

    Earlier results may decide what is released, but not how much it reveals: if they
    decide that too, use a `PrivacyBudget`. Pure epsilons add up, Gaussian releases
    compose in closed form, and mixtures compose through privacy-loss distributions.

    Parameters
    ----------
    *guarantees : PrivacyGuarantee
        At least one; all with the same unit and relation.
    delta : float, default=None
        The delta at which to state the epsilon. By default, the sum of the deltas; or
        the largest of them, if the sum is not below 1.

    Returns
    -------
    guarantee : PrivacyGuarantee

    Raises
    ------
    ValueError
        If no guarantee is given, or if the units or the relations differ: guarantees
        about different neighbouring inputs do not compose. A query whose sensitivity
        the caller vouches for composes with any relation; the caller then vouches for
        that relation, too.
    TypeError
        If anything but a guarantee is given.

    Examples
    --------
    >>> import dp_accounting
    >>> from sktensordp.privacy import PrivacyGuarantee, compose
    >>> release = PrivacyGuarantee.from_event(
    ...     dp_accounting.LaplaceDpEvent(noise_multiplier=2.0), unit="entry",
    ...     statement="Laplace noise.", source="Dwork et al. (2006)")
    >>> together = compose(release, release, release)
    >>> together.epsilon, together.delta
    (1.5, 0.0)
    """
    from .accounting._curves import compose_events

    unit, relation = unit_and_relation(guarantees)
    claimed = None
    if any(g.claimed is not None for g in guarantees):
        pairs = [g.claimed or (g.epsilon, g.delta) for g in guarantees]
        claimed = (sum(e for e, _ in pairs), min(sum(d for _, d in pairs), _BELOW_ONE))
    return PrivacyGuarantee.from_event(
        compose_events(g.event for g in guarantees),
        delta=_stated_delta([g.delta for g in guarantees]) if delta is None else delta,
        unit=unit,
        protected=protected_by(guarantees),
        relation=relation,
        statement=f"Composition of {len(guarantees)} releases about the same data.",
        source=sources_of(guarantees),
        claimed=claimed,
        local=local_of(guarantees),
        conditions=conditions_of(guarantees),
    )


def compose_parallel(
    *guarantees: PrivacyGuarantee, delta: float | None = None
) -> PrivacyGuarantee:
    """Guarantee of releases about disjoint parts of the data, taken together.

    Each record is in one part, so only one release reveals something about it: at every
    epsilon, the worst of them counts. The part that a record is in must be fixed or
    public. If its values decide that, replacing one record may change two parts, and
    the releases compose as in `compose`.

    Parameters
    ----------
    *guarantees : PrivacyGuarantee
        One for each part, at least one; all with the same unit and relation.
    delta : float, default=None
        The delta at which to state the epsilon; the largest of the deltas by default.

    Returns
    -------
    guarantee : PrivacyGuarantee

    Raises
    ------
    ValueError
        As in `compose`.

    Examples
    --------
    >>> import dp_accounting
    >>> from sktensordp.privacy import PrivacyGuarantee, compose_parallel
    >>> def noise(scale):
    ...     return PrivacyGuarantee.from_event(
    ...         dp_accounting.LaplaceDpEvent(scale), unit="sample",
    ...         statement="Laplace noise.", source="Dwork et al. (2006)")
    >>> compose_parallel(noise(2.0), noise(4.0)).epsilon
    0.5
    >>> (10 * (noise(2.0) | noise(4.0)) + noise(1.0)).epsilon
    6.0
    """
    from .accounting._events import ParallelDpEvent

    unit, relation = unit_and_relation(guarantees)
    claimed = None
    if any(g.claimed is not None for g in guarantees):
        pairs = [g.claimed or (g.epsilon, g.delta) for g in guarantees]
        claimed = (max(e for e, _ in pairs), max(d for _, d in pairs))
    return PrivacyGuarantee.from_event(
        ParallelDpEvent(g.event for g in guarantees),
        delta=max(g.delta for g in guarantees) if delta is None else delta,
        unit=unit,
        protected=protected_by(guarantees),
        relation=relation,
        statement=f"Releases about {len(guarantees)} disjoint parts of the data.",
        source=sources_of(guarantees),
        claimed=claimed,
        local=local_of(guarantees),
        conditions=conditions_of(guarantees),
    )


def hides_ids(unit: str | int, relation: str) -> bool:
    """Whether a guarantee covers which ids occur in the data.

    It covers all data of a user, or rows of X that may be added or removed.
    """
    is_row = unit == "sample" and relation == "add-or-remove"
    return isinstance(unit, int) or is_row


def unit_and_relation(guarantees: Iterable[PrivacyGuarantee]) -> tuple[str | int, str]:
    """The common unit and relation of guarantees.

    Raises
    ------
    ValueError
        If there is no guarantee, or if the units or the relations differ.
    """
    guarantees = list(guarantees)
    if not guarantees:
        raise ValueError("A composition needs at least one guarantee.")
    for guarantee in guarantees:
        check_guarantee(guarantee)
    units = {str(g.unit): unit_name(g.unit) for g in guarantees}
    if len(units) > 1:
        raise ValueError(
            f"Guarantees with different units do not compose: {sorted(units)}. They "
            f"are for {' and for '.join(units[u] for u in sorted(units))}; each bounds "
            f"what its release reveals about its own unit, and not about another. "
            f"Protect the same unit in all of them."
        )
    sizes = {split_relation(g.relation)[1] for g in guarantees}
    relations = {g.relation for g in guarantees}
    if len(sizes) == 1:
        of_callers = group_relation(CALLERS_RELATION, *sizes)
        relations = relations - {of_callers} or relations
    if len(relations) > 1:
        raise ValueError(
            f"Guarantees with different relations do not compose: {sorted(relations)}. "
            f"They bound the effects of different changes of the data. Compose only "
            f"guarantees with the same relation."
        )
    return guarantees[0].unit, min(relations)


def _stated_delta(deltas: Sequence[float]) -> float:
    """Default delta of a composition: the sum; if that is not below 1, the largest."""
    total = math.fsum(deltas)
    return total if total < 1 else max(deltas)


def sources_of(guarantees: Iterable[PrivacyGuarantee]) -> str:
    """The theorems that prove the guarantees, each once."""
    return "; ".join(
        sorted({theorem for g in guarantees for theorem in g.source.split("; ")})
    )


def conditions_of(guarantees: Iterable[PrivacyGuarantee]) -> tuple[str, ...]:
    """The conditions on which all of the guarantees hold together."""
    return tuple(condition for g in guarantees for condition in g.conditions)


def local_of(guarantees: Iterable[PrivacyGuarantee]) -> bool | None:
    """The `local` of a guarantee built on others: False if it is so for any of them."""
    return False if any(g.local is False for g in guarantees) else None
