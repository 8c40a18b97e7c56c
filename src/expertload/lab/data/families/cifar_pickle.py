"""Reading CIFAR's pickles without trusting them.

A pickle is a program; an ordinary `pickle.load` runs whatever it says. The official files need
only lists, strings, numbers and one numpy array, so this reader knows how to rebuild arrays and
refuses every other name.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np

from expertload.lab.data.catalogue import damaged

__all__ = ["read_pickle"]


def _latin1_bytes(text: str, encoding: str = "latin1") -> bytes:
    """Rebuild bytes as Python 3 writes them for Python 2: text through one plain codec."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"it asks for the codec {encoding!r}")
    return text.encode("latin1")


# Both spellings of the module: numpy 2 renamed it. The function is numpy's own, taken from
# what an array says of itself so that nothing private is imported.
_RECONSTRUCT = np.empty(0).__reduce__()[0]
_ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): _latin1_bytes,
}


class _ArraysOnly(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}") from None


def read_pickle(path: Path) -> dict[str, Any]:
    """Return the dictionary in a CIFAR pickle, its keys as text.

    Raises
    ------
    DataDamagedError
        If the file is cut short, is not a pickle, or asks for anything but arrays.
    """
    try:
        with path.open("rb") as file:
            content = _ArraysOnly(file, encoding="bytes").load()
    except Exception as error:  # a damaged pickle can raise nearly anything
        raise damaged(path, f"is not a plain CIFAR pickle: {error}") from error
    if not isinstance(content, dict):
        raise damaged(path, f"holds a {type(content).__name__}, not CIFAR's dictionary")
    return {_text(key): value for key, value in content.items()}


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
