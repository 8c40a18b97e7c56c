"""Finds the files that a path refers to, and their format: by name, never by content."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from expertload._names import MODELS
from expertload._opening.contents import COMPRESSIONS, pieces_of, transcoded
from expertload._opening.options import FileOptions
from expertload.exceptions import DataNotFoundError, FileFormatError

__all__ = ["OpenedFile", "resolve_file", "resolve_files", "without_ending"]

STANDARD_INPUT = "-"
KINDS = {
    ".csv": "csv",
    ".txt": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".npz": "npz",
    ".duckdb": "database",
    ".ddb": "database",
    ".db": "database",
}
TEXT = ("csv", "tsv", "jsonl", "json")
SPREADSHEETS = (".xlsx", ".xls", ".xlsm", ".ods")
PACKED = (".bz2", ".xz", ".zip", ".lz4", ".br", ".7z", ".tar", ".tgz", ".rar")
TABLES = (".feather", ".arrow", ".ipc", ".orc", ".avro", ".h5", ".hdf5", ".rds", ".rdata", ".sav")
WELCOME = (
    "Hint: predictions are read from .csv, .tsv, .parquet, .jsonl, .json and .npz files, and from "
    "DuckDB databases; if the name has another ending, name the format (--format)."
)


@dataclass(frozen=True, kw_only=True)
class OpenedFile:
    """A file, or a folder of Parquet files, that exists and can be read.

    Attributes
    ----------
    paths : tuple of Path
        The paths to read, in order.
    where : str
        The name to use in messages.
    kind : str
        The format: csv, tsv, parquet, jsonl, json, npz or database.
    compression : str
        The compression: gzip, zstd or none.
    """

    paths: tuple[Path, ...]
    where: str
    kind: str
    compression: str = "none"

    def pieces(self) -> Iterator[bytes]:
        """Yield the decompressed content in pieces."""
        return pieces_of(self.paths[0], self.compression, self.where)


def resolve_file(path: str | os.PathLike[str], options: FileOptions) -> OpenedFile:
    """Find a file and its format; standard input and other encodings are copied as UTF-8."""
    if os.fspath(path) == STANDARD_INPUT:
        return _from_standard_input(options)
    refuse_addresses(os.fspath(path))
    file = Path(path)
    where = file.name or str(file)
    if file.is_dir():
        return _folder(file, where, options)
    _check_readable(file, where)
    kind, compression = kind_of(file.name, options.format)
    found = OpenedFile(paths=(file.absolute(),), where=where, kind=kind, compression=compression)
    return found if kind not in TEXT or options.is_utf8 else _in_utf8(found, options)


def resolve_files(paths: list[str], options: FileOptions) -> list[OpenedFile]:
    """Find all files that match the paths and patterns, in order; all must have one format."""
    found = [resolve_file(one, options) for path in paths for one in _matching(path)]
    kinds = sorted({file.kind for file in found})
    if len(kinds) > 1:
        raise FileFormatError(
            f"Files that are read together must be of one kind. Got {', '.join(kinds)}."
        )
    return found


def kind_of(name: str, asked: str | None) -> tuple[str, str]:
    """Return the format and compression of a file, from its name or the user's option."""
    suffixes = [suffix.lower() for suffix in Path(name).suffixes]
    compression = COMPRESSIONS.get(suffixes[-1]) if suffixes else None
    if compression is not None:
        suffixes.pop()
    end = suffixes[-1] if suffixes else ""
    kind = asked or KINDS.get(end)
    if kind is None or end in PACKED:
        _refuse_name(name, end)
    if compression is not None and kind in ("npz", "parquet", "database"):
        raise FileFormatError(
            f"{name} is a compressed {kind} file, which cannot be read in parts. Hint: decompress "
            "it."
        )
    return kind, compression or "none"


def without_ending(name: str) -> str:
    """Return a file's name without the endings for its compression and format.

    Examples
    --------
    >>> from expertload._opening.files import without_ending
    >>> without_ending("run.v1.csv.gz"), without_ending("confidence=0.99")
    ('run.v1', 'confidence=0.99')
    """
    stem = Path(name)
    for endings in (COMPRESSIONS, KINDS):
        stem = stem.with_suffix("") if stem.suffix.lower() in endings else stem
    return str(stem)


