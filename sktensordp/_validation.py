"""Checks of input and parameters. No message shows a value of the data."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import math
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, MappingView, Set
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.utils import check_consistent_length

LARGEST_INDEX = 2**31 - 1
# Reasons for which malformed input is refused, whatever the unit. Anyone who may choose
# the data of others learns one bit from each such refusal, and ``doc/threat_model.md``
# lists the reasons word for word. Refused parameters need no reason here.
MALFORMED = {
    "numbers": "values and coordinates that are missing, infinite or not numbers",
    "choices": "stored values of choices that are negative, missing or infinite",
    "coordinates": (
        "coordinates that are fractional, negative or outside of the declared shape"
    ),
    "ids": (
        "ids that are missing or cannot be compared, such as lists, and ids of "
        "synthetic users in `fold_in`"
    ),
    "categories": (
        "ids that are not among the declared `categories` of a `CoordinateEncoder` "
        "outside of a recommender"
    ),
    "types": (
        "columns of ids or labels whose type is of another kind than the known ids or "
        "the declared `classes`, or than in the first batch (the kinds are numbers, "
        "booleans, text, bytes and times), or too small to hold any of these, such as "
        "8 bits for a class of 1000"
    ),
    "labels": "NaN and infinity among labels in an array of numbers",
    "arrays": "arrays of the wrong shape, and `X` and `y` of different lengths",
    "batches": "batches of which there are none, not even one without rows",
    "masked": "values that are masked",
    "order": (
        "columns whose labels in pandas are those of other rows than the labels of "
        "`X`, or in another order"
    ),
}
_COMPLEX = complex, np.complexfloating
_PLAIN = {bool, float, int, str}
_TIMES = np.datetime64, np.timedelta64
# Queries by the name of their type or of their library, and the method that runs them.
_LOADED_BY = {"LazyFrame": "collect", "DuckDBPyRelation": "df"}
_LOADED_BY |= {"pyspark": "toPandas", "ibis": "execute"}
_LOADED_BY |= {"RecordBatchReader": "read_all", "Scanner": "to_table"}
_LOADED_BY |= dict.fromkeys(
    ("Dataset", "FileSystemDataset", "InMemoryDataset", "UnionDataset"), "to_table"
)
_INSIDE = __name__.split(".")[0], "contextlib", "joblib", "sklearn"
# Largest magnitude of a value: fourth powers of the range stay finite.
_LARGEST_VALUE = 1e50
# Messages of scikit-learn that state numbers of rows, and their replacements.
_WITHOUT_SIZES = {
    r"^Found input variables with inconsistent numbers of samples.*": (
        "X and y must have the same length."
    ),
    r"got an array of shape \(.*\) instead": "got an array of more dimensions",
}


def malformed(
    reason: str, message: str, error: type[Exception] = ValueError
) -> Exception:
    """The exception that refuses malformed input for one of the reasons."""
    assert reason in MALFORMED
    return error(message)


def described(value: object) -> str:
    """A parameter in a message; only its type if it may hold data by mistake."""
    if isinstance(value, tuple) and all(isinstance(item, Real) for item in value):
        return repr(value)
    may_hold_data = hasattr(value, "__len__") and not isinstance(value, str)
    return type(value).__name__ if may_hold_data else repr(value)


def words_of(name: str) -> set[str]:
    """The words of a name such as "my_score" or "movieId", in lower case."""
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    return set(re.findall(r"[^\W\d_]+", apart.lower()))


def with_names(X: Any) -> Any:
    """A table of pyarrow as a data frame, whose columns have names and types."""
    is_arrow = type(X).__module__.split(".")[0] == "pyarrow"
    if is_arrow and hasattr(X, "num_columns") and hasattr(X, "to_pandas"):
        with contextlib.suppress(ImportError):  # without pandas, it stays as it is
            return X.to_pandas()
    return X


def names_of(X: object) -> Any:
    """Names of the columns of a data frame; None for anything else.

    The `columns` of a pyarrow table are the data, so it counts as having no names.
    """
    return X.columns if hasattr(X, "columns") and hasattr(X, "to_numpy") else None


def check_loaded(values: object, name: str) -> None:
    """Refuse queries that have no values yet, and name the call that loads them."""
    kind = type(values)
    library = kind.__module__.split(".")[0]
    call = _LOADED_BY.get(kind.__name__) or _LOADED_BY.get(library)
    if call:
        raise TypeError(
            f"{name} is a {kind.__name__}, which holds no values yet. Load it first: "
            f"{name}.{call}()."
        )


def check_container(values: object, name: str) -> None:
    """Refuse containers of data that are neither arrays nor data frames."""
    kind = type(values)
    check_loaded(values, name)
    if isinstance(values, dict) and not issparse(values):
        raise TypeError(
            f"{name} is a dict. Pass an array, or a data frame, such as "
            f"pandas.DataFrame({name})."
        )
    if isinstance(values, Set | Iterator):
        raise TypeError(f"{name} is a {kind.__name__}. Pass an array, list or frame.")


def check_coordinates(
    X: NDArray[Any],
    *,
    shape: tuple[int, ...] | None = None,
    allow_unknown: bool = False,
    name: str = "estimator",
) -> NDArray[np.int32]:
    """Coordinates of tensor entries as 32-bit integers in Fortran order.

    Parameters
    ----------
    X : ndarray of shape (n_entries, n_modes)
        Integers, or floats with integral values.
    shape : tuple of int, default=None
        Shape of the tensor. Coordinates outside it are refused.
    allow_unknown : bool, default=False
        Whether -1 may stand for an index that was never observed.
    name : str, default="estimator"
        Name of the estimator in messages.

    Returns
    -------
    coordinates : ndarray of shape (n_entries, n_modes), int32, in Fortran order

    Raises
    ------
    ValueError
        If a coordinate is fractional, negative or outside the tensor.
    """
    if X.dtype.kind not in "iub":
        if X.dtype.kind != "f":
            raise malformed(
                "numbers",
                f"Coordinates passed to {name} must be integers, got {X.dtype}.",
            )
        if not all(np.array_equal(column, np.trunc(column)) for column in X.T):
            raise malformed(
                "coordinates",
                f"Coordinates passed to {name} must be integers; some are fractional.",
            )
    lowest = -1 if allow_unknown else 0
    if X.size and X.min() < lowest:
        hint = (
            "; only -1 stands for an unknown index"
            if allow_unknown
            else ". -1 marks an id that a CoordinateEncoder does not know: leave these "
            "rows out, or declare the id in its categories"
        )
        raise malformed(
            "coordinates",
            f"Negative values in data passed to {name}: coordinates start at 0{hint}.",
        )
    # Compared as a float: float16 cannot represent the limit.
    if X.size and float(X.max()) >= LARGEST_INDEX:
        raise malformed(
            "coordinates", f"Coordinates passed to {name} must be below 2**31 - 1."
        )
    coordinates = X.astype(np.int32, order="F")
    if shape is not None:
        if len(shape) != coordinates.shape[1]:
            raise malformed(
                "arrays",
                f"X has {coordinates.shape[1]} columns, but shape has {len(shape)} "
                f"modes. Every mode needs one column of coordinates.",
            )
        for mode, size in enumerate(shape):
            if np.any(coordinates[:, mode] >= size):
                raise malformed(
                    "coordinates",
                    f"Some coordinates of mode {mode} are outside the tensor: "
                    f"they must be below {size}. Leave these rows out, or declare a "
                    f"larger shape.",
                )
    return coordinates


def check_numeric(values: object, name: str) -> Any:
    """Refuse data that are not numbers, without quoting them as NumPy's errors do.

    Returns
    -------
    values : array-like
        Result of `filled`. Read on from it, so that no list is converted twice.
    """
    if type(values) is np.ndarray and values.dtype.kind in "biuf":
        return values
    if issparse(values):
        raise TypeError(f"Sparse data was passed as {name}; dense data is required.")
    check_container(values, name)
    check_unmasked(values, name)
    values = filled(values)
    array = as_numpy(values, name)
    numeric, reason = array.dtype.kind in "biuf", None
    complex_ = is_complex(array)
    may_convert = not complex_ and not _has_any(array, _TIMES)
    if array.dtype.kind in "OSU" and may_convert:
        try:
            array.astype(float)
            numeric = True
        except TypeError:
            kinds = {type(item) for item in array.flat}
            reason = " and ".join(sorted(kind.__name__ for kind in kinds - _PLAIN))
        except (OverflowError, ValueError):
            pass
    # Raised outside the handlers, so that NumPy's error does not become the context.
    if complex_:
        raise malformed(
            "numbers", f"Complex data not supported: {name} must hold real numbers."
        )
    if reason:
        raise malformed(
            "numbers",
            f"{name} must hold numbers, but it holds {reason}. An argument must be a "
            f"number, or a string of a number.",
            TypeError,
        )
    if not numeric:
        raise malformed("numbers", f"{name} must hold numbers.")
    return values


def filled(values: object) -> Any:
    """Data with NaN in place of pandas.NA, which does not convert to a number.

    A list becomes an array of doubles or, if some elements are not numbers, of objects,
    which are converted to doubles one by one. If NumPy chose one type for all of them,
    one element would decide how the others are rounded. Anything else is returned
    unchanged.
    """
    if isinstance(values, list | tuple):
        array = as_numpy(values, "X")
        if array.dtype.kind in "biuf":
            return array.astype(np.float64)
        values = np.array(values, dtype=object)
    if isinstance(values, np.ndarray) and values.dtype != object:
        return values
    array = as_numpy(values, "X")
    if array.dtype != object:
        return values
    is_missing = [type(item).__name__ == "NAType" for item in array.flat]
    if not any(is_missing):
        return values
    mask = np.reshape(is_missing, array.shape)
    if hasattr(values, "mask") and hasattr(values, "astype"):  # a frame keeps its names
        return values.astype(object).mask(mask, np.nan)
    return np.where(mask, np.nan, array)


def as_numpy(values: object, name: str) -> NDArray[Any]:
    """Convert to a NumPy array; refuse arrays of other libraries that it cannot read.

    One example is an array in the memory of a GPU.
    """
    if isinstance(values, np.ndarray) or not hasattr(values, "__array_namespace__"):
        try:
            return np.asarray(values)
        except UnicodeDecodeError:  # bytes beside text
            return np.array(values, dtype=object)
        except ValueError as error:
            ragged = "inhomogeneous" in str(error)
            if not ragged:
                raise
        raise malformed(
            "arrays", f"{name} must be an array: its rows have different lengths."
        )
    try:
        array = np.asarray(values)
        readable = array.dtype != object
    except Exception:
        readable = False
    if not readable:
        library = type(values).__module__.split(".")[0]
        raise TypeError(
            f"{name} is an array of {library}, which NumPy cannot read. Convert it to "
            f"a NumPy array first."
        )
    return array


def shape_of(values: object, name: str) -> tuple[int, ...]:
    """Shape of an array, or of what can be converted to one."""
    if hasattr(values, "shape"):
        return tuple(values.shape)
    return as_numpy(values, name).shape


def is_complex(values: NDArray[Any]) -> bool:
    """Whether an array holds complex numbers, including those stored as objects."""
    return values.dtype.kind == "c" or _has_any(values, _COMPLEX)


def _has_any(values: NDArray[Any], types: tuple[type, ...]) -> bool:
    """Whether an array of objects holds a value of one of some types.

    NumPy would convert these types to floats without an error.
    """
    if values.dtype != object:
        return False
    return any(issubclass(kind, types) for kind in set(map(type, values.flat)))


def checked(check: Callable[..., Any], *arguments: object, **options: object) -> Any:
    """Call one of scikit-learn's checks, without its warnings.

    Its messages are shown without quotes of the data and without numbers of rows, which
    are private, too, if all data of a unit are protected.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        try:
            return check(*arguments, **options)
        except ValueError as error:
            message = str(error)
    # Raised outside the handler, as above.
    quoted = r"(?s)\narray=.*?(?=\nReshape)|(?<=^Complex data not supported)\n.*"
    # scikit-learn goes on to recommend classifiers and trees, which do not apply.
    quoted += r"|(?<=contains NaN\.)\n.*"
    in_frame = any(hasattr(one, "isna") for one in arguments)
    for pattern, text in _WITHOUT_SIZES.items():
        message = re.sub(pattern, text, message)
    message = re.sub(quoted, "", message)
    if in_frame and message == "Input X contains NaN.":
        message += " X.isna().any() shows the columns. Fill them, or drop the rows."
    is_of_numbers = re.search("NaN|infinity|real numbers|Complex", message)
    raise malformed("numbers" if is_of_numbers else "arrays", message)


