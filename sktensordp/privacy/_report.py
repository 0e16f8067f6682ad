"""What a fitted estimator, pipeline or search has revealed, all releases together."""

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ._collect import Context, Findings, collect
from ._guarantee import PrivacyGuarantee, compose, guarantee_line, hides_ids
from ._html import releases_table
from ._numbers import epsilon_line
from ._protocol import states_guarantee
from ._searches import SCORES_CAVEAT
from .budgets._open import contents

_DIVIDED = (
    "It is not known whether one record decides which others the fits of a list get."
)


@dataclass(frozen=True)
class PrivacyReport:
    """What an object reveals about one unit, and what its guarantee leaves out.

    Parameters
    ----------
    guarantee : PrivacyGuarantee
        Composition of all releases of this object. Its epsilon is infinite if something
        was fitted to data without noise; its statement then says what holds for the
        private steps alone.
    unprotected : tuple of str
        What the guarantee does not cover.
    releases : tuple of (str, int, PrivacyGuarantee)
        For each release, its name, how many times at most it used one record, and what
        it reveals each time.
    notes : tuple of str, default=()
        Where the guarantee may be looser than need be, and what to do.
    """

    guarantee: PrivacyGuarantee
    unprotected: tuple[str, ...]
    releases: tuple[tuple[str, int, PrivacyGuarantee], ...]
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.guarantee!r}, "
            f"releases={len(self.releases)}, unprotected={len(self.unprotected)})"
        )

    def __str__(self) -> str:
        # Scores and choices of a search are releases, too, and nothing protects them.
        what = "fits" if SCORES_CAVEAT in self.unprotected else "releases"
        lines = [f"All {what} of this object together: {self.guarantee}"]
        if not self.guarantee.protects:
            lines.append(f"  {self.guarantee.statement}")
        for name, count, guarantee in self.releases:
            lines.append(f"  {count} x {epsilon_line(guarantee.epsilon)}: {name}")
        lines += [f"  {note}" for note in self.notes]
        lines.append("Not protected:")
        lines += [f"  - {sentence}" for sentence in self.unprotected]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        why = html.escape(self.guarantee.statement)
        void = "" if self.guarantee.protects else f"<p>{why}</p>"
        lines = [(0, n, one.epsilon, name) for name, n, one in self.releases]
        table = releases_table(lines, self.unprotected)
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes)
        line = guarantee_line(self.guarantee, "All together: ")
        return f"{line}{void}{table}{notes}"


