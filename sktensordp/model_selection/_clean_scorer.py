"""Scores on samples without noise, of what comes after the noise in a pipeline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike
from sklearn.metrics import check_scoring, get_scorer
from sklearn.pipeline import Pipeline

from .._sklearn_compat import wants_frame
from .._validation import as_numpy
from ..mechanisms._base import NoiseMechanism
from ..privacy._protocol import privacy_tags, states_guarantee
from ..privacy.budgets._open import contents

Scorer = Callable[..., float]


def make_clean_scorer(scoring: str | Scorer | None = None) -> CleanScorer:
    """Make a scorer that tests a pipeline on samples without noise.

    If a noise mechanism is a step of a pipeline, the pipeline adds noise to the samples
    of a test, too. This scorer leaves the mechanism out: it passes samples through the
    other steps. So it tells what a model that has learned from noisy samples is worth
    for clean ones. The scorer is not private: it computes scores from raw values.

    Parameters
    ----------
    scoring : str or callable, default=None
        Name of a scikit-learn scorer, or a scorer. None stands for the `score` of the
        pipeline's last step.

    Returns
    -------
    scorer : callable
        Takes a fitted pipeline, X and y, as ``scoring`` of a search. It raises a
        ValueError if a mechanism or an encoder would add noise in another place than as
        a step of the pipeline itself, or changes the shape of the samples.

    See Also
    --------
    sktensordp.recommend.make_fold_in_scorer : Scores on held-out users.

    Notes
    -----
    A search with this scorer draws noise only to fit, never to score, so
    `sktensordp.privacy.privacy_of` counts the fits alone. Its scores, and with them the
    choice of the best candidate, are computed from raw samples: the report lists them
    as not protected. Search on public samples or on those of people who consent, or
    keep the scores and the choice to yourself. `PrivateSearchCV` protects its choice,
    but takes no such scorer: it needs one score for each row.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.pipeline import Pipeline
    >>> from sktensordp.mechanisms import PrivUnit
    >>> from sktensordp.model_selection import make_clean_scorer
    >>> from sktensordp.privacy import privacy_of
    >>> X, y = load_digits(return_X_y=True)
    >>> model = Pipeline([
    ...     ("noise", PrivUnit(8.0, bounds=(0, 16), random_state=0)),
    ...     ("classifier", LinearDiscriminantAnalysis(solver="lsqr")),
    ... ])
    >>> search = GridSearchCV(
    ...     model, {"classifier__shrinkage": [0.1, 0.5]}, cv=3,
    ...     scoring=make_clean_scorer()).fit(X, y)
    >>> bool(search.best_score_ > 0.75)
    True
    >>> round(privacy_of(search).guarantee.epsilon)  # 2 fits of each, and the refit
    40
    """
    if isinstance(scoring, str):
        get_scorer(scoring)  # refuses a name that is unknown
    elif scoring is not None and not callable(scoring):
        raise TypeError(
            f"scoring must be the name of a scorer, a scorer or None, got {scoring!r}."
        )
    return CleanScorer(scoring)


@dataclass(frozen=True)
class CleanScorer:
    """A scorer that can be pickled; see `make_clean_scorer`.

    It adds no noise, so that no call of it is a release of a mechanism.
    """

    scoring: str | Scorer | None

    def __call__(
        self, estimator: Any, X: ArrayLike, y: ArrayLike | None = None, **params: Any
    ) -> float:
        steps = estimator.steps if isinstance(estimator, Pipeline) else []
        noise = [step for _, step in steps if isinstance(step, NoiseMechanism)]
        kept = [pair for pair in steps if not isinstance(pair[1], NoiseMechanism)]
        if not kept or steps[-1] is not kept[-1]:
            raise ValueError(
                "The scorer of make_clean_scorer takes a pipeline that ends with a "
                "model, and that may have noise mechanisms as steps before it."
            )
        if any(_adds_noise(part) for _, step in kept for part in contents(step)):
            raise ValueError(
                "A mechanism or an encoder adds noise inside of a step, or changes the "
                "shape of the samples, so that it cannot be left out. Put the "
                "mechanism into the pipeline as a step of its own."
            )
        model = kept[-1][1] if len(kept) == 1 else Pipeline(kept)
        if noise and hasattr(X, "columns") and not any(map(wants_frame, noise)):
            # The model has learned from arrays, which have no names.
            X = as_numpy(X, "X")
        return check_scoring(model, self.scoring)(model, X, y, **params)


def _adds_noise(obj: Any) -> bool:
    """Whether a call of an object, other than a fit, is a release."""
    return states_guarantee(obj) and privacy_tags(obj).released_by not in (None, "fit")
