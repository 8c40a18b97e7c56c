"""Results as rows: one number each, with its complete origin; and the choice of options by them.

Tables are made from rows, and rows of several machines can simply be combined. In CSV, each row is
a run and each column a number, so anyone can check a table in a spreadsheet.

The options of a loss are those with the best mean on validation data, for sweeps, tables,
comparisons and ensembles. The test split is not used for the choice.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple, TypeVar

from expertload.exceptions import FileFormatError, ParameterError
from expertload.lab.results.measures import find_measure
from expertload.lab.results.outliers import OUTLIERS_FILE, describe_settings, read_outliers
from expertload.lab.runs.finished import FinishedRun
from expertload.lab.runs.folder import KINDS, RunFolder, reading, write_table
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

    @property
    def candidate(self) -> tuple[Experiment, str, str]:
        """The experiment, the loss and its options: what all seeds share."""
        return self.experiment, self.loss, self.options


# The facts that all numbers of a run share. Files have the last one only if something was changed.
FACTS = tuple(
    field.name for field in fields(ResultRow) if field.name not in ("split", "metric", "value")
)
ALWAYS = FACTS[:-1]


def collect(folder: str | Path, *, as_published: bool = False) -> list[ResultRow]:
    """Read the results of all finished runs, at any depth in a folder.

    Parameters
    ----------
    folder : path
        The folder of one run, or of many.
    as_published : bool, default=False
        Whether the numbers of the test split are computed as the authors' code does; see
        `expertload.lab.results.evaluate.evaluate_as_published`.

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
    return [row for run in finished_runs(folder) for row in rows_of(run, as_published=as_published)]


def finished_runs(folder: str | Path) -> list[FinishedRun]:
    """Return the finished runs, at any depth in a folder, sorted by name."""
    folder = Path(folder)
    if not folder.is_dir():
        raise FileFormatError(f"There is no folder of runs at {folder}.")
    return [FinishedRun(path.parent) for path in sorted(folder.rglob("results.json"))]


def rows_of(run: FinishedRun, *, as_published: bool = False) -> Iterator[ResultRow]:
    """Read the rows of one run."""
    facts = {
        **_shared_facts(run),
        "versions": _versions(run.folder),
        "changed": "; ".join(run.folder.environment().get("set", [])),
    }
    for split, metric, value in _numbers_of(run, as_published):
        yield ResultRow(**facts, split=split, metric=metric, value=value)


def _shared_facts(run: FinishedRun) -> dict[str, Any]:
    """Return the facts of a run; for an ensemble, those of its members, joined if they differ."""
    if not run.members:
        return facts_of(run.config)
    every = [facts_of(member.config) for member in run.members]
    shared: dict[str, Any] = {"n_runs": len(every)}
    for name, first in every[0].items():
        values = dict.fromkeys(facts[name] for facts in every)
        is_json = name in ("options", "settings")
        differ = len(values) > 1 and isinstance(first, str)
        shared[name] = first if not differ else "{}" if is_json else " and ".join(values)
    return shared


def _numbers_of(run: FinishedRun, as_published: bool) -> Iterator[tuple[str, str, float]]:
    results = run.folder.read_json("results.json")
    if as_published:
        from expertload.lab.results.evaluate import evaluate_as_published  # slow to import

        results |= evaluate_as_published(run)
    with reading(run.folder.path / "results.json"):
        for metric in ("seconds", "best_epoch", "clipped"):
            if metric in results:
                yield "training", metric, float(results[metric])
        # Both kinds of weights too, if weights were averaged.
        for prefix, numbers in (("", results), *((f"{k}:", results.get(k, {})) for k in KINDS)):
            for split in SPLITS:
                for metric, value in numbers.get(split, {}).items():
                    yield f"{prefix}{split}", metric, float(value)
    with reading(run.folder.path / OUTLIERS_FILE):
        for evaluation in read_outliers(run.folder):
            settings = describe_settings(evaluation["settings"])
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
    write_table(Path(path), columns, lines)


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


Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")


def best_options(
    scores: Mapping[str, Mapping[int, float]], *, measure: str, seeds: Iterable[int] | None = None
) -> str | None:
    """Return the options with the best mean score; None if none can be compared.

    Parameters
    ----------
    scores : mapping
        Scores by options (as JSON), then by seed. A run that failed has no score.
    measure : str
        The name of the score, such as ``"aucoc"``, which determines the direction.
    seeds : iterable of int, optional
        The seeds to compare over. Options that lack one of them are left out, because a failed run
        has no score. By default, the seeds that at least two of the options have; if there are
        none, each is compared over its own.

    Returns
    -------
    str or None
        If several are equal, the first in alphabetical order.

    Examples
    --------
    >>> from expertload.lab.results.rows import best_options
    >>> scores = {'{"weight": 1}': {0: 0.90, 1: 0.94}, '{"weight": 2}': {0: 0.93, 1: 0.93}}
    >>> best_options(scores, measure="aucoc")
    '{"weight": 2}'
    """
    sign = 1 if find_measure(measure).higher_is_better else -1
    means = _means(scores, None if seeds is None else set(seeds))
    return max(sorted(means), key=lambda options: sign * means[options], default=None)