def privacy_of(obj: object) -> PrivacyReport:
    """What a fitted estimator, pipeline or hyper-parameter search reveals.

    A completion makes its release in `fit`, and a noise mechanism makes one at every
    call of `transform`. Objects keep count: the report composes all releases of this
    object, including those of earlier fits and of calls after the fit. A mechanism that
    has released nothing yet counts with one call.

    Parameters
    ----------
    obj : estimator, or list of estimators
        Fitted. For a list, such as the estimators that `cross_validate` returns, the
        report covers the releases of all fits. No finite epsilon holds for several of
        them together, since one record may decide which others a fit gets. For a
        search, pass the search itself. `privacy_of` follows the estimators of this
        package, Pipeline, ColumnTransformer, FeatureUnion, GridSearchCV,
        RandomizedSearchCV, the halving searches, VotingRegressor, VotingClassifier,
        TransformedTargetRegressor and FrozenEstimator, nested in any way. It follows a
        search inside a search if the inner one lists its candidates, and its number of
        splits is known without data.

    Returns
    -------
    report : PrivacyReport
        Its epsilon is infinite if something learns from data without noise, or if
        private estimators are fitted in a way that `privacy_of` cannot follow: by other
        estimators (bagging, stacking), through scoring functions that `make_scorer` did
        not make, or on the splits of unknown splitters.

    Raises
    ------
    TypeError
        If nothing in `obj` gives a guarantee, or it has not been fitted.
    ValueError
        If the guarantees in `obj` are for different units or relations, such as the
        value of one entry and all data of a user, which do not compose.

    Notes
    -----
    In a search, every candidate is fitted to the training set of every split, and the
    best one is refitted. Each of these fits is a release about the records that it
    uses. A mechanism also transforms the test set, to score it, and with
    `return_train_score` the training set again.

    Steps after a noise mechanism in a pipeline reveal nothing more about X if all that
    they see of it has noise; what they learn from y is not protected. If a guarantee
    covers y, too, epsilon is infinite unless each step without a guarantee is one of
    scikit-learn's that is known to ignore y, and no subclass of it. If a
    ColumnTransformer passes on columns without noise, or a step learns from data
    without noise, no guarantee holds for a whole row of X: epsilon is infinite, and the
    report names the columns and the step. This includes encoders of this package; if
    one was fitted to public data, pass it as ``FrozenEstimator(encoder)``. A release
    that `privacy_of` cannot follow counts as unprotected, and the report names it. It
    also names callbacks to which scikit-learn's estimators pass data.

    Copies and pickles keep the count of what was released so far; clones start from
    zero. The report cannot know what other copies have released since, here or in other
    processes: open a `PrivacyBudget` to count that. All releases of an object count as
    if they were about the same people: those of a pipeline with a mechanism that was
    fitted to some and scored on others add up. The `parallel` of a budget counts only
    the worst of several groups of people.

    The report does not look into functions: it assumes that functions which score, or
    transform features or targets, fit nothing.

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sktensordp.completion import CPCompletion
    >>> from sktensordp.datasets import make_ratings
    >>> from sktensordp.privacy import privacy_of
    >>> ratings = make_ratings(20, 20, 300, random_state=0)
    >>> model = CPCompletion(rank=1, value_bounds=(0.5, 5), max_iter=2)
    >>> search = GridSearchCV(model, {"epsilon": [1.0, 2.0]}, cv=3).fit(
    ...     ratings.data, ratings.target)
    >>> report = privacy_of(search)
    >>> [(count, guarantee.epsilon) for _, count, guarantee in report.releases[:2]]
    [(2, 1.0), (2, 2.0)]
    >>> round(report.guarantee.epsilon - search.best_params_["epsilon"], 3)
    6.0

    If columns bypass the mechanism, no guarantee holds for a whole row:

    >>> import numpy as np
    >>> from sklearn.compose import make_column_transformer
    >>> from sktensordp.mechanisms import LaplaceMechanism
    >>> noise = make_column_transformer(
    ...     (LaplaceMechanism(bounds=(0, 1)), [0, 1]), remainder="passthrough")
    >>> report = privacy_of(noise.fit(np.full((5, 3), 0.5)))
    >>> report.guarantee.epsilon, report.releases[0][2].epsilon
    (inf, 1.0)
    >>> report.unprotected[-1].partition(",")[0]
    "ColumnTransformer passes on 1 column(s) ... made (transformer 'remainder')"
    """
    return report_of(obj, collect(obj, Context()))


def report_of(obj: object, findings: Findings) -> PrivacyReport:
    """The report about an object, from what was found in it.

    Raises
    ------
    TypeError, ValueError
        As in `privacy_of`.
    """
    releases = counted(findings)
    is_unfitted = not findings.releases and hasattr(obj, "fit")
    if is_unfitted and any(map(states_guarantee, contents(obj))):
        raise TypeError(
            f"This {type(obj).__name__} has not been fitted, so it has released "
            f"nothing itself. If a search or a cross-validation fitted clones of it, "
            f"these have: pass the search, or the estimators that cross_validate "
            f"returns with return_estimator=True. Before a fit, call planned_guarantee."
        )
    if not findings.releases:
        raise TypeError(
            f"Nothing in this {type(obj).__name__} gives a guarantee. Pass a fitted "
            f"estimator of this package, or a pipeline or search that holds one."
        )
    if not releases:
        raise TypeError(findings.releases[0].why)
    guarantee, voids = composed(releases), _voids(obj, findings)
    if voids and guarantee.protects:
        part = str(guarantee).removesuffix(".")
        statement = (
            f"{' '.join(voids)} The private part alone has {part}, counting only the "
            f"data that reached it. {guarantee.statement}"
        )
        guarantee = _not_private(guarantee, statement, guarantee.source)
    unprotected = findings.unprotected + [r.why for r in findings.releases if r.why]
    sentences, notes = (
        tuple(dict.fromkeys(said)) for said in (unprotected, findings.notes)
    )
    return PrivacyReport(guarantee, sentences, releases, notes)


