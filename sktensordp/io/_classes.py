"""The classes of which a file may hold objects, and the attributes that each declares.

A file names a class by a key of `_HOMES` and nothing else, so it can import nothing. A
key never changes: if a class moves, its home changes here, and older files are read.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
import types
import typing
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from numbers import Complex, Integral
from typing import Any

import numpy as np

# By module, the classes of which a file may hold objects. Whoever adds a class makes
# sure that it does nothing but hold values: its attributes are set, and for those of
# `FROM_ARGUMENTS`, it is called.
_HOMES = {
    name: module
    for module, names in {
        "base": "_ReleaseTally",
        "_random": "ReleaseCounter",
        "completion": "CPCompletion CompletionClient ImplicitCompletion "
        "TuckerCompletion",
        "completion._domain": "Domain",
        "completion._entries": "Entries",
        "completion._fitted": "Fitted FittedToUnits",
        "completion._implicit": "_LocalChoices",
        "completion._local": "LocalRows LocalUsers LocalValues Lookups",
        "completion._own_rows": "NoisyValues",
        "completion._synthetic": "UserSampler",
        "completion._values": "EntryRandomizer",
        "completion.measurements.units._item_model": "ItemModel",
        "completion.measurements.units._population": "Population",
        "completion.measurements.units._shared_model": "SharedModel",
        "counts": "TensorCounts",
        "counts._plan": "Plan Residual Workload",
        "counts._tables": "Tables",
        "encoding": "EncoderClient TaskAgnosticEncoder TaskAwareEncoder",
        "encoding._base": "AffineDecoder",
        "encoding._channels": "BallChannel SphereChannel",
        "encoding._client": "ClientRandomizer LinearMap",
        "encoding._code_noise": "BallNoise",
        "encoding._learned": "LearnedEncoder",
        "encoding._maps": "CodeMap MapShape",
        "encoding._sphere_noise": "SphereNoise",
        "measure._noisy_sums": "TableNoise",
        "mechanisms": "GaussianMechanism HybridMechanism IndependentDirectionalNoise "
        "LaplaceMechanism MatrixGaussian MatrixMechanism PrivUnit "
        "TensorRandomizedResponse TensorVariateGaussian UnimodalDirectionalNoise",
        "mechanisms._hybrid": "SampledEntries",
        "mechanisms._noise": "AddedNoise WhitenedNoise",
        "mechanisms._privunit": "CalibratedCap LiftedRelease",
        "mechanisms._responses": "LevelResponse",
        "model_selection": "ItemHoldout PrivateSearchCV UserHoldout UserKFold",
        "moments": "MultilinearPCA MultilinearRidge MultilinearRidgeClassifier",
        "moments._pca": "_Projection",
        "noise._cap": "CapSampler",
        "noise._lattice": "GaussianLattice LaplaceLattice",
        "noise._piecewise": "HybridDistribution",
        "papers": "BiScaler MatrixVariateGaussian PrivacyAgnosticEncoder "
        "PublishedCPCompletion PublishedIndependentDirectionalNoise "
        "PublishedMatrixGaussian PublishedMatrixVariateGaussian "
        "PublishedPrivacyAgnosticEncoder PublishedTaskAgnosticEncoder "
        "PublishedTaskAwareEncoder PublishedTensorRandomizedResponse "
        "PublishedTensorVariateGaussian PublishedTuckerCompletion "
        "PublishedUnimodalDirectionalNoise",
        "papers._algorithm_one": "LogisticMap OpenChannel",
        "papers._declared_box": "BoxedRandomizer",
        "papers._yuan_2025": "_Response",
        "privacy": "PrivacyGuarantee",
        "privacy.accounting._events": "GroupDpEvent LatticeLaplaceDpEvent "
        "ParallelDpEvent "
        "PureDpEvent RandomizedResponseDpEvent RevealingDpEvent "
        "SamplerResidualDpEvent SelectionDpEvent ShuffledDpEvent TableDpEvent",
        "privacy.accounting._randomized_response": "LevelDistribution",
        "privacy.accounting._repetitions": "RepetitionDistribution",
        "privacy.budgets._open": "Mark",
        "privacy.calibration._privunit": "PrivUnitDesign",
        "privacy.calibration._sensitivity": "SensitivitySet",
        "privacy.calibration._table": "LevelTable",
        "recommend": "CoordinateEncoder Recommender",
        "tensor._cp": "CPForm",
        "tensor._observations": "Latest",
        "tensor._rows": "Rows",
        "tensor._tucker": "Core TuckerForm TuckerRows",
        "dp_accounting": "ComposedDpEvent GaussianDpEvent LaplaceDpEvent "
        "NonPrivateDpEvent PoissonSampledDpEvent SelfComposedDpEvent",
    }.items()
    for name in names.split()
}
# Two rooms have a `_Fitted`.
_TWICE = {
    "FittedChoices": ("completion._implicit", "_Fitted"),
    "FittedTable": ("recommend._recommender", "_Fitted"),
}
FROM_ARGUMENTS = {
    "LevelDistribution", "Mark", "ReleaseCounter", "RepetitionDistribution",
}  # fmt: skip
"""Classes that are made by a call with the arguments of the file."""
DROPPED = {"_LocalChoices", "LocalRows", "LocalUsers", "LocalValues", "Lookups"}
"""Classes of data for one process only, of which a file holds empty objects."""
# Attributes that only type checkers may see in the class, since users need not.
_UNLISTED = {"CompletionClient": "randomizer", "EncoderClient": "randomizer"}
TABLE = {name: (module, name) for name, module in _HOMES.items()} | _TWICE
"""By the key of a class: its module below this package, and its name there."""


@cache
def class_of(key: str) -> type | None:
    """The class with a key; None if there is no such key."""
    if key not in TABLE:
        return None
    module, name = TABLE[key]
    package = "" if module == "dp_accounting" else __package__.rpartition(".")[0] + "."
    found: type = getattr(import_module(package + module), name)
    return found


@cache
def key_of(kind: type) -> str | None:
    """The key of a class; None if a file may not hold its objects."""
    for key, (_, name) in TABLE.items():
        if kind.__name__ == name and class_of(key) is kind:
            return key
    return None


@cache
def declared(kind: type) -> Mapping[str, Any]:
    """Names of the attributes that a class declares, with their types.

    They are its fields; or its parameters, all attributes with annotations, and those
    that a property sets. A type that cannot be read at run time is Any.
    """
    found: dict[str, Any] = {}
    if kind.__name__ in _UNLISTED:
        found[_UNLISTED[kind.__name__]] = Any
    for one in kind.__mro__[::-1]:
        if one.__module__.partition(".")[0] == "sklearn" and "__init__" in vars(one):
            found |= dict.fromkeys(inspect.signature(one).parameters, Any)
        for name, hint in inspect.get_annotations(one).items():
            found[name] = _read(hint, one)
        for name, member in vars(one).items():
            if name.endswith("_") and isinstance(member, property) and member.fset:
                value, *_ = inspect.get_annotations(member.fset).values()
                found[name] = _read(value, one)
    if hasattr(kind, "get_params"):
        # Users may pass what they like; the next fit checks it.
        found |= dict.fromkeys(inspect.signature(kind).parameters, Any)
    return found


def arguments_of(kind: type) -> list[Any]:
    """The types of the arguments with which a class of `FROM_ARGUMENTS` is called."""
    parameters = inspect.signature(kind).parameters.values()
    return [_read(parameter.annotation, kind) for parameter in parameters]


def completed(kind: type, state: Mapping[str, Any]) -> dict[str, Any] | None:
    """All fields of an object, those that came later with their defaults.

    None if one is missing that has no default.
    """
    if not dataclasses.is_dataclass(kind):
        return {**state} if declared(kind).keys() == state.keys() else None
    found = {**state}
    for field in dataclasses.fields(kind):
        if field.name in found:
            continue
        if field.default is not dataclasses.MISSING:
            found[field.name] = field.default
        elif field.default_factory is not dataclasses.MISSING:
            found[field.name] = field.default_factory()
        else:
            return None
    return found


def _read(hint: Any, owner: type) -> Any:
    """The type that an annotation means; Any if this process does not know it."""
    if not isinstance(hint, str):
        return hint
    one = types.SimpleNamespace(__annotations__={"it": hint})
    try:
        return typing.get_type_hints(one, vars(sys.modules[owner.__module__]))["it"]
    except (NameError, TypeError, AttributeError):
        # Names that are imported for type checkers only.
        return Any


def fits(value: Any, hint: Any) -> bool:
    """Whether a value has a type; True for types that cannot be checked."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, one) for one in arguments)
    if origin is typing.Literal:
        return value in arguments
    if hint is None:
        return value is None
    if origin is tuple and arguments and arguments[-1] is not Ellipsis:
        alike = isinstance(value, tuple) and len(value) == len(arguments)
        return alike and all(map(fits, value, arguments))
    if origin in (tuple, list, set, frozenset) and arguments:
        # dp_accounting declares lists where this package passes tuples.
        is_one = isinstance(value, (tuple, list) if origin is list else origin)
        return is_one and all(fits(each, arguments[0]) for each in value)
    kind = origin or hint
    is_known = isinstance(kind, type) and typing.Protocol not in kind.__bases__
    if hint is Any or not is_known:
        return True
    if kind is int:
        return isinstance(value, Integral)
    if kind in (float, complex) or issubclass(kind, np.number):
        return isinstance(value, Complex)
    if kind is bool:
        return isinstance(value, bool | np.bool_)
    return isinstance(value, kind)