def check_same_length(X: object, y: object) -> None:
    """Refuse `y` unless it has one value for each row of `X`, in the same order."""
    shape_of(X, "X")
    check_aligned(X, y=y)
    checked(check_consistent_length, X, y)


def check_aligned(X: Any, **others: Any) -> None:
    """Refuse values whose labels are those of other rows, or in another order.

    Only objects with an index, such as those of pandas, have labels. Nothing is
    reordered: rows are paired by position everywhere.

    Parameters
    ----------
    X : array-like
    **others : array-like or None
        Values, one for each row of `X`, by their names in messages.

    Raises
    ------
    ValueError
        If two of them have equally many labels, but not the same ones in the same
        order.
    TypeError
        If one of them is no array or frame, such as a query or a set.
    """
    for name, values in {"X": X, **others}.items():
        check_container(values, name)
    labelled = [
        (name, values.index)
        for name, values in {"X": X, **others}.items()
        if hasattr(getattr(values, "index", None), "equals")
    ]
    for (first, own), (name, index) in itertools.combinations(labelled, 2):
        # If the lengths differ, the check of lengths has a better message.
        if len(own) == len(index) and not own.equals(index):
            raise malformed(
                "order",
                f"{first} and {name} have different labels in their indexes, or the "
                f"same in another order. Pass {name}.loc[{first}.index], or "
                f"{name}.to_numpy() if the order is right.",
            )