def guarantee_of_fits(fits: Iterable[Any]) -> PrivacyGuarantee | None:
    """The weakest guarantee of several fits; None if any fit gives none.

    A mechanism counts as one call: its calls for scores are not part of a fit.

    Parameters
    ----------
    fits : iterable of estimator
        Fitted.

    Returns
    -------
    guarantee : PrivacyGuarantee or None
    """
    try:
        one_call = Context("call")
        guarantees = [report_of(fit, collect(fit, one_call)).guarantee for fit in fits]
    except (TypeError, ValueError):
        return None
    return max(guarantees, key=lambda guarantee: guarantee.epsilon)


def _voids(obj: object, findings: Findings) -> list[str]:
    """Reasons for which no finite epsilon holds, whatever the releases guarantee."""
    protected = {what for release in findings.releases for what in release.protects}
    learners = findings.learners if "X" in protected else []
    if states_guarantee(obj):
        # An encoder alone may have been fitted to public data, and the report is about
        # what it releases of others.
        learners = []
    learners = learners + (findings.learners_of_y if "y" in protected else [])
    refusals = [why for name, why in findings.refusals.items() if name in learners]
    learners = [name for name in learners if name not in findings.refusals]
    names = ", ".join(dict.fromkeys(learners))
    voids = [f"{names} learned from data without noise."] if names else []
    voids += refusals
    voids += ["Some columns are passed on without noise."] if findings.raw else []
    return voids + ([_DIVIDED] if findings.divided else [])


def counted(findings: Findings) -> tuple[tuple[str, int, PrivacyGuarantee], ...]:
    """Name, count and guarantee of each release; none if no guarantee is known at all.

    Published ids are a release, too, where all data of a user are protected.
    """
    known = [r.guarantee for r in findings.releases if r.guarantee is not None]
    if not known:
        return ()
    releases = []
    for release in findings.releases:
        guarantee = release.guarantee or known[0]
        if release.why:
            guarantee = _not_private(guarantee, release.why)
        releases.append((release.name, release.in_fit, guarantee))
    for_users = [one for one in known if hides_ids(one.unit, one.relation)]
    for name in dict.fromkeys(findings.publishers if for_users else ()):
        why = (
            f"{name} publishes the ids that occur in the data. Declare all ids in "
            f"`categories`."
        )
        releases.append((f"fit of {name}", 1, _not_private(for_users[0], why)))
    return tuple(releases)


def _not_private(
    like: PrivacyGuarantee, statement: str, source: str = "not private"
) -> PrivacyGuarantee:
    """Guarantee of a release that counts as protecting nothing.

    `like` gives the unit and the relation.
    """
    from dp_accounting import dp_event

    event = dp_event.NonPrivateDpEvent()
    return like.derived(event, statement=statement, source=source)


def composed(
    releases: Sequence[tuple[str, int, PrivacyGuarantee]],
) -> PrivacyGuarantee:
    """Composition of all releases, each as often as it was made."""
    repeated = [
        guarantee if count == 1 else guarantee.repeated(count)
        for _, count, guarantee in releases
    ]
    if len(repeated) == 1:
        return repeated[0]
    try:
        return compose(*repeated)
    except ValueError as error:
        names: dict[tuple[str, str], str] = {}
        for name, _, guarantee in releases:
            names.setdefault((str(guarantee.unit), guarantee.relation), name)
        examples = "; ".join(
            f"{name} (unit {unit}, {relation})"
            for (unit, relation), name in names.items()
        )
        message = f"{error} One release of each kind: {examples}."
    raise ValueError(message)
