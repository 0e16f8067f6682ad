"""A first hour: whatever is refused is refused by its name, at every door."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder
from sklearn.utils import get_tags

from sktensordp.completion import (
    CoordinateEncoder,
    CPCompletion,
    ImplicitCompletion,
    Recommender,
    check_table,
)
from sktensordp.mechanisms import LaplaceMechanism
from sktensordp.model_selection import PrivateSearchCV, epsilon_needed, expected_error
from sktensordp.moments import MultilinearPCA
from sktensordp.privacy import privacy_of
from tests.support.every_estimator import EVERY, slow_repeats


def message_of(call, error):
    with pytest.raises(error) as raised:
        call()
    return str(raised.value)


# --- tags and displays do not compute with unchecked parameters -----------------------

UNCHECKED = [None, "1", [1], object(), -1, np.nan, np.ones((2, 2)), int, True]


def with_unchecked(case):
    for name in case.estimator.get_params(deep=False):
        for value in UNCHECKED:
            yield case.fresh().set_params(**{name: value})


@pytest.mark.parametrize("case", slow_repeats(EVERY))
def test_tags_are_known_whatever_a_parameter_is(case):
    for estimator in with_unchecked(case):
        get_tags(estimator)


@pytest.mark.thorough
@pytest.mark.parametrize("case", slow_repeats(EVERY))
def test_an_estimator_is_shown_whatever_a_parameter_is(case):
    for estimator in with_unchecked(case):
        assert estimator._repr_html_()


@pytest.mark.parametrize("epsilon", [None, "1", -1])
def test_a_search_names_the_parameter(epsilon):
    search = GridSearchCV(
        MultilinearPCA(epsilon=epsilon), {"n_components": [1]}, error_score="raise"
    )
    with pytest.raises(ValueError, match="'epsilon' parameter of MultilinearPCA"):
        search.fit(np.ones((9, 3, 4)))


@pytest.mark.parametrize("made_of", [Recommender, lambda m: PrivateSearchCV(m, {})])
def test_what_is_no_estimator_is_shown_all_the_same(made_of):
    assert made_of(True)._repr_html_()


@pytest.mark.thorough
@pytest.mark.parametrize("case", slow_repeats(EVERY))
def test_a_fit_to_columns_with_numbers_as_labels_is_shown(case):
    X = case.data[0]
    if np.ndim(X) == 2:
        frame = pd.DataFrame(X, columns=range(X.shape[1]))
        with warnings.catch_warnings(action="ignore"):
            assert case.fresh().fit(frame, *case.data[1:])._repr_html_()


# --- choices have no values -----------------------------------------------------------

CHOICES = np.array([[0, 1, 3], [1, 2, 9], [2, 0, 4]])
FILMS = CoordinateEncoder(categories=[None, range(3)])
NAMED = pd.DataFrame(CHOICES, columns=["user", "film", "count"])
THREE = CoordinateEncoder(categories=[None, range(3), range(10)])
OF_CHOICES = {
    "fit": lambda: ImplicitCompletion(shape=(3, 3)).fit(CHOICES),
    "batches": lambda: ImplicitCompletion(shape=(3, 3)).fit_batches([CHOICES]),
    "recommender": lambda: Recommender(ImplicitCompletion(), FILMS).fit(NAMED),
    "declared": lambda: Recommender(ImplicitCompletion(), THREE).fit(NAMED),
    "table": lambda: check_table(ImplicitCompletion(shape=(3, 3)), CHOICES),
    "ids": lambda: check_table(Recommender(ImplicitCompletion(), FILMS), NAMED),
}  # fmt: skip


@pytest.mark.parametrize("call", OF_CHOICES.values(), ids=OF_CHOICES)
@pytest.mark.filterwarnings("ignore:check_table is not private")
def test_choices_with_a_third_column(call):
    said = message_of(call, ValueError)
    assert "Choices have no values: leave out columns of counts" in said


# --- expected errors ------------------------------------------------------------------

WHERE = np.argwhere(np.ones((5, 4)))
STARS = np.arange(20) % 5 + 1.0
ASKED = {
    "completion": CPCompletion(0, levels=[1, 2, 3, 4, 5], shape=(5, 4)),
    "users": CPCompletion(0, levels=[1, 2, 3, 4, 5], shape=(5, 4), unit=0),
    "mechanism": LaplaceMechanism(bounds=(0, 1)),
    "moments": MultilinearPCA(2, norm_bound=1.0),
    "recommender": Recommender(
        CPCompletion(0, levels=[1, 2, 3, 4, 5], unit=0),
        CoordinateEncoder(categories=[None, range(4)]),
    ),
}
QUESTIONS = {
    "expected_error": lambda *a, **k: expected_error(*a, epsilons=[1.0], **k),
    "epsilon_needed": lambda *a, **k: epsilon_needed(*a, error=0.9, **k),
}


@pytest.mark.parametrize("ask", QUESTIONS.values(), ids=QUESTIONS)
@pytest.mark.parametrize("model", ASKED.values(), ids=ASKED)
@pytest.mark.parametrize("X", [STARS, None, 3], ids=["y", "None", "a number"])
def test_expected_errors_name_X(ask, model, X):
    assert "Pass X before y" in message_of(lambda: ask(model, X), ValueError)


@pytest.mark.parametrize("error", ["5%", "0.1", None, [0.1], True, 0, np.nan, np.inf])
def test_an_error_is_a_number(error):
    call = lambda: epsilon_needed(ASKED["completion"], WHERE, error=error)  # noqa: E731
    assert message_of(call, ValueError).startswith("error must be a positive number")


@pytest.mark.parametrize("epsilons", [1, "1", "auto", None, ["a"], [None], {1}, [0],
                                      [], [True], [[1.0]]])  # fmt: skip
def test_epsilons_are_a_list_of_numbers(epsilons):
    call = lambda: expected_error(ASKED["completion"], WHERE, epsilons=epsilons)  # noqa: E731
    assert message_of(call, ValueError).startswith("epsilons must be a list of")


# --- check_table refuses what a fit refuses -------------------------------------------

TABLE = pd.DataFrame({"user": ["ann", "bob"] * 3, "film": list("abcabc")})
MALFORMED = {
    "one column": TABLE[["user"]], "no columns": pd.DataFrame(index=range(6)),
    "None": None, "a path": "ratings.csv", "a list": list("abcabc"),
    "a series": TABLE["user"], "three axes": np.ones((6, 2, 2)),
    "ragged": [["u", "a"], ["u"]], "records": TABLE.to_dict("records"),
    "an empty row": [[]], "masked": np.ma.masked_array(np.ones((6, 2), int), True),
    "complex": np.ones((6, 2)) * 1j, "sparse": sparse.coo_array(np.eye(6)),
    "a set": {("u", "a")}, "equal names": pd.concat([TABLE, TABLE], axis=1),
}  # fmt: skip
OF_FILMS = CoordinateEncoder(categories=[None, list("abc")])
READERS = {
    "ids": Recommender(CPCompletion(0, levels=[1, 2]), OF_FILMS),
    "ids of users": Recommender(CPCompletion(0, unit=0, levels=[1, 2]), OF_FILMS),
    "ids, choices": Recommender(ImplicitCompletion(), OF_FILMS),
    "entries": CPCompletion(0, levels=[1, 2]),
    "choices": ImplicitCompletion(shape=(3, 3)),
}


@pytest.mark.parametrize("model", READERS.values(), ids=READERS)
@pytest.mark.parametrize("table", MALFORMED.values(), ids=MALFORMED)
@pytest.mark.filterwarnings("ignore:check_table is not private")
def test_check_table_is_as_careful_as_a_fit(model, table):
    if model is READERS["choices"] and sparse.issparse(table):
        return  # A fit takes choices in this form.
    has_values = "choices" not in next(n for n, m in READERS.items() if m is model)
    y = [np.ones(6)] if has_values else []
    for call in (model.fit, lambda *data: check_table(model, *data)):
        said = message_of(lambda call=call: call(table, *y), (TypeError, ValueError))
        assert "ufunc" not in said
        assert "out of" not in said


@pytest.mark.parametrize("empty", [TABLE[:0], np.zeros((0, 2), object),
                                   pd.DataFrame({"user": [], "film": []})])  # fmt: skip
@pytest.mark.filterwarnings("ignore:check_table is not private")
def test_check_table_counts_no_rows(empty):
    for name in ("ids", "ids of users", "ids, choices"):
        assert check_table(READERS[name], empty)["rows"] == 0


@pytest.mark.filterwarnings("ignore:check_table is not private")
def test_check_table_counts_ids_by_their_spelling(capsys):
    users = ["u1", " u1", "u2", "", "nan", "None", " n/a"]
    found = check_table(READERS["ids"], [[user, "a"] for user in users], np.ones(7))
    assert found["ids of column 0 that differ by spaces"] == 2
    assert found["ids of column 0 that spell a missing id"] == 4
    assert "column 0 that spell" in capsys.readouterr().out
    # Nothing is said where nothing is odd, of text or of numbers.
    for table in (TABLE, np.ones((6, 2), int)):
        said = check_table(CPCompletion(0) if table is not TABLE else READERS["ids"],
                           table, np.ones(6))  # fmt: skip
        assert not [name for name in said if "spell" in name or "spaces" in name]


# --- why no guarantee holds -----------------------------------------------------------

DECLARED = [[0, 1, 2]] * 2
REFUSING = {
    "OneHotEncoder": (
        OneHotEncoder(categories=DECLARED, sparse_output=False),
        {"handle_unknown": "ignore"}, 'handle_unknown="ignore"',
    ),
    "OrdinalEncoder": (
        OrdinalEncoder(categories=DECLARED),
        {"handle_unknown": "use_encoded_value", "unknown_value": -1},
        'handle_unknown="use_encoded_value", unknown_value=-1',
    ),
}  # fmt: skip


@pytest.mark.parametrize(("encoder", "cure", "named"), REFUSING.values(), ids=REFUSING)
def test_a_refusal_of_categories_is_named_with_its_cure(encoder, cure, named):
    X = np.array([[0, 1], [1, 2]] * 300)
    model = make_pipeline(encoder, MultilinearPCA(1, norm_bound=2.0))
    with warnings.catch_warnings(action="ignore"):
        report = privacy_of(model.fit(X))
    assert np.isinf(report.guarantee.epsilon)
    assert "refuses categories that are not declared" in report.guarantee.statement
    assert f"Set {named}." in report.guarantee.statement
    assert "learned from data" not in report.guarantee.statement
    # A private search refuses the step as before.
    search = PrivateSearchCV(
        model, {"multilinearpca__n_components": [1]}, score_bounds=(0, 1)
    )
    with pytest.raises(ValueError, match="learns from raw X"):
        search.fit(X, X[:, 0])
    model[0].set_params(**cure)
    with warnings.catch_warnings(action="ignore"):
        assert np.isfinite(privacy_of(model.fit(X)).guarantee.epsilon)