def check_unmasked(values: object, name: str) -> None:
    """Refuse masked entries: converted to an array, they would lose their mask."""
    if _has_masked(values):
        advice = f"Leave those rows out of X and {name}."
        if name == "X":
            advice = (
                "Leave those rows out, or fill it: a tensor with NaN where nothing was "
                "observed is X.astype(float).filled(np.nan)."
            )
        raise malformed("masked", f"Some of {name} is masked. {advice}")


def _has_masked(values: object) -> bool:
    if isinstance(values, np.ma.MaskedArray):
        return bool(np.ma.is_masked(values))
    items = values.values() if isinstance(values, dict) else values
    nested = dict, list, tuple, np.ma.MaskedArray
    if not isinstance(items, type({}.values()) | list | tuple):
        return False
    # A long list of numbers has few types: look at those, not at each number.
    if not any(issubclass(kind, nested) for kind in set(map(type, items))):
        return False
    return any(map(_has_masked, items))


def declared_list(values: object, name: str) -> NDArray[Any]:
    """A list that is declared, such as levels or a catalogue, as an array.

    Raises
    ------
    ValueError
        If it is not a list with one axis, is empty, or has missing entries.
    """
    array = declared_array(values, name)
    if array.ndim != 1:
        raise ValueError(
            f"{name} must be a plain list, but it has {array.ndim} axes. Pass one "
            f"column of a frame, or array.ravel()."
        )
    if not len(array):
        raise ValueError(f"{name} is empty.")
    return array


