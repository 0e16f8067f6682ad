"""Forms of data that were once read as other numbers, or met with an obscure error."""

import math
import traceback

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.metrics import r2_score

from sktensordp.completion import CoordinateEncoder, CPCompletion
from sktensordp.encoding import TaskAwareEncoder
from sktensordp.mechanisms import (
    GaussianMechanism,
    LaplaceMechanism,
    MatrixMechanism,
    TensorRandomizedResponse,
    TensorVariateGaussian,
    estimate_mean,
)
from sktensordp.model_selection import PrivateSearchCV
from sktensordp.papers import BiScaler
from sktensordp.privacy import PrivacyBudget
from tests.support.every_estimator import EVERY, ROWS, VALUES, WHERE

pytestmark = pytest.mark.thorough
MECHANISM = LaplaceMechanism(math.inf, bounds=(-1e18, 1e18)).fit(ROWS)
MODEL = CPCompletion(0, value_bounds=(0, 1), max_iter=1).fit(WHERE, VALUES)
SCALER = BiScaler(1.0, value_bounds=(0, 1)).fit(WHERE, VALUES)
ENCODER = TaskAwareEncoder(math.inf).fit(ROWS)
MASKED_ROWS = np.ma.array(ROWS, mask=ROWS > 0.9)
MASKED_VALUES = np.ma.array(VALUES, mask=VALUES > 0.9)
MASKED_WHERE = np.ma.array(WHERE, mask=WHERE == 2)


@pytest.mark.parametrize(
    "call",
    [
        lambda: MECHANISM.transform(MASKED_ROWS),
        lambda: MECHANISM.transform(list(MASKED_ROWS)),
        lambda: LaplaceMechanism(bounds=(0, 1)).fit([list(MASKED_ROWS)] * 2),
        lambda: LaplaceMechanism(bounds=(0, 1)).fit(MASKED_ROWS),
        lambda: ENCODER.privatize(MASKED_ROWS),
        lambda: ENCODER.decode(MASKED_ROWS),
        lambda: estimate_mean(MASKED_ROWS),
        lambda: MODEL.fit(MASKED_WHERE, VALUES),
        lambda: MODEL.fit(WHERE, MASKED_VALUES),
        lambda: MODEL.fit(MASKED_ROWS),
        lambda: MODEL.predict(MASKED_WHERE),
        lambda: MODEL.score(WHERE, MASKED_VALUES),
        lambda: MODEL.recommend(MASKED_WHERE[:, 1]),
        lambda: SCALER.scale_values(WHERE, MASKED_VALUES),
        lambda: CoordinateEncoder().fit(MASKED_WHERE),
        lambda: CoordinateEncoder(categories=[MASKED_ROWS[-1], None]).fit(WHERE),
        lambda: LaplaceMechanism(bounds=(MASKED_ROWS[-1], 2)).fit(ROWS),
        lambda: MatrixMechanism(workload=MASKED_ROWS).fit(ROWS),
        lambda: TensorVariateGaussian(utility=[MASKED_ROWS[-1]]).fit(ROWS),
        lambda: PrivateSearchCV(MODEL, {"rank": [0]}).fit(WHERE, MASKED_VALUES),
    ],
)
def test_what_is_masked_is_never_read(call):
    with pytest.raises(ValueError, match="is masked"):
        call()


@pytest.mark.parametrize("case", EVERY)
def test_no_message_shows_an_array_that_was_passed_as_a_parameter(case):
    shown = []
    for name in case.estimator.get_params(deep=False):
        for data in (np.full((3, 2), 7310585.25), [7310585.25] * 3):
            try:
                case.fresh(**{name: data}).fit(*case.data)
            except Exception as error:
                shown += traceback.format_exception(error)
    assert len(shown) > 3
    assert "7310585" not in "".join(shown)


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        (np.full((2, 3), "NaT", "M8[s]"), ValueError, "must hold numbers"),
        (np.full((2, 3), 5, "m8[s]"), ValueError, "must hold numbers"),
        ([[np.datetime64("2020"), 0, 0]] * 2, ValueError, "must hold numbers"),
        (np.zeros((2, 3), [("a", float)]), ValueError, "must hold numbers"),
        ([[10**400, 0, 0]] * 2, ValueError, "must hold numbers"),
        ([[np.complex64(1j), "a", None]] * 2, ValueError, "Complex data"),
        ([[{}, 0, 0]] * 2, TypeError, "number, or a string of a number"),
        (csr_array(np.eye(3)), TypeError, "Sparse data"),
        (np.full((2, 3), "1e4000", np.longdouble), ValueError, "infinity"),
        (np.zeros((2, 3, 0)), ValueError, "no entries"),
    ],
)
def test_what_is_no_array_of_numbers_is_refused(X, error, message):
    if message == "Complex data":
        X = np.array(X, dtype=object)
    for call in (MECHANISM.transform, LaplaceMechanism(math.inf).fit):
        with pytest.raises(error, match=message):
            call(X)


def test_half_precision_holds_coordinates():
    np.testing.assert_array_equal(
        MODEL.predict(WHERE.astype(np.float16)), MODEL.predict(WHERE)
    )


def test_a_fraction_of_a_long_double_is_seen():
    fraction = np.longdouble(1) + np.finfo(np.longdouble).eps
    with pytest.raises(ValueError, match="fractional"):
        MODEL.recommend([fraction])


@pytest.mark.parametrize(
    "values", [1e300 * VALUES, 1e-300 * VALUES, np.tile([1.7e308, -1.7e308], 6)]
)
@pytest.mark.parametrize(
    "estimator", [CPCompletion(1, epsilon=math.inf), BiScaler(math.inf)], ids=str
)
def test_values_without_powers_are_refused(estimator, values):
    with pytest.raises(ValueError, match=r"must be at most 1e\+50"):
        estimator.fit(WHERE, values)


