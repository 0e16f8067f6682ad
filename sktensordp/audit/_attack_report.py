"""Report of an audit with canaries, in the words of a claim and of its evidence."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from importlib.metadata import version

from ..privacy import PrivacyGuarantee
from ..privacy._numbers import exact, shown, shown_below
from ._attacks import Attack
from ._report import AuditReport

_LIBRARIES = ("sktensordp", "numpy", "scikit-learn")


def _today() -> str:
    return datetime.date.today().isoformat()


def _versions() -> str:
    return ", ".join(f"{name} {version(name)}" for name in _LIBRARIES)


@dataclass(frozen=True, kw_only=True)
class AttackReport(AuditReport):
    """What two attackers found out about people, from one fit and its answers.

    `epsilon_lower` and `violated` are those of the insider. The report shows no ids,
    but `account` and `insider` hold a score for each canary, and canaries may be real
    customers: keep it for internal use.

    Parameters
    ----------
    account : Attack
        The attacker sees answers only: scores, lists or predictions.
    insider : Attack
        The attacker also knows all other data, as differential privacy assumes.
    canaries : str
        What the canaries are, in words.
    question : str
        What the attackers tell, in words.
    knowledge : str
        Who the first attacker is and knows, in words.
    unit : str
        Of whom a guarantee is refuted: "customer", "rating" or "sample".
    relation : str
        What a bit changes: "add-or-remove" or "replace-one".
    ceiling : float
        The bound if all guesses were right: no larger claim can be refuted.
    guarantee : PrivacyGuarantee or None, default=None
        The guarantee that the audited model states.
    not_judged : str, default=""
        Why its guarantee is not judged, if it is not.
    is_repeated : bool, default=False
        Whether two fits to the same data gave the same answers although the caller's
        function should have drawn noise. The claim is then neither kept nor broken.

    Attributes
    ----------
    verdict : str
        Whether the claim is refuted, in a sentence; empty if there is none.
    date, versions : str
        The day of the audit, and versions of libraries.

    See Also
    --------
    audit_recommender, audit_training
    """

    account: Attack
    insider: Attack
    canaries: str
    question: str
    knowledge: str
    unit: str
    relation: str
    ceiling: float
    guarantee: PrivacyGuarantee | None = None
    not_judged: str = ""
    is_repeated: bool = False
    date: str = field(default_factory=_today)
    versions: str = field(default_factory=_versions)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.is_repeated:
            object.__setattr__(self, "violated", False)

    @property
    def verdict(self) -> str:
        """Whether the claim is refuted, in a sentence; empty if there is none."""
        if self.claimed is None:
            return ""
        if self.is_repeated:
            return (
                "Two fits to the same data gave the same answers, so the model adds no "
                "noise, or its seed is fixed. The claim is neither kept nor broken: it "
                "holds only against whoever does not know the seed, if there is noise."
            )
        if self.violated:
            return "VIOLATED: the insider proves more than the claim allows."
        if self.claimed >= self.ceiling:
            return (
                f"Not refuted. With {self.insider.n_canaries} canaries, no attack can "
                f"refute a claim above {shown_below(self.ceiling)}."
            )
        return "Not refuted. Better attacks may find more."

    def in_words(self) -> str:
        """What was found, for a reader who knows nothing about privacy.

        Returns
        -------
        text : str
            One paragraph.
        """
        a = self.account
        coin = a.n_guesses / 2
        bound = shown_below(a.epsilon_lower)
        proved = (
            f"With {100 * self.confidence:g}% confidence, no guarantee below epsilon "
            f"{bound} at delta = {exact(self.delta)} holds for one {self.unit}."
            if a.epsilon_lower > 0
            else "That proves nothing: guessing could have done as well."
        )
        return (
            f"{self.canaries} {self.knowledge[0].upper()}{self.knowledge[1:]} guessed "
            f"{self.question} for the {a.n_guesses} about which it was surest, and was "
            f"right for {a.n_right} (a coin: about {coin:g}). {proved} Better attacks "
            f"may find more: a small bound proves no privacy."
        )

    def __str__(self) -> str:
        lines = ["Claim"]
        if self.guarantee is not None:
            lines += [f"  {self.guarantee}", f"  {self.guarantee.source}"]
        if self.claimed is not None:
            lines.append(
                f"  judged: epsilon = {shown(self.claimed)} at delta = "
                f"{exact(self.delta)} for one {self.unit} ({self.relation})"
            )
        lines.append(f"  {self.verdict or self.not_judged or 'No claim to judge.'}")
        percent = f"{100 * self.confidence:g}%"
        lines.append(f"Evidence (each bound by itself holds with {percent} confidence)")
        for name, attack in (("account", self.account), ("insider", self.insider)):
            bound = shown_below(attack.epsilon_lower)
            lines.append(f"  {name}: epsilon >= {bound}; {attack}")
        lines += [
            f"  The largest bound that {self.insider.n_canaries} canaries can prove is "
            f"{shown_below(self.ceiling)}.",
            f"  {self.date}; {self.versions}",
            "In words",
            f"  {self.in_words()}",
            "For internal use: the scores in this report are those of people.",
        ]
        return "\n".join(lines)