def declared_array(values: object, name: str) -> NDArray[Any]:
    """A declared array, which must have an order and no missing entries.

    Raises
    ------
    ValueError
        If it has no order (a set, a dict), or has missing entries.
    """
    check_ordered(values, name)
    check_unmasked(values, name)
    array = as_numpy(values, name)
    if np.any(are_missing(array)):
        raise ValueError(
            f"{name} has missing entries (NaN, None or the like). Leave them out, or "
            f"fill them."
        )
    return array


def check_ordered(values: object, name: str) -> None:
    """Where order counts, refuse what is not a list or an array (a set, a dict)."""
    check_loaded(values, name)
    unordered = dict, Iterator, MappingView, Set, str
    if isinstance(values, unordered) or issparse(values):
        kind = type(values).__name__
        advice = "Pass X.toarray()." if issparse(values) else "Pass a list."
        raise ValueError(f"{name} is a {kind}, not a list or an array. {advice}")


def are_missing(array: NDArray[Any]) -> Any:
    """Whether entries are NaN, None, NaT or pandas.NA."""
    if array.dtype.kind == "f":
        return np.isnan(array)
    if array.dtype.kind in "mM":
        return np.isnat(array)
    if array.dtype.kind != "O":
        return False
    names = ("NoneType", "NAType", "NaTType")
    return [
        type(item).__name__ in names or (isinstance(item, Real) and item != item)
        for item in array.flat
    ]


