"""Scores on samples without noise release nothing, and reports know that."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import get_scorer
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from sktensordp.encoding import TaskAwareEncoder
from sktensordp.mechanisms import LaplaceMechanism, PrivUnit
from sktensordp.model_selection import PrivateSearchCV, make_clean_scorer
from sktensordp.moments import MultilinearPCA
from sktensordp.privacy import PrivacyBudget, planned_guarantee, privacy_of

X, Y = load_digits(return_X_y=True)
X, Y = X[:600], Y[:600]
CLASSIFIER = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.5)
NOISE = PrivUnit(8.0, bounds=(0, 16), random_state=0)
MODEL = make_pipeline(NOISE, CLASSIFIER)
GRID = {"lineardiscriminantanalysis__shrinkage": [0.1, 0.5]}


def test_it_is_the_score_of_the_model_on_clean_samples():
    model = clone(MODEL).fit(X, Y)
    clean = model[-1].score(X, Y)
    assert make_clean_scorer()(model, X, Y) == clean
    assert make_clean_scorer("accuracy")(model, X, Y) == clean
    scorer = pickle.loads(pickle.dumps(make_clean_scorer(get_scorer("accuracy"))))
    assert scorer(model, X, Y, sample_weight=np.ones(len(Y))) == clean
    assert clean > model.score(X, Y) + 0.3
    loss = make_clean_scorer("neg_log_loss")(model, X, Y)
    assert loss == get_scorer("neg_log_loss")(model[-1], X, Y)


def test_other_steps_stay():
    model = make_pipeline(
        FunctionTransformer(np.sqrt), NOISE, StandardScaler(), CLASSIFIER
    )
    model.set_params(privunit__bounds=(0, 4)).fit(X, Y)
    through = model[2].transform(np.sqrt(X))
    assert make_clean_scorer()(model, X, Y) == model[-1].score(through, Y)


def test_frames_are_samples_without_names():
    frame = pd.DataFrame(X, columns=[f"pixel {k}" for k in range(64)])
    model = clone(MODEL).fit(frame, Y)
    assert make_clean_scorer()(model, frame, Y) == model[-1].score(X, Y)
    named = clone(MODEL)
    named[0].set_output(transform="pandas")
    named.fit(frame, Y)
    assert make_clean_scorer()(named, frame, Y) == named[-1].score(frame, Y)


@pytest.mark.parametrize("scored_in_training", [False, True])
def test_reports_count_the_fits_of_a_search_alone(scored_in_training):
    search = GridSearchCV(
        clone(MODEL), GRID, cv=3, scoring=make_clean_scorer(),
        return_train_score=scored_in_training,
    )  # fmt: skip
    search.estimator[0].set_params(tensor_shape=(64,))
    planned = planned_guarantee(search).epsilon
    with PrivacyBudget(1e3) as budget:
        search.fit(X, Y)
        fits = budget.spent.epsilon
    # Three fits of each candidate and the refit; one image is in two of three fits.
    assert fits == pytest.approx(8 * (2 * 3 + 1))
    report = privacy_of(search)
    assert report.guarantee.epsilon == pytest.approx(8 * (2 * 2 + 1))
    assert planned == pytest.approx(8 * (2 * 2 + 1))
    assert any("computed from the raw values" in said for said in report.unprotected)
    assert search.best_score_ > 0.5  # about .2 on noisy images
    # Beside another scorer, whose scores are releases.
    both = GridSearchCV(
        clone(MODEL), GRID, cv=3, refit="clean",
        scoring={"clean": make_clean_scorer(), "noisy": "accuracy"},
    )  # fmt: skip
    report = privacy_of(both.fit(X, Y))
    assert report.guarantee.epsilon == pytest.approx(8 * (2 * 3 + 1))


class CleanScorer(type(make_clean_scorer())):
    """Another class of the same name may do anything."""


def test_other_scorers_are_not_known():
    search = GridSearchCV(clone(MODEL), GRID, cv=3, scoring=CleanScorer(None))
    assert not privacy_of(search.fit(X, Y)).guarantee.protects


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (CLASSIFIER, "takes a pipeline that ends with a model"),
        (make_pipeline(StandardScaler(), NOISE), "takes a pipeline that ends with"),
        (
            make_pipeline(make_column_transformer((NOISE, [0, 1, 2])), CLASSIFIER),
            "adds noise inside of a step",
        ),
        (
            make_pipeline(FrozenEstimator(clone(NOISE).fit(X)), CLASSIFIER),
            "adds noise inside of a step",
        ),
        (
            make_pipeline(TaskAwareEncoder(4.0, output="code"), CLASSIFIER),
            "changes the shape of the samples",
        ),
        (
            make_pipeline(make_pipeline(NOISE, CLASSIFIER)),
            "adds noise inside of a step",
        ),
    ],
)
def test_noise_in_another_place_is_refused(model, said):
    model = clone(model).fit(X, Y)
    with PrivacyBudget(1e3, delta=0.1) as budget:
        with pytest.raises(ValueError, match=said):
            make_clean_scorer()(model, X, Y)
        assert budget.spent is None


def test_what_releases_in_its_fit_alone_is_no_noise():
    pca = MultilinearPCA(4, epsilon=40.0, norm_bound=80.0, random_state=0)
    model = make_pipeline(pca, CLASSIFIER).fit(X, Y)
    assert make_clean_scorer()(model, X, Y) == model.score(X, Y)


def test_what_is_no_scorer_is_refused():
    with pytest.raises(ValueError, match="acuracy"):
        make_clean_scorer("acuracy")
    with pytest.raises(TypeError, match="scoring must be the name of a scorer"):
        make_clean_scorer(3)
    search = PrivateSearchCV(
        make_pipeline(LaplaceMechanism(bounds=(0, 16)), CLASSIFIER), GRID,
        scoring=make_clean_scorer(), score_bounds=(0, 1), cv=KFold(3),
    )  # fmt: skip
    with pytest.raises(ValueError, match="scoring must be one of"):
        search.fit(X, Y)
