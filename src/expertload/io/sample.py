"""Draws automatic decisions to be audited, with a known probability."""

from __future__ import annotations

import os
from collections import Counter
from typing import IO, Any, NamedTuple

import numpy as np
import pyarrow as pa

from expertload._check import check_fraction, message
from expertload._typing import AnyArray, BoolArray, FloatArray
from expertload.exceptions import FileFormatError, ParameterError
from expertload.io.audits import CONVENTIONS, plain_key
from expertload.io.columns import Identity, find_identity
from expertload.io.files import FileOptions
from expertload.io.source import open_source
from expertload.io.table import cluster_warning, known_clusters
from expertload.io.values import grades_from
from expertload.io.write import open_writer

# The columns of decisions that a sample has under these names, besides the key.
DECIDED = {"accepted": "accepted", "decided_label": "label", "confidence": "confidence"}
# The columns that a sample does not copy from other files.
WRITTEN = ("inclusion_probability", "label", "decided_label", "row", "why")


def draw_audits(
    path: str | os.PathLike[str],
    *,
    out: str | os.PathLike[str] | IO[Any],
    rate: float,
    more_doubtful: bool = False,
    key: str | None = None,
    cluster: str | None = None,
    with_delegated: bool = False,
    seed: int | None = None,
    options: FileOptions | None = None,
) -> SampleCounts:
    r"""Draw automatic decisions to be audited, each by itself, with a known probability.

    Parameters
    ----------
    path : str or path-like
        Decisions, as `decide_file` writes them: accepted, label, confidence, and a kept key.
    out : str, path-like or stream
        A .csv, .jsonl or .parquet file for `read_audits`, with an empty column ``label`` for the
        experts' answers; or a stream, for CSV.
    rate : float
        The share of automatic decisions to audit, in (0, 1].
    more_doubtful : bool, default=False
        Draw the less confident half three times as often as the other, with the same total. A fall
        is found with fewer audits.
    key : str, optional
        The column that identifies a case; found by name by default.
    cluster : str, optional
        The column that names whom a case belongs to, such as a customer; ``"none"`` turns off the
        warning about such columns. One case of each is drawn
        at random, and audited with the probability `rate`: several would not be independent. A
        case's probability is then `rate` over the number of decided cases of its cluster.
    with_delegated : bool, default=False
        Also take the cases left to experts, without a decision, for promises about how many cases
        of a class are missed: all of them, or with `cluster` one case of each, decided or not.
    seed : int, optional
        For a draw that can be repeated; by default nobody can know it beforehand.
    options : FileOptions, optional
        How to open the file.

    Returns
    -------
    SampleCounts
        The numbers of automatic decisions, of those drawn and of delegated cases, and the smallest
        probability.

    Examples
    --------
    >>> import sys, tempfile
    >>> from pathlib import Path
    >>> from expertload.io import draw_audits
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "decisions.csv"
    ...     _ = file.write_text("id,accepted,label,confidence\n7,true,cat,0.9\n8,false,dog,0.6\n")
    ...     counts = draw_audits(file, out=sys.stdout, rate=1.0)
    key,decided_label,confidence,inclusion_probability,label
    7,cat,0.9,1,
    >>> counts.n_decided, counts.n_drawn
    (1, 1)
    """
    share = check_fraction(rate, "rate")
    if share == 0:
        raise ParameterError(message("rate", "must be in (0, 1]", "0"))
    source = open_source(path, options)
    header = source.header
    found = {
        "key": header.find(key, CONVENTIONS["key"]),
        **{name: header.same(column) for name, column in DECIDED.items()},
    }
    lacking = [DECIDED.get(name, "a key") for name, column in found.items() if column is None]
    if lacking:
        raise FileFormatError(
            f"{source.where} must hold decisions of expertload decide with a key. It lacks "
            f"{', '.join(lacking)}. Hint: keep the column that identifies a case (expertload "
            "decide --keep COLUMN), and name it (--key COLUMN)."
        )
    columns = {name: str(column) for name, column in found.items()}
    warning = ""
    if cluster is None:
        likely = find_identity(header, Identity(), [*columns.values()]).cluster
        if likely is not None:
            values = source.read([likely])[likely]
            warning = cluster_warning(values, likely, source.where, "false alarms become likely")
    cluster = header.find(cluster)
    when = header.same("decided_at")
    columns |= {} if when is None else {"decided_at": when}
    other = [name for name in source.columns if name not in {*columns, *columns.values(), *WRITTEN}]
    columns |= {name: name for name in other}
    if cluster is not None and more_doubtful:
        raise ParameterError("--more-doubtful and --cluster cannot be combined.")
    table = source.read([*columns.values()], [columns["confidence"]])
    decided = grades_from(table[columns["accepted"]], columns["accepted"], source.where) == 1
    if not decided.any():
        raise FileFormatError(f"{source.where} holds no automatic decisions.")
    taken = np.ones(len(decided), dtype=np.bool_) if with_delegated else decided
    _check_keys(table[columns["key"]][taken], columns["key"], source.where)
    rows = {name: table[column][taken] for name, column in columns.items() if name != "accepted"}
    own = decided[taken]
    inclusion = np.where(own, share, 1.0)
    if more_doubtful:
        doubtful = rows["confidence"] < np.median(rows["confidence"][own])
        more, less = round(min(1.5 * share, 1.0), 12), 0.5 * share
        inclusion = np.where(own, np.where(doubtful, more, less), 1.0)
    rng = np.random.default_rng(seed)
    drawn = rng.random(len(inclusion)) < inclusion
    if cluster is not None:
        names = known_clusters(table[cluster], cluster, source.where)
        inclusion, drawn = _one_of_each(names[taken], share, rng)
    n_drawn = int(drawn.sum())
    rows["decided_label"] = np.where(own, rows["decided_label"], None)
    rows["inclusion_probability"] = inclusion
    with open_writer(out) as write:
        written = {name: pa.array(values[drawn].tolist()) for name, values in rows.items()}
        write({**written, "label": pa.nulls(n_drawn, pa.string())})
    n_audits = int(drawn[own].sum())
    return SampleCounts(
        int(own.sum()), n_audits, n_drawn - n_audits, float(inclusion.min()), warning
    )