def _means(scores: Mapping[str, Mapping[int, float]], seeds: set[int] | None) -> dict[str, float]:
    counts = Counter(seed for values in scores.values() for seed in values)
    shared = {seed for seed, count in counts.items() if count > 1} if seeds is None else seeds
    complete = {
        options: fmean(values[seed] for seed in shared)
        for options, values in scores.items()
        if shared and shared <= values.keys()
    }
    if complete or seeds is not None:
        return complete
    return {options: fmean(values.values()) for options, values in scores.items()}


def choose_candidates(rows: Iterable[ResultRow]) -> list[ResultRow]:
    """Keep, for every loss of every experiment, the rows of its best options on validation data.

    The score is the one that selected checkpoints: AUCOC, unless the recipe has another.

    Parameters
    ----------
    rows : iterable of ResultRow
        Options are compared over the seeds that more than one of them has; see `best_options`.

    Examples
    --------
    >>> from expertload.lab.results.rows import choose_candidates
    >>> choose_candidates([])
    []
    """
    rows = list(rows)
    kept = [row for row in rows if row.n_runs > 1]  # the members of an ensemble are already chosen
    single = [row for row in rows if row.n_runs == 1]
    for (_, loss), own in grouped(single, lambda r: (r.experiment, r.loss)).items():
        candidates = grouped(own, lambda r: r.options)
        best = next(iter(candidates))
        if len(candidates) > 1:
            metric = json.loads(own[0].settings).get("training.select_by", "aucoc")
            scores = _validation_scores(loss, candidates, metric)
            best = best_options(scores, measure=metric) or best
        kept += candidates[best]
    return kept


def _validation_scores(
    loss: str, candidates: Mapping[str, list[ResultRow]], metric: str
) -> dict[str, dict[int, float]]:
    """Return scores by options and seed."""
    by_seed = {
        options: {r.seed: r.value for r in rows if (r.split, r.metric) == ("validation", metric)}
        for options, rows in candidates.items()
    }
    for options, values in by_seed.items():
        if not values:
            raise ParameterError(
                f"The options {options} of {loss!r} have no validation "
                f"{find_measure(metric).heading}, so the choice among {len(candidates)} candidates "
                "cannot be made. Hint: collect the rows again from the runs, or keep one candidate."
            )
    return by_seed


def runs_of_loss(folder: str | Path, loss: str) -> list[Path]:
    """Return the folders of a loss's runs, with its best options if several were tried.

    Parameters
    ----------
    folder : path
        A folder of runs of one experiment, made by a sweep. Runs whose settings were changed on the
        command line are left out if there are others.
    loss : str

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from expertload.lab.results.rows import runs_of_loss
    >>> from expertload.lab.runs.recipe import RunConfig
    >>> from expertload.lab.runs.folder import RunFolder
    >>> config = RunConfig.model_validate({
    ...     "data": {"name": "digits"}, "model": {"name": "small-cnn"}, "loss": {"name": "ce"},
    ...     "training": {"epochs": 1, "batch_size": 64, "learning_rate": 0.1}})
    >>> with TemporaryDirectory() as place:
    ...     run = RunFolder(Path(place) / "ce-seed0")
    ...     run.create(config)
    ...     run.write_json("results.json", {"test": {"aucoc": 0.97}})
    ...     [path.name for path in runs_of_loss(place, "ce")]
    ['ce-seed0']
    """
    by_path = rows_of_single_runs(folder)
    own = {path: rows for path, rows in by_path.items() if rows[0].loss == loss}
    if not own:
        losses = sorted({rows[0].loss for rows in by_path.values()})
        raise ParameterError(
            f"There is no finished run of {loss!r} in {folder}. Hint: it has finished runs of "
            f"{', '.join(losses) or 'no loss'}."
        )
    every = [row for rows in own.values() for row in rows]
    # Of several experiments, the one of the unchanged recipe.
    for candidates in (every, [row for row in every if not row.changed]):
        if len({row.experiment for row in candidates}) == 1:
            chosen = choose_candidates(candidates)[0]
            return [
                path for path, (first, *_) in own.items() if first.candidate == chosen.candidate
            ]
    raise ParameterError(
        f"The runs of {loss!r} in {folder} belong to different experiments. Hint: name a folder "
        "with one experiment, or the runs themselves."
    )


def rows_of_single_runs(folder: str | Path) -> dict[Path, list[ResultRow]]:
    """Return the rows of every finished run with numbers, by its folder; without ensembles."""
    runs = [run for run in finished_runs(folder) if not run.folder.is_ensemble]
    return {run.folder.path: rows for run in runs if (rows := list(rows_of(run)))}


def grouped(rows: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Return the rows by key, in the order of first occurrence.

    Examples
    --------
    >>> from expertload.lab.results.rows import grouped
    >>> grouped(["ab", "cd", "ae"], lambda row: row[0])
    {'a': ['ab', 'ae'], 'c': ['cd']}
    """
    groups: dict[Key, list[Item]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups
