"""The folder of one run; its files are written completely or not at all.

====================  ==========================================================================
``config.json``       all settings that determine the result; other configurations are refused
``environment.json``  machine, versions and data, for the record; those of earlier epochs too
``metrics.jsonl``     one line per epoch
``last.safetensors``  everything needed to resume, of the last epoch; removed at the end
``best.safetensors``  the weights of the epoch selected on validation data; where weights are
                      averaged, ``best-averaged.safetensors`` has those, and ``results.json`` says
                      which are better
``validation.npz``    logits and labels of the selected weights on the validation split
``test.npz``          the same on the test split
``results.json``      the numbers; if it exists, the run is finished
``ensemble.json``     only for an ensemble: the runs that it combines
====================  ==========================================================================
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from pydantic import ValidationError

from expertload._check import require_extra
from expertload._files import explained_write_errors, write_atomically
from expertload._typing import FloatArray, IntArray
from expertload.exceptions import ExpertLoadError, FileFormatError, FileWriteError, RunInUseError
from expertload.lab.runs.recipe import RunConfig

Labelled = tuple[FloatArray, IntArray]  # logits (n, classes), and labels
Weights = Literal["raw", "averaged"]
KINDS: tuple[Weights, ...] = get_args(Weights)
ENSEMBLE_FILE = "ensemble.json"
PATIENCE = 5.0  # seconds that a killed process may take to release its folder


class Member(NamedTuple):
    """A run of an ensemble: its folder, its identity, and the views of each image it is given."""

    path: Path
    config: RunConfig
    views: str


def write_whole(path: Path, content: bytes) -> None:
    """Write a file atomically; raise an error with the reason if it cannot be written."""
    try:
        write_atomically(path, content)
    except OSError as error:
        raise FileWriteError(
            f"Could not write {path}: {error.strerror or error}. The previous file is unchanged. "
            "Hint: free some space or choose another folder, then run the same command again; it "
            "continues where it stopped."
        ) from error


def make_folder(path: Path) -> None:
    """Create a folder and its parents; raise an error with the reason if this fails."""
    with explained_write_errors(path):
        path.mkdir(parents=True, exist_ok=True)


def write_table(path: Path, columns: Iterable[str], lines: Iterable[dict[str, Any]]) -> None:
    """Write a CSV file atomically: with empty cells where a line lacks a column, and no others."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(columns), lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(lines)
    write_whole(path, text.getvalue().encode())


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file for people to read, atomically."""
    write_whole(path, (json.dumps(value, indent=2, sort_keys=True) + "\n").encode())


class RunFolder:
    """Reads and writes the files of one run."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @property
    def last(self) -> Path:
        """The checkpoint to resume from."""
        return self.path / "last.safetensors"

    @property
    def best(self) -> Path:
        """The selected weights of a finished run."""
        return self.best_of(self.selected)

    @property
    def selected(self) -> Weights:
        """The kind of the selected weights of a finished run."""
        kind: Weights = self.read_json("results.json").get("weights", "raw")
        return kind

    def best_of(self, kind: Weights) -> Path:
        """Return the file with the raw or averaged weights at their best epoch."""
        return self.path / ("best.safetensors" if kind == "raw" else "best-averaged.safetensors")

    @property
    def is_done(self) -> bool:
        """Whether the run has results."""
        return (self.path / "results.json").exists()

    @property
    def finished(self) -> datetime:
        """When the run was finished."""
        return datetime.fromtimestamp((self.path / "results.json").stat().st_mtime)

    @property
    def is_ensemble(self) -> bool:
        """Whether it is an ensemble of several runs."""
        return (self.path / ENSEMBLE_FILE).exists()

    def members(self) -> list[Member]:
        """Return the runs of an ensemble; empty for a single run."""
        if not self.is_ensemble:
            return []
        with reading(self.path / ENSEMBLE_FILE):
            return [
                Member(
                    (self.path / str(member["folder"])).resolve(),
                    RunConfig.model_validate(member["config"]),
                    member["views"],
                )
                for member in self.read_json(ENSEMBLE_FILE)["members"]
            ]

    def write_members(self, members: Iterable[Member]) -> None:
        """Write the runs of an ensemble, by relative paths: all folders can be moved together."""
        here = self.path.resolve()
        entries = [
            {
                "folder": os.path.relpath(path.resolve(), here),
                "config": config.model_dump(mode="json"),
                "views": views,
            }
            for path, config, views in members
        ]
        self.write_json(ENSEMBLE_FILE, {"members": entries})

    def create(self, config: RunConfig) -> None:
        """Create the folder, or check that it belongs to this configuration."""
        make_folder(self.path)
        wanted = config.model_dump(mode="json")
        if not (self.path / "config.json").exists():
            self.write_json("config.json", wanted)
            return
        there = self.config().model_dump(mode="json")
        if there != wanted:
            raise FileFormatError(
                f"{self.path} holds a run with another configuration ({_difference(there, wanted)})"
                ". Hint: choose another folder, or remove this one if it is not needed."
            )

    def environment(self) -> dict[str, Any]:
        """Return the recorded environment of the training; empty if there is no record."""
        if not (self.path / "environment.json").exists():
            return {}
        return self.read_json("environment.json")

    def record_environment(self, environment: dict[str, Any]) -> None:
        """Record the environment from now on; the record of earlier epochs is kept."""
        before = self.environment() if self.last.exists() else {}
        earlier = before.pop("earlier", [])
        if before and before != environment:
            earlier.append(before)
        both = {**environment, "earlier": earlier} if earlier else environment
        self.write_json("environment.json", both)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Lock the folder while this process trains."""
        file_lock = require_extra("filelock", "lab", "Training")
        lock = file_lock.FileLock(self.path / ".lock")
        try:
            lock.acquire(timeout=PATIENCE)
        except file_lock.Timeout:
            raise RunInUseError(
                f"Another process is training in {self.path}. Hint: wait for it, or stop it and "
                "run the same command again."
            ) from None
        except OSError as error:
            raise FileWriteError(
                f"Could not write to {self.path}: {error.strerror or error}."
            ) from error
        try:
            yield
        finally:
            lock.release()

    def config(self) -> RunConfig:
        """The configuration of the run."""
        try:
            return RunConfig.model_validate(self.read_json("config.json"))
        except ValidationError as error:
            raise FileFormatError(
                f"{self.path / 'config.json'} is not the configuration of a run: "
                f"{error.errors()[0]['msg']}."
            ) from error

    def read_json(self, name: str) -> dict[str, Any]:
        """Read one of the JSON files."""
        return read_json_object(self.path / name)

    def validation_score(self, metric: str) -> float:
        """Return one number of the selected weights on the validation split."""
        with reading(self.path / "results.json"):
            return float(self.read_json("results.json")["validation"][metric])

    def write_json(self, name: str, value: Any) -> None:
        """Write one of the JSON files."""
        write_json(self.path / name, value)

    def write_metrics(self, history: list[dict[str, Any]]) -> None:
        """Write the history of epochs, one line each."""
        text = "".join(json.dumps(record) + "\n" for record in history)
        write_whole(self.path / "metrics.jsonl", text.encode())

    def write_logits(self, split: str, logits: FloatArray, labels: IntArray) -> None:
        """Write the logits of a split."""
        buffer = io.BytesIO()
        np.savez_compressed(buffer, logits=logits, labels=labels)
        write_whole(self.path / f"{split}.npz", buffer.getvalue())

    def read_logits(self, split: str) -> Labelled:
        """Read the logits and labels of a split."""
        path = self.path / f"{split}.npz"
        # Opened here, because numpy leaves a damaged file open.
        with reading(path), path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            logits, labels = archive["logits"], archive["labels"]
            kinds = logits.ndim, labels.ndim, logits.dtype.kind, labels.dtype.kind
            if kinds != (2, 1, "f", "i") or not len(logits) == len(labels) > 0:
                raise ValueError(f"logits of shape {logits.shape}, labels of {labels.shape}")
            if labels.min() < 0 or labels.max() >= logits.shape[1]:
                raise ValueError(f"a label is not one of {logits.shape[1]} classes")
            return logits, labels


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Report any failure inside as a missing or damaged file: readers raise nearly anything."""
    try:
        yield
    except ExpertLoadError:
        raise
    except FileNotFoundError:
        raise FileFormatError(
            f"{path.parent} has no {path.name}. Hint: name the folder of a finished run."
        ) from None
    except Exception as error:
        raise FileFormatError(
            f"{path} is damaged ({type(error).__name__}: {error}). Hint: remove it and run the "
            "command that made it again."
        ) from error


def read_json_object(path: Path) -> dict[str, Any]:
    """Read a JSON file that must hold an object; refuse a damaged one."""
    with reading(path):
        content = json.loads(path.read_text())
        if not isinstance(content, dict):
            raise TypeError(f"it must hold a JSON object, not {content!r:.40}")
        return content


def _difference(there: dict[str, Any], wanted: dict[str, Any]) -> str:
    """Return the first setting that differs, as `training.epochs: 3 there, 5 requested`."""
    for key in wanted:
        a, b = there.get(key), wanted[key]
        if isinstance(a, dict) and isinstance(b, dict) and a != b:
            return f"{key}.{_difference(a, b)}" if set(a) == set(b) else f"{key}: {a}, not {b}"
        if a != b:
            return f"{key}: {a} there, {b} requested"
    return "it has more settings than requested"