def check_shape(shape: Iterable[int]) -> tuple[int, ...]:
    """Shape of a tensor: a tuple of at least two positive integers."""
    check_ordered(shape, "shape")
    sizes = tuple(shape)
    valid = (is_integer(n) and 1 <= n <= LARGEST_INDEX for n in sizes)
    if len(sizes) < 2 or not all(valid):
        raise ValueError(
            f"shape must hold at least two positive integers below 2**31, "
            f"got {described(shape)}."
        )
    return tuple(int(n) for n in sizes)


def check_bounds(
    bounds: Iterable[float], name: str = "value_bounds"
) -> tuple[float, float]:
    """Public range of the values: a pair of finite numbers, low < high."""
    check_ordered(bounds, name)
    try:
        low, high = (float(b) for b in bounds)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a pair (low, high) of numbers.") from error
    if not (math.isfinite(high - low) and low < high):
        raise ValueError(f"{name} must be finite with low < high, got {bounds!r}.")
    _check_magnitude((low, high), name)
    return low, high


def adds_noise(epsilon: object) -> bool:
    """Whether an `epsilon`, which may not be checked yet, asks for noise.

    Tags and displays are asked for before a fit checks the parameters, so they must not
    compute with them.
    """
    return not (isinstance(epsilon, Real) and math.isinf(epsilon))


def is_integer(value: object) -> bool:
    """Whether a value is an integer, but not True or False."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def check_integer(value: Any, name: str, least: int, most: int | None = None) -> int:
    """A parameter as an int, from `least` to `most`; raise if it is anything else."""
    if is_integer(value) and least <= value and (most is None or value <= most):
        return int(value)
    admitted = f"of at least {least}" if most is None else f"from {least} to {most}"
    raise ValueError(f"{name} must be an integer {admitted}, got {described(value)}.")


def check_noise_seed(random_state: int | None) -> None:
    """Refuse a seed of noise that is neither None nor an integer of at least 0."""
    if random_state is not None:
        check_integer(random_state, "random_state", 0)


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning that points to the caller's code."""
    warnings.warn(message, category, stacklevel=callers_level())


def callers_level() -> int:
    """The `stacklevel` of a warning that points to the caller's code.

    That is the first frame outside this package, scikit-learn (whose pipelines and
    searches call this package), joblib (through which they call it) and contextlib
    (which ends the blocks of this package).
    """
    frame, level = inspect.currentframe(), 0
    while (frame := frame and frame.f_back) is not None:
        level += 1
        module = str(frame.f_globals.get("__name__", ""))
        if module.split(".")[0] not in _INSIDE:
            return level
    return 1


def check_levels(levels: ArrayLike) -> tuple[float, ...]:
    """Public scale of the values: at least two finite, distinct numbers; ascending."""
    scale = np.sort(_numbers(levels, "levels"))
    if scale.size < 2 or not np.all(np.isfinite(scale)):
        raise ValueError("levels must be a list of at least two finite numbers.")
    if np.any(scale[1:] == scale[:-1]):
        raise ValueError("levels must be distinct.")
    _check_magnitude(scale, "levels")
    return tuple(scale.tolist())


def _numbers(values: ArrayLike, name: str) -> NDArray[np.float64]:
    """A declared list of numbers."""
    array = declared_list(values, name)
    try:
        return array.astype(float)
    except (TypeError, ValueError):
        pass
    # Raised outside of the handler, whose error may show data.
    raise ValueError(f"{name} must hold numbers.")


def range_of(values: ArrayLike) -> tuple[float, float]:
    """Range of values without declared bounds; at least 1 wide if all are equal."""
    low, high = float(np.min(values)), float(np.max(values))
    if not low < high:
        half_width = max(0.5, abs(low) * 2**-40)
        low, high = low - half_width, high + half_width
    _check_magnitude((low, high), "The values")
    return low, high


def _check_magnitude(numbers: ArrayLike, name: str) -> None:
    """Refuse numbers so large or close that powers overflow or vanish in a fit."""
    # Magnitudes first: the gap between larger numbers may overflow.
    is_large = np.max(np.abs(numbers)) > _LARGEST_VALUE
    if is_large or np.min(np.diff(numbers)) < 1 / _LARGEST_VALUE:
        raise ValueError(
            f"{name} must be at most {_LARGEST_VALUE:g} in magnitude and at least "
            f"{1 / _LARGEST_VALUE:g} apart."
        )


def check_level_prior(level_prior: ArrayLike, levels: ArrayLike) -> tuple[float, ...]:
    """Public probabilities of the levels, ascending, scaled to sum to exactly one.

    Both lists are in the order in which they were declared.
    """
    prior, n_levels = _numbers(level_prior, "level_prior"), np.size(levels)
    if prior.shape != (n_levels,):
        raise ValueError(
            f"level_prior must have one probability for each of the {n_levels} "
            f"levels, got an array of shape {prior.shape}."
        )
    if not np.all(prior >= 0) or not np.isclose(prior.sum(), 1.0, atol=1e-6):
        raise ValueError("level_prior must be non-negative and sum to one.")
    order = np.argsort(_numbers(levels, "levels"))
    return tuple((prior[order] / prior.sum()).tolist())


def check_modes(
    modes: Iterable[int] | None, n_modes: int, name: str
) -> tuple[int, ...]:
    """Numbers of modes as a sorted tuple; negative numbers count from the last mode."""
    numbers = set()
    for mode in [] if modes is None else modes:
        if not is_integer(mode) or not -n_modes <= mode < n_modes:
            raise ValueError(
                f"{name} must hold numbers of modes, from {-n_modes} to {n_modes - 1}."
            )
        numbers.add(int(mode) % n_modes)
    return tuple(sorted(numbers))


def r2_of_any_size(
    values: NDArray[np.float64], predicted: NDArray[Any], sample_weight: object = None
) -> float:
    """scikit-learn's ``r2_score``, also of values whose squares overflow."""
    from sklearn.metrics import r2_score

    check_unmasked(sample_weight, "sample_weight")
    # Scaling by a power of two keeps squares finite and leaves the score unchanged.
    exponent = -int(np.frexp(np.max(np.abs(values), initial=0.0))[1])
    # The score may be -inf if the values are nearly equal.
    with np.errstate(over="ignore"):
        scaled = np.ldexp(predicted, exponent).clip(-1e300, 1e300)
        return r2_score(np.ldexp(values, exponent), scaled, sample_weight=sample_weight)