def test_large_equal_values_have_a_range():
    model = CPCompletion(1, epsilon=math.inf, max_iter=1)
    predicted = model.fit(WHERE, np.full(len(WHERE), 1e17)).predict(WHERE)
    np.testing.assert_allclose(predicted, 1e17, rtol=1e-6)


def test_scaled_values_end_at_the_bounds():
    largest = np.full(len(WHERE), np.finfo(float).max)
    np.testing.assert_array_equal(SCALER.scale_values(WHERE, largest), 3.0)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_ids_that_floats_do_not_tell_apart_are_refused(dtype):
    large = 2 ** (np.finfo(dtype).nmant + 1)
    encoder = CoordinateEncoder().fit([[large + 1, 1]])
    with pytest.raises(ValueError, match="told apart as floats"):
        encoder.transform(np.array([[large, 1]], dtype=dtype))


@pytest.mark.parametrize("time", [1e300, 1.6e12, -1e17, 10**400, np.complex128(1j)])
def test_times_that_are_no_seconds_are_refused(time):
    with pytest.raises(ValueError, match=r"year 9999|must hold times"):
        CoordinateEncoder(freq="D").fit(
            pd.DataFrame({"a": ["ann"], "t": [time]}, dtype=object)
        )


@pytest.mark.parametrize("n_rows", [0, 1])
@pytest.mark.parametrize("cv", [None, 3])
def test_a_search_refuses_before_it_counts(n_rows, cv):
    search = PrivateSearchCV(MODEL, {"rank": [0]}, n_iter=2, cv=cv)
    with PrivacyBudget(math.inf, 0.5) as budget:
        with pytest.raises(ValueError, match="minimum of"):
            search.fit(WHERE[:n_rows], VALUES[:n_rows])
        with pytest.raises(ValueError, match="NaN"):
            search.fit(WHERE, np.where(VALUES > 0.9, np.nan, VALUES))
        assert budget.spent is None


def test_parameters_of_other_types_are_the_same_numbers():
    for rank in (np.int64(1), np.uint8(1)):
        model = CPCompletion(
            rank, perturbation="sums", unit=0, shape=(4, 3), delta=1e-3
        )
        model.set_params(value_bounds=(0, 1)).fit(WHERE, VALUES)
        model = CPCompletion(rank, perturbation="gradient", value_bounds=(0, 1))
        model.set_params(max_iter=1).fit(WHERE, VALUES)
        assert model.decomposition_.rank == 1 + 2
    scaled = TensorRandomizedResponse(20.0, bounds=(0, 1), scale=np.float32(2.0))
    assert scaled.fit(ROWS).privacy_guarantee_.epsilon <= 20


@pytest.mark.parametrize(
    "values", [[1.2345e308, -1.2345e308], [1.2345e300, 1.2345e300]]
)
@pytest.mark.filterwarnings("ignore::sktensordp.exceptions.PrivacyLeakWarning")
def test_a_range_that_is_read_off_the_samples_is_not_shown(values):
    with pytest.raises(ValueError, match="bounds must be finite") as error:
        LaplaceMechanism().fit(np.array(values)[:, np.newaxis])
    assert "234" not in str(error.value)


@pytest.mark.parametrize("missing", [None, [7]])
def test_ids_that_are_none_say_so(missing):
    X = np.array([[1, 2], [1, 2]], dtype=object)
    encoder = CoordinateEncoder().fit(X)
    X[0, 0] = missing
    with pytest.raises(ValueError, match=r"Some ids|are other objects"):
        encoder.transform(X)


def test_values_that_are_none_say_so():
    with pytest.raises(ValueError, match="requires y to be passed"):
        SCALER.scale_values(WHERE, None)
    with pytest.raises(ValueError, match="is masked"):
        MODEL.fit_batches([(WHERE[:1], [np.ma.masked])])


@pytest.mark.filterwarnings("ignore:.* of the values are:UserWarning")
@pytest.mark.parametrize("scale", [1e-200, 1e-160, 1.0, 1e200])
def test_scores_do_not_depend_on_the_unit(scale, monkeypatch):
    """Squares of such values are no numbers."""
    predicted = np.linspace(0, 1, len(VALUES))
    expected = r2_score(VALUES, predicted)
    monkeypatch.setattr(MODEL, "predict", lambda X: predicted * scale, raising=False)
    score = MODEL.score(WHERE, VALUES * scale)
    assert score == pytest.approx(expected, rel=1e-12)


def test_classic_noise_claims_no_less_than_its_sampler_keeps():
    model = GaussianMechanism(1e-8, bounds=(0, 1), calibration="classic")
    with pytest.raises(ValueError, match="too small for the sampler"):
        model.fit(ROWS)


def test_of_a_table_whose_columns_are_data_no_name_is_kept_or_shown():
    """In tables of pyarrow, `columns` are the data."""
    arrow = pytest.importorskip("pyarrow")
    tensor = arrow.table({"a": [7310585.25, math.nan], "b": [2.0, 7310585.25]})
    model = CPCompletion(0, value_bounds=(0, 1e7), random_state=0).fit(tensor)
    assert model.get_feature_names_out().tolist() == ["x0", "x1"]
    out = model.set_output(transform="pandas").transform(tensor)
    assert list(out.columns) == ["x0", "x1"]
    ids = arrow.table({"a": [1, 2, 1], "b": [3, 3, None]})
    with pytest.raises(ValueError, match="missing") as caught:
        CoordinateEncoder().fit(ids)
    assert "3" not in str(caught.value)
    assert CoordinateEncoder().fit(ids.slice(0, 2)).shape_ == (2, 1)