def refuse_addresses(path: str) -> None:
    """Refuse web addresses: nothing is ever downloaded."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", path):
        raise FileFormatError(
            f"{path} is a web address. Only files on this machine can be read. Hint: download it "
            "first."
        )


def _refuse_name(name: str, end: str) -> NoReturn:
    if end in SPREADSHEETS:
        raise FileFormatError(
            f"{name} is a spreadsheet. Spreadsheets cannot be read: cells may differ from what was "
            "typed. Hint: save the sheet as CSV (UTF-8) and pass that file."
        )
    if end in PACKED:
        raise FileFormatError(
            f"{name} has a compression that cannot be read. Hint: decompress it, or compress it as "
            ".gz or .zst."
        )
    if end in TABLES:
        raise FileFormatError(
            f"The format of {name} cannot be read. Hint: save it as Parquet or CSV."
        )
    raise FileFormatError(f"The format of {name} is not known from its name. {WELCOME}")


def _check_readable(file: Path, where: str) -> None:
    """Refuse a path that does not exist, is empty, or is a pipe or device."""
    try:
        status = file.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise DataNotFoundError(f"There is no file {file}.") from None
    except OSError as error:
        raise FileFormatError(f"{where} could not be read: {error.strerror or error}.") from error
    if not stat.S_ISREG(status.st_mode):
        raise FileFormatError(
            f"{where} must be a regular file. Got a pipe or a device, which cannot be read twice. "
            "Hint: pass - to read standard input."
        )
    if status.st_size == 0:
        raise FileFormatError(f"{where} is empty.")


def _folder(folder: Path, where: str, options: FileOptions) -> OpenedFile:
    """Return the Parquet files below a folder, in the order of their names."""
    found = [
        file.absolute()
        for file in sorted(folder.rglob("*"))
        if file.suffix.lower() in (".parquet", ".pq") and not file.name.startswith((".", "_"))
    ]
    if not found or options.format not in (None, "parquet"):
        raise FileFormatError(f"{folder} is a folder without Parquet files (.parquet).")
    _check_one_model(folder, found)
    for file in found:
        _check_readable(file, str(file.relative_to(folder.absolute())))
    return OpenedFile(paths=tuple(found), where=where, kind="parquet")


def _check_one_model(folder: Path, files: list[Path]) -> None:
    """Refuse folders such as model=a and model=b: every case would count once for each model."""
    below = {part for file in files for part in file.relative_to(folder.absolute()).parts[:-1]}
    models = sorted(part for part in below if part.lower().partition("=")[0] in MODELS)
    if len(models) > 1:
        raise FileFormatError(
            f"{folder} holds the rows of {len(models)} models, in {models[0]}, {models[1]}"
            f"{', ...' if len(models) > 2 else ''}: read as one model, every case would count "
            f"{len(models)} times. Hint: pass one of these folders, or several of them to compare."
        )


def _matching(path: str) -> Iterator[str]:
    """Return the files that match a pattern; the name of an existing file matches itself."""
    refuse_addresses(path)
    file = Path(path)
    if file.exists() or not re.search(r"[*?\[]", path):
        yield path
        return
    import glob

    found = sorted(glob.glob(path, recursive=True))  # noqa: PTH207 - takes absolute patterns too
    if not found:
        raise DataNotFoundError(f"No file matches {path}. Hint: check the path.")
    yield from found


# --------------------------------------------------------------------------------- copies


def _from_standard_input(options: FileOptions) -> OpenedFile:
    stream = getattr(sys.stdin, "buffer", sys.stdin)
    if stream is None or sys.stdin.isatty():
        raise FileFormatError("Nothing was piped into standard input. Hint: cat FILE | expertload")
    kind = options.format or "csv"
    with _saying_copy_errors("standard input"):
        target = _own_folder() / f"standard-input.{kind}"
        with target.open("wb") as copy:
            shutil.copyfileobj(stream, copy, 1 << 20)
    if target.stat().st_size == 0:
        raise FileFormatError("Standard input is empty.")
    found = OpenedFile(paths=(target,), where="standard input", kind=kind)
    return found if kind not in TEXT or options.is_utf8 else _in_utf8(found, options)


def _in_utf8(file: OpenedFile, options: FileOptions) -> OpenedFile:
    """Return a UTF-8 copy, which every reader understands."""
    with _saying_copy_errors(file.where):
        target = _own_folder() / f"utf-8.{file.kind}"
        with target.open("wb") as copy:
            for piece in transcoded(file.pieces(), str(options.encoding), file.where):
                copy.write(piece)
    return replace(file, paths=(target,), compression="none")


@contextmanager
def _saying_copy_errors(where: str) -> Iterator[None]:
    """Turn a system error, such as a full disk, into a sentence."""
    try:
        yield
    except OSError as error:
        raise FileFormatError(
            f"{where} could not be copied to the folder for temporary files: "
            f"{error.strerror or error}. Hint: set the environment variable TMPDIR to another "
            "folder."
        ) from error


def _own_folder() -> Path:
    """Return a temporary folder for copies, which is removed when the process ends."""
    folder = Path(tempfile.mkdtemp(prefix="expertload-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