def _check_keys(values: AnyArray, column: str, where: str) -> None:
    """Refuse a key that repeats: the monitor could not tell its cases apart."""
    keys = [plain_key(value) for value in values.tolist()]
    key, times = Counter(keys).most_common(1)[0]
    if times > 1:
        raise FileFormatError(
            f"The column '{column}' of {where} must identify a case, but '{key}' is the key of "
            f"{times} cases. Hint: name the column that identifies a case (--key); "
            "for the customer, patient, ... of a case, there is --cluster."
        )


def _one_of_each(
    clusters: AnyArray, share: float, rng: np.random.Generator
) -> tuple[FloatArray, BoolArray]:
    """Return the probability of each case, and whether it was drawn: at most one of a cluster."""
    _, member, sizes = np.unique(clusters, return_inverse=True, return_counts=True)
    order = rng.permutation(len(member))
    chosen = np.empty(len(sizes), dtype=np.int64)
    chosen[member[order]] = order  # the last one of a random order
    drawn = np.zeros(len(member), dtype=np.bool_)
    drawn[chosen[rng.random(len(sizes)) < share]] = True
    return np.round(share / sizes[member], 12), drawn


class SampleCounts(NamedTuple):
    """How many automatic decisions there were, how many were drawn, and the least probability.

    Beside these, `n_delegated` delegated cases were taken. If cases seem to form clusters that were
    not named, there is a warning.
    """

    n_decided: int
    n_drawn: int
    n_delegated: int
    least_inclusion_probability: float
    warning: str = ""
