"""Results as rows: one number each, with its complete origin.

Tables are made from rows, and rows of several machines can simply be combined. In CSV, each row is
a run and each column a number, so anyone can check a table in a spreadsheet.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

from expertload.exceptions import ExpertLoadError, FileFormatError
from expertload.lab.results.outliers import describe_settings, read_outliers
from expertload.lab.runs.finished import FinishedRun
from expertload.lab.runs.folder import KINDS, RunFolder, write_whole
from expertload.lab.runs.recipe import LossConfig, RunConfig

SPLITS = ("validation", "test", "test_calibrated")


class Experiment(NamedTuple):
    """The settings that all compared losses share."""

    data: str
    model: str
    batch_size: int
    settings: str


@dataclass(frozen=True, kw_only=True)
class ResultRow:
    """One number of one run.

    Attributes
    ----------
    data, model, loss : str
    options : str
        Weight and options of the loss, as JSON. They identify a candidate.
    batch_size : int
    settings : str
        All other settings that are not at their default, as JSON.
    seed : int
    split : str
        ``validation``, ``test``, ``test_calibrated``, ``outliers:NAME`` with a data set's name
        and, in brackets, settings that are not the usual ones; ``training``; or, where weights
        were averaged, ``raw:SPLIT`` and ``averaged:SPLIT`` for both kinds.
    metric : str
        A name of `expertload.lab.results.measures`; for outliers ``SCORE/NUMBER``, as
        ``msp/auroc``; of the training, ``seconds``, ``best_epoch`` and ``clipped``, the share of
        steps whose gradient was clipped.
    value : float
    versions : str
        The versions of Python and the packages that computed it; empty if the run has no record.
    n_runs : int, default=1
        More than one means an ensemble of this many runs; `seed` is that of the first.
    changed : str, default=""
        Settings that differ from the recipe, such as ``training.epochs=2``, separated by
        semicolons.
    """

    data: str
    model: str
    loss: str
    options: str
    batch_size: int
    settings: str
    seed: int
    split: str
    metric: str
    value: float
    versions: str
    n_runs: int = 1
    changed: str = ""

    @property
    def experiment(self) -> Experiment:
        """The experiment that it belongs to."""
        return Experiment(self.data, self.model, self.batch_size, self.settings)


# The facts that all numbers of a run share. Files have the last one only if something was changed.
FACTS = tuple(
    field.name for field in fields(ResultRow) if field.name not in ("split", "metric", "value")
)
ALWAYS = FACTS[:-1]


def collect(folder: str | Path) -> list[ResultRow]:
    """Read the results of all finished runs, at any depth in a folder.

    Parameters
    ----------
    folder : path
        The folder of one run, or of many.

    Returns
    -------
    list of ResultRow
        Sorted by folder name; empty if no run is finished.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from expertload.lab.runs.recipe import RunConfig
    >>> from expertload.lab.results.rows import collect
    >>> from expertload.lab.runs.folder import RunFolder
    >>> config = RunConfig.model_validate({
    ...     "data": {"name": "digits"}, "model": {"name": "small-cnn"}, "loss": {"name": "ce"},
    ...     "training": {"epochs": 1, "batch_size": 64, "learning_rate": 0.1}})
    >>> with TemporaryDirectory() as place:
    ...     run = RunFolder(Path(place) / "ce")
    ...     run.create(config)
    ...     run.write_json("results.json", {"test": {"aucoc": 0.97}})
    ...     rows = collect(place)
    >>> [(row.loss, row.seed, row.metric, row.value) for row in rows]
    [('ce', 0, 'aucoc', 0.97)]
    """
    return [row for run in finished_runs(folder) for row in rows_of(run)]


def finished_runs(folder: str | Path) -> list[FinishedRun]:
    """Return the finished runs, at any depth in a folder, sorted by name."""
    folder = Path(folder)
    if not folder.is_dir():
        raise FileFormatError(f"There is no folder of runs at {folder}.")
    return [FinishedRun(path.parent) for path in sorted(folder.rglob("results.json"))]


def rows_of(run: FinishedRun) -> Iterator[ResultRow]:
    """Read the rows of one run."""
    facts = {
        **_shared_facts(run),
        "versions": _versions(run.folder),
        "changed": "; ".join(run.folder.environment().get("set", [])),
    }
    try:
        numbers = list(_numbers_of(run))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, ExpertLoadError):
            raise
        raise FileFormatError(
            f"The results in {run.folder.path} are damaged: {error!r}. Hint: remove results.json "
            "and train the run again; or outliers.json, if that is what was changed."
        ) from error
    for split, metric, value in numbers:
        yield ResultRow(**facts, split=split, metric=metric, value=value)


def _shared_facts(run: FinishedRun) -> dict[str, Any]:
    """Return the facts of a run; for an ensemble, those of its members, joined if they differ."""
    if not run.members:
        return facts_of(run.config)
    every = [facts_of(member.config) for member in run.members]
    shared: dict[str, Any] = {"n_runs": len(every)}
    for name, first in every[0].items():
        values = list(dict.fromkeys(facts[name] for facts in every))
        differ = len(values) > 1 and isinstance(first, str)
        shared[name] = " and ".join(values) if differ else first
    for name in ("options", "settings"):  # which are JSON
        if any(facts[name] != every[0][name] for facts in every):
            shared[name] = "{}"
    return shared


def _numbers_of(run: FinishedRun) -> Iterator[tuple[str, str, float]]:
    results = run.folder.read_json("results.json")
    for metric in ("seconds", "best_epoch", "clipped"):
        if metric in results:
            yield "training", metric, float(results[metric])
    for split in SPLITS:
        for metric, value in results.get(split, {}).items():
            yield split, metric, float(value)
    for kind in KINDS:  # both kinds, if weights were averaged
        for split in SPLITS:
            for metric, value in results.get(kind, {}).get(split, {}).items():
                yield f"{kind}:{split}", metric, float(value)
    for evaluation in read_outliers(run.folder):
        settings = describe_settings(evaluation.get("settings", {}))
        for name, scores in evaluation["results"].items():
            for score, numbers in scores.items():
                for number, value in numbers.items():
                    yield f"outliers:{name}{settings}", f"{score}/{number}", float(value)


def options_of(loss: LossConfig) -> str:
    """Return weight and options of a loss as JSON, which identifies its candidates."""
    return json.dumps(loss.settings, sort_keys=True)


def facts_of(config: RunConfig) -> dict[str, Any]:
    """Return the facts of a run: data, network, loss, settings and seed."""
    given = config.model_dump(mode="json", exclude_defaults=True)
    settings = {"data": given["data"], "model": given["model"], "training": given["training"]}
    del settings["data"]["name"], settings["model"]["name"], settings["training"]["batch_size"]
    flat = {
        f"{section}.{key}": value
        for section, values in settings.items()
        for key, value in values.items()
    }
    return {
        "data": config.data.name,
        "model": config.model.name,
        "loss": config.loss.name,
        "options": options_of(config.loss),
        "batch_size": config.training.batch_size,
        "settings": json.dumps(flat, sort_keys=True),
        "seed": config.seed,
    }


def _versions(folder: RunFolder) -> str:
    environment = folder.environment()
    if "versions" not in environment:
        return ""
    versions = {"python": environment["python"], **environment["versions"]}
    return ", ".join(f"{name} {version}" for name, version in sorted(versions.items()) if version)


# ------------------------------------------------------------------ files


def write_rows(path: str | Path, rows: Iterable[ResultRow]) -> None:
    """Write rows as CSV, completely or not at all: one row per run, one column per number.

    Columns are named ``SPLIT/METRIC``, such as ``test/aucoc``. Numbers that a run does not have are
    left empty.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from expertload.lab.results.rows import read_rows, write_rows
    >>> with TemporaryDirectory() as place:
    ...     write_rows(Path(place) / "none.csv", [])
    ...     read_rows(Path(place) / "none.csv")
    []
    """
    lines: list[dict[str, Any]] = []
    open_lines: dict[tuple[Any, ...], dict[str, Any]] = {}
    rows = list(rows)
    columns = dict.fromkeys(FACTS if any(row.changed for row in rows) else ALWAYS)
    for row in rows:
        facts = tuple(getattr(row, name) for name in FACTS)
        column = _column(row)
        # A second value of the same number belongs to another run with the same facts.
        if facts not in open_lines or column in open_lines[facts]:
            open_lines[facts] = dict(zip(FACTS, facts, strict=True))
            lines.append(open_lines[facts])
        open_lines[facts][column] = row.value
        columns[column] = None
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(columns), lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(lines)
    write_whole(Path(path), text.getvalue().encode())


def _column(row: ResultRow) -> str:
    if "/" in row.split:
        raise ValueError(f"The name of a split must not contain a slash. Got {row.split!r}.")
    return f"{row.split}/{row.metric}"


def read_rows(path: str | Path) -> list[ResultRow]:
    """Read a file of `write_rows`: run by run, with numbers in the order of the columns.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from expertload.lab.results.rows import ResultRow, read_rows, write_rows
    >>> row = ResultRow(
    ...     data="digits", model="small-cnn", loss="ce", options="{}", batch_size=64,
    ...     settings="{}", seed=0, split="test", metric="aucoc", value=0.1 + 0.2, versions="")
    >>> with TemporaryDirectory() as place:
    ...     write_rows(Path(place) / "one.csv", [row])
    ...     read_rows(Path(place) / "one.csv") == [row]
    True
    """
    path = Path(path)
    try:
        with path.open(newline="", encoding="utf-8") as stream:
            reader = csv.DictReader(stream, strict=True)
            columns = tuple(reader.fieldnames or ())
            facts = FACTS if FACTS[-1] in columns else ALWAYS
            if columns[: len(facts)] != facts or not all("/" in c for c in columns[len(facts) :]):
                raise ValueError(f"its columns must be {', '.join(facts)}, then SPLIT/METRIC")
            return [row for line in reader for row in _parse(line)]
    except FileNotFoundError:
        raise FileFormatError(f"There are no results at {path}.") from None
    except (ValueError, TypeError, csv.Error) as error:
        raise FileFormatError(f"{path} is not a file of results: {error}.") from error


def _parse(line: dict[str, str]) -> Iterator[ResultRow]:
    if None in line or None in line.values():
        raise ValueError("a row must be as long as its header")
    facts: dict[str, Any] = {name: line.pop(name) for name in FACTS if name in line}
    for name in ("batch_size", "seed", "n_runs"):
        facts[name] = int(facts[name])
    for column, text in line.items():
        if text:
            split, metric = column.split("/", 1)
            yield ResultRow(**facts, split=split, metric=metric, value=float(text))
