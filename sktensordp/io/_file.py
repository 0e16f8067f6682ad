"""One file for one model: arrays and JSON, which is read as data."""

from __future__ import annotations

import json
import os
import pickle
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from .. import __version__
from .._extras import imported
from .._json import Fields
from ..base import StorableMixin
from ._parts import Parts, Restored

_FORMAT, _NAME = 1, "sktensordp"
_WHAT = "a file of sktensordp.io, or it is damaged"
# Largest number of bytes of the header, which is all of a file but its arrays.
_LONGEST = 2**24


def dump(model: StorableMixin | Pipeline, path: str | os.PathLike[str]) -> None:
    """Store a model in a file that holds no code.

    The file holds what a pickle of the model would hold: parameters, what was released
    and its guarantees; no raw data, no rows or ids of protected users, and no key of
    noise. It is written under another name and then renamed, so that no reader ever
    meets half of it, and an earlier file stays whole if this one cannot be written.

    Parameters
    ----------
    model : estimator or client
        Anything of this package that is fitted, such as a completion, a recommender, a
        mechanism or an encoder; a client; or scikit-learn's ``Pipeline`` of such
        estimators.
    path : str or path-like
        Where to store it; an earlier file there is replaced.

    Raises
    ------
    TypeError
        If the model is not of this package, or holds what a file without code cannot
        hold, such as a task model of yours, a function, or a step of a pipeline that is
        not of this package. The message names it.
    ModuleNotFoundError
        If safetensors is not installed: ``pip install "sktensordp[files]"``.

    See Also
    --------
    load : Read it.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from sktensordp import io
    >>> from sktensordp.completion import CPCompletion
    >>> X, y = np.argwhere(np.ones((4, 3))), np.linspace(0, 1, 12)
    >>> model = CPCompletion(0, epsilon=2.0, value_bounds=(0, 1)).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     io.dump(model, Path(folder, "model.safetensors"))
    ...     loaded = io.load(Path(folder, "model.safetensors"))
    >>> np.array_equal(loaded.predict(X), model.predict(X))
    True
    """
    if not _is_model(model):
        raise TypeError(
            f"model must be an estimator or a client of sktensordp, or a Pipeline of "
            f"such estimators, got {type(model).__name__}."
        )
    safetensors = imported("safetensors.numpy", "files")
    found = Parts(model)
    text = json.dumps(
        {"format": _FORMAT, "version": __version__, "parts": found.parts},
        allow_nan=False, separators=(",", ":"),
    )  # fmt: skip
    if len(text) > _LONGEST - 2**20 - 200 * len(found.arrays):
        raise ValueError(
            "This model has more parameters than a file may hold outside of arrays. "
            "Pass long lists of mixed types as arrays of one type."
        )
    place = Path(os.path.realpath(path))
    part = place.with_name(f".{place.name}.{secrets.token_hex(8)}")
    try:
        # This file gets the permissions that every new file gets; safetensors may
        # replace it by one that only its owner can read.
        with open(part, "xb") as file:
            mode = os.fstat(file.fileno()).st_mode
        safetensors.save_file(found.arrays, part, {_NAME: text})
        os.chmod(part, mode)
        with open(part, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(part, place)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(part)


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model that `dump` stored.

    Nothing in the file is executed: it names classes of this package from a fixed list,
    and each attribute is checked. So whoever wrote the file can choose the numbers in
    the model, and what it says of its guarantee, but cannot run code. Later versions
    read the files of earlier ones.

    With an integer `random_state`, the model goes on counting its releases where it was
    stored, so that it repeats the noise of none of them.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    model : estimator or client
        It belongs to the budgets that are open, as every copy does, and to those of the
        original.

    Raises
    ------
    ValueError
        If it is no such file, or a damaged one, or one of a later version.
    OSError
        If it cannot be read.
    ModuleNotFoundError
        If safetensors is not installed: ``pip install "sktensordp[files]"``.

    See Also
    --------
    dump : Write it, with an example.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sktensordp import io
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     other = Path(folder, "other")
    ...     _ = other.write_bytes(b"something else")
    ...     io.load(other)
    Traceback (most recent call last):
    ...
    ValueError: This is not a file of sktensordp.io, or it is damaged: ...
    """
    safetensors = imported("safetensors", "files")
    fields = Fields.of_text(_header(path), _WHAT, _LONGEST)
    text = fields.object("__metadata__").text(_NAME, r"(?s).*")
    names = fields.rest().keys()
    found = Fields.of_text(text, _WHAT, _LONGEST)
    found.constant("format", _FORMAT)
    version = found.text("version", r"\d{1,4}\.\d{1,4}[\w.+]{0,60}")
    parts = found.list("parts", _LONGEST)
    found.end()
    message = ""
    try:
        with safetensors.safe_open(path, framework="numpy") as file:

            def array(name: str) -> NDArray[Any]:
                if name not in names:
                    raise KeyError(name)
                return np.array(file.get_tensor(name))

            restored = Restored(parts, array, version, _WHAT)
    except pickle.UnpicklingError as error:
        # Another version, and what to do about it.
        message = str(error)
    except safetensors.SafetensorError:
        message = f"This is not {_WHAT}: its arrays are not where they must be."
    if message:
        raise ValueError(message)
    if restored.used != names or not _is_model(restored.root):
        fields.refuse("the list of its arrays")
    return restored.root


def _is_model(model: object) -> bool:
    """Whether a file may hold nothing but this."""
    return isinstance(model, StorableMixin) or type(model) is Pipeline


def _header(path: str | os.PathLike[str]) -> bytes:
    """The header of a file in the format safetensors, if its size is plausible."""
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        most = min(_LONGEST, os.fstat(file.fileno()).st_size - 8)
        return file.read(size) if size <= most else b""
