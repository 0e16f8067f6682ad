"""The public names of the package: what an import, a call or a fit gives to a user."""

import importlib
import inspect
import pkgutil

import sktensordp

# Kernels: what the package promises to nobody.
INNER = {"ids", "measure", "tensor"}


def public():
    """Yield the public names of the reference, with what they stand for."""
    for part in pkgutil.iter_modules(sktensordp.__path__):
        if part.name.startswith("_") or part.name in INNER:
            continue
        module = importlib.import_module(f"sktensordp.{part.name}")
        for name in getattr(module, "__all__", []):
            yield f"{part.name}.{name}", getattr(module, name)


def public_estimators():
    """Public classes that have a method `fit`, by name; no bases without parameters."""
    return {
        name.rpartition(".")[2]: value
        for name, value in public()
        if inspect.isclass(value)
        and hasattr(value, "fit")
        and value.__init__ is not object.__init__
    }


def methods_of(model):
    """Names of the public methods of an object, but for requests of metadata."""
    return {
        name
        for name, _ in inspect.getmembers(model, callable)
        if not name.startswith("_")
        and not (name.startswith("set_") and name.endswith("_request"))
    }


def function_of(found):
    """The function of the package behind a member of a class; None if there is none."""
    # Properties, cached ones, class methods, and methods that are not always there.
    for inside in ("fget", "__func__", "fn", "func"):
        found = getattr(found, inside, None) or found
    found = inspect.unwrap(found) if callable(found) else found
    own = getattr(found, "__module__", None) or ""
    is_own = inspect.isfunction(found) and own.startswith("sktensordp")
    return found if is_own else None


def annotated(cls):
    """Types of the attributes of a class."""
    return {
        name: kind
        for one in reversed(cls.__mro__)
        for name, kind in inspect.get_annotations(one).items()
    }
