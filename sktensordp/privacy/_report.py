"""What an estimator, a pipeline or a search reveals, all releases together."""

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ._guarantee import PrivacyGuarantee, compose
from ._numbers import shown
from ._parts import collect
from ._searches import Context, Findings, Release, unseen

__all__ = ["PrivacyReport", "privacy_of"]


@dataclass(frozen=True)
class PrivacyReport:
    """What an object reveals about one unit, and what its guarantee leaves out.

    Parameters
    ----------
    guarantee : PrivacyGuarantee
        Composition of all releases. Its epsilon is infinite where something was
        fitted to data without noise, and its statement then says what holds for the
        private part alone.
    unprotected : tuple of str
        What the guarantee does not cover.
    releases : tuple of (str, int, PrivacyGuarantee)
        What was released, how often one record went into it at most, and what one
        such release reveals.
    """

    guarantee: PrivacyGuarantee
    unprotected: tuple[str, ...]
    releases: tuple[tuple[str, int, PrivacyGuarantee], ...]

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.guarantee!r}, "
            f"releases={len(self.releases)}, unprotected={len(self.unprotected)})"
        )

    def __str__(self) -> str:
        lines = [f"All releases together: {self.guarantee}"]
        for name, count, one in self.releases:
            lines.append(f"  {count} x epsilon = {shown(one.epsilon)}: {name}")
        lines.append("Not protected:")
        lines += [f"  - {sentence}" for sentence in self.unprotected]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{html.escape(name)}</td><td>{count}</td>"
            f"<td>{shown(one.epsilon)}</td></tr>"
            for name, count, one in self.releases
        )
        items = "".join(f"<li>{html.escape(s)}</li>" for s in self.unprotected)
        return (
            f"{self.guarantee._repr_html_()}<table><tr><th>release</th><th>times</th>"
            f"<th>epsilon</th></tr>{rows}</table><p>Not protected:</p><ul>{items}</ul>"
        )


def privacy_of(obj: Any) -> PrivacyReport:
    """What a fitted estimator, pipeline or hyper-parameter search reveals.

    A completion releases in its fit, a noise mechanism at every call of `transform`;
    a fitted mechanism or pipeline is counted for one call. In a search, a record goes
    into the training part of most folds, for every candidate, and once more into the
    refit; every such fit is a release, and a mechanism also transforms the held-out
    part, to be scored, and with `return_train_score` the training part again.

    What follows a noise mechanism in a pipeline is computed from its output, and from
    y, but only if all that is passed on went through one. Where a ColumnTransformer
    passes columns on without noise, or a step learns from data without noise, nothing
    holds for a whole row of X: epsilon is infinite, and the report names the columns
    and the step. Parts that work side by side add up. What cannot be seen is counted
    as if nothing were protected, and named.

    Parameters
    ----------
    obj : estimator
        Fitted. What is counted: this package's estimators, Pipeline,
        ColumnTransformer, FeatureUnion, GridSearchCV, RandomizedSearchCV, the halving
        searches, VotingRegressor, VotingClassifier, TransformedTargetRegressor and
        FrozenEstimator, within each other. A search in a search is counted if its
        parameters are listed and its number of splits is known without data.

    Returns
    -------
    report : PrivacyReport
        With an infinite epsilon where something learns from data without noise, or
        where private estimators are fitted in a way that cannot be seen: by other
        estimators (bagging, stacking), through scoring functions that make_scorer did
        not make, on the parts of unknown splitters.

    Raises
    ------
    TypeError
        If nothing in `obj` gives a guarantee.
    ValueError
        If the guarantees in `obj` are about different changes of the data, such as
        the value of an entry and all of a user, and so do not add up.

    Notes
    -----
    Calls after the fit are not counted, and no function is looked into: that one which
    scores, or transforms features or targets, fits nothing is taken for granted.

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
    >>> [(count, one.epsilon) for _, count, one in report.releases[:2]]
    [(2, 1.0), (2, 2.0)]
    >>> report.guarantee.epsilon == 6 + search.best_params_["epsilon"]
    True

    Where columns bypass the mechanism, no guarantee holds for a whole row:

    >>> import numpy as np
    >>> from sklearn.compose import make_column_transformer
    >>> from sktensordp.mechanisms import LaplaceMechanism
    >>> noise = make_column_transformer(
    ...     (LaplaceMechanism(bounds=(0, 1)), [0, 1]), remainder="passthrough")
    >>> report = privacy_of(noise.fit(np.full((5, 3), 0.5)))
    >>> report.guarantee.epsilon, report.releases[0][2].epsilon
    (inf, 1.0)
    >>> report.unprotected[-1].partition(",")[0]
    "ColumnTransformer passes on 1 column(s) ... made (part 'remainder')"
    """
    findings = Findings() if isinstance(obj, type) else collect(obj, Context())
    if not findings.releases:
        raise TypeError(f"Nothing in this {type(obj).__name__} gives a guarantee.")
    known = [r.guarantee for r in findings.releases if r.guarantee is not None]
    if not known:
        raise TypeError(findings.releases[0].why)
    releases = tuple(
        (r.name, r.in_fit, r.guarantee or _unplanned(r, known[0]))
        for r in findings.releases
    )
    unprotected = tuple(dict.fromkeys(findings.unprotected))
    return PrivacyReport(_whole(_total(releases), findings), unprotected, releases)


def _whole(parts: PrivacyGuarantee, findings: Findings) -> PrivacyGuarantee:
    """Guarantee of all that is revealed: none where raw data reach what is fitted."""
    from dp_accounting import dp_event

    learners = findings.learners
    if parts.unit == "entry":
        # Coordinates are public; values come as y, or as a dense X.
        learners = findings.learners_of_y + (
            findings.learners if findings.dense else []
        )
    elif isinstance(parts.unit, int):
        learners = findings.learners + findings.learners_of_y
    kinds = dict.fromkeys(learners)
    if not (kinds or findings.raw) or not parts.protects:
        return parts
    said = [f"{', '.join(kinds)} learned from data without noise."] if kinds else []
    said += ["Some columns are passed on without noise."] if findings.raw else []
    said += [
        f"The private part alone has {parts._headline()}, counting only the data that "
        f"reached it. {parts.statement}"
    ]
    return PrivacyGuarantee.of(
        dp_event.NonPrivateDpEvent(),
        unit=parts.unit,
        relation=parts.relation,
        statement=" ".join(said),
        source=parts.source,
    )


def _unplanned(release: Release, like: PrivacyGuarantee) -> PrivacyGuarantee:
    guarantee = unseen(release.name, like, release.why).guarantee
    assert guarantee is not None
    return guarantee


def _total(releases: Sequence[tuple[str, int, PrivacyGuarantee]]) -> PrivacyGuarantee:
    repeated = [one for _, count, one in releases for _ in range(count)]
    if len(repeated) == 1:
        return repeated[0]
    try:
        return compose(*repeated)
    except ValueError as error:
        kinds: dict[tuple[str, str], str] = {}
        for name, _, one in releases:
            kinds.setdefault((str(one.unit), one.relation), name)
        named = "; ".join(
            f"{name} (unit {unit}, {relation})"
            for (unit, relation), name in kinds.items()
        )
        message = f"{error} Findings: {named}."
    raise ValueError(message)
