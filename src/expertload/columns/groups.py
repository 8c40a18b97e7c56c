"""Groups and clusters: which group a case is in, and which cases belong together."""

from __future__ import annotations

from numbers import Integral

import numpy as np

from expertload._typing import AnyArray, ArrayLike, IntArray
from expertload._validation import SKIPPED, UNROUNDED, as_array, message, rounded_whole
from expertload.columns.arrays import label_array
from expertload.columns.spelling import is_missing, spelled_alike
from expertload.exceptions import DataTypeError, ParameterError, ShapeError

__all__ = ["check_groups", "independent_units", "name_groups", "number_clusters"]

# With more groups than this, the column is assumed to be an identifier.
MAX_GROUPS = 1000


def check_groups(groups: ArrayLike, *, name: str = "groups") -> AnyArray:
    """Return the group (or cluster) of each case, as integers or strings."""
    values = as_array(groups, name)
    if values.ndim != 1:
        raise ShapeError(message(name, "must have one name for each case", f"shape {values.shape}"))
    if values.dtype.kind == "O" and all(isinstance(value, str) for value in values):
        values = values.astype(np.str_)
    if values.dtype.kind == "O" and all(isinstance(value, Integral) for value in values):
        values = label_array(values, name)
    if values.dtype.kind not in "biuUT":
        raise DataTypeError(
            message(
                name,
                "must hold only integers or only strings",
                f"an array of {values.dtype}",
                "give cases without a group a group name such as 'unknown'",
            )
        )
    return values


def number_clusters(clusters: ArrayLike | None, n: int) -> IntArray | None:
    """Return the number of each case's cluster, in the order of their names as text.

    None if there are no clusters. In this order, draws of clusters are the same for the numbers of
    one file and the text of another. Spellings that look alike are the same cluster: a patient with
    a blank after the name would otherwise count as two, who look independent.
    """
    if clusters is None:
        return None
    given = check_groups(clusters, name="clusters")
    if len(given) != n:
        wanted = f"must name a cluster for each of {n} cases"
        raise ShapeError(message("clusters", wanted, len(given)))
    distinct, rows = np.unique(given, return_inverse=True)
    names = [spelled_alike(each) for each in distinct.tolist()]
    numbers: IntArray = np.unique(names, return_inverse=True)[1]
    return numbers[rows]


def independent_units(n: int, clusters: ArrayLike | None) -> IntArray:
    """Return the number of each case's cluster; if there are none, of the case itself."""
    cluster = number_clusters(clusters, n)
    return np.arange(n) if cluster is None else cluster


def name_groups(groups: ArrayLike, n: int) -> AnyArray:
    """Return the group name of each case as a string; missing values form a group."""
    array = as_array(groups, "groups")
    if array.ndim != 1 or len(array) != n:
        raise ShapeError(message("groups", f"must name a group for each of {n} cases", array.shape))
    large = rounded_whole(array)
    if large is not None:
        got = f"{large:g}, {SKIPPED}"
        raise DataTypeError(message("groups", "must name groups", got, UNROUNDED))
    names = np.array(["(missing)" if is_missing(v) else str(v) for v in array.tolist()])
    n_groups = len(np.unique(names))
    if n_groups > MAX_GROUPS:
        raise ParameterError(
            message(
                "groups",
                f"must hold at most {MAX_GROUPS} distinct groups",
                f"{n_groups}",
                "for an identifier, pass no groups; cut a measurement into bands first",
            )
        )
    return names
