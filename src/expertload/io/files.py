"""Finds the files that a path refers to, and reads their bytes.

The name determines the format, never the content. Files that are damaged or not in UTF-8 raise an
error that says so.
"""

from __future__ import annotations

import atexit
import codecs
import gzip
import os
import re
import shutil
import stat
import sys
import tempfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from expertload._names import MODELS, FileOptions
from expertload.exceptions import DataNotFoundError, ExpertLoadError, FileFormatError

KINDS = {
    **{".csv": "csv", ".txt": "csv", ".tsv": "tsv", ".parquet": "parquet", ".pq": "parquet"},
    **{".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json", ".npz": "npz"},
    **{".duckdb": "database", ".ddb": "database", ".db": "database"},
}
TEXT = ("csv", "tsv", "jsonl", "json")
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}
WELCOME = (
    "Hint: predictions are read from .csv, .tsv, .parquet, .jsonl, .json and .npz files, and from "
    "DuckDB databases: save spreadsheets and other formats as CSV (UTF-8) or Parquet. If the name "
    "has another ending, name the format (--format)."
)
# The errors that numpy and zipfile raise for damaged archives, and some of DuckDB's.
DAMAGE = (
    *(ValueError, OSError, EOFError, KeyError, SyntaxError, TypeError, MemoryError, RuntimeError),
    *(zipfile.BadZipFile, zlib.error),
)
PIECE = 1 << 18  # small enough to stay in the processor's cache while it is checked


# ------------------------------------------------------------------ which files, of which format


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
        """Yield the decompressed content in pieces; raise an error if the file is damaged."""
        try:
            with self.paths[0].open("rb") as raw, _unpacked(raw, self.compression) as stream:
                while piece := stream.read(PIECE):
                    yield piece
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise self._damaged(error) from error
        except OSError as error:
            if self.compression == "zstd" and error.errno is None:  # Arrow's error of damaged data
                raise self._damaged(error) from error
            raise FileFormatError(
                f"{self.where} could not be read: {error.strerror or error}."
            ) from error

    def _damaged(self, error: Exception) -> FileFormatError:
        why = str(error).splitlines()[0].rstrip(".") if str(error) else "it ends too early"
        return FileFormatError(
            f"{self.where} is damaged: it could not be unpacked as {self.compression} ({why}). "
            "Hint: get the file again."
        )

    def text_pieces(self) -> Iterator[bytes]:
        """Yield the content without a byte order mark; refuse what is not in UTF-8."""
        decoder, mark = codecs.getincrementaldecoder("utf-8")(), codecs.BOM_UTF8
        try:
            for piece in self.pieces():
                content, mark = piece.removeprefix(mark), b""
                if not content.isascii() or decoder.getstate()[0]:
                    decoder.decode(content)
                if b"\0" in content:
                    raise UnicodeError
                if content:
                    yield content
            decoder.decode(b"", final=True)
        except UnicodeError as error:
            raise FileFormatError(
                f"{self.where} must be a text file in UTF-8. Hint: save it as UTF-8, or pass its "
                "encoding (--encoding; cp1252, latin-1 and utf-16 are usual). If it is compressed, "
                "its name must end in .gz or .zst."
            ) from error


def resolve_file(path: str | os.PathLike[str], options: FileOptions) -> OpenedFile:
    """Find a file and its format; standard input and other encodings are copied as UTF-8."""
    if os.fspath(path) == "-":
        return _in_utf8(_from_standard_input(options.format or "csv"), options)
    _refuse_address(os.fspath(path))
    file = Path(path)
    where = file.name or str(file)
    if file.is_dir():
        return _folder(file, where, options)
    _check_readable(file, where)
    kind, compression = _kind_of(file.name, options.format)
    opened = OpenedFile(paths=(file.absolute(),), where=where, kind=kind, compression=compression)
    return _in_utf8(opened, options)


def resolve_files(paths: list[str], options: FileOptions) -> list[OpenedFile]:
    """Find all files that match the paths and patterns, in order; all must have one format."""
    files = [resolve_file(one, options) for path in paths for one in _matching(path)]
    kinds = sorted({file.kind for file in files})
    if len(kinds) > 1:
        raise FileFormatError(
            f"Files that are read together must be of one kind. Got {', '.join(kinds)}."
        )
    return files


def without_ending(name: str) -> str:
    """Return a file's name without the endings for its compression and format.

    Examples
    --------
    >>> from expertload.io.files import without_ending
    >>> without_ending("run.v1.csv.gz"), without_ending("confidence=0.99")
    ('run.v1', 'confidence=0.99')
    """
    stem = Path(name)
    for endings in (COMPRESSIONS, KINDS):
        stem = stem.with_suffix("") if stem.suffix.lower() in endings else stem
    return str(stem)


def _kind_of(name: str, asked: str | None) -> tuple[str, str]:
    """Return the format and compression of a file, from its name or the user's option."""
    suffixes = [suffix.lower() for suffix in Path(name).suffixes]
    compression = COMPRESSIONS.get(suffixes[-1]) if suffixes else None
    if compression is not None:
        suffixes.pop()
    kind = asked or KINDS.get(suffixes[-1] if suffixes else "")
    if kind is None:
        raise FileFormatError(f"The format of {name} is not known from its name. {WELCOME}")
    if compression is not None and kind not in TEXT:
        raise FileFormatError(
            f"{name} is a compressed {kind} file, which cannot be read in parts. Hint: decompress "
            "it."
        )
    return kind, compression or "none"


def _refuse_address(path: str) -> None:
    """Refuse web addresses: nothing is ever downloaded."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", path):
        raise FileFormatError(
            f"{path} is a web address. Only files on this machine can be read. Hint: download it "
            "first."
        )


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
    files = [
        file.absolute()
        for file in sorted(folder.rglob("*"))
        if file.suffix.lower() in (".parquet", ".pq") and not file.name.startswith((".", "_"))
    ]
    if not files or options.format not in (None, "parquet"):
        raise FileFormatError(f"{folder} is a folder without Parquet files (.parquet).")
    _check_one_model(folder, files)
    for file in files:
        _check_readable(file, str(file.relative_to(folder.absolute())))
    return OpenedFile(paths=tuple(files), where=where, kind="parquet")


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


def _matching(path: str) -> list[str]:
    """Return the files that match a pattern; the name of an existing file matches itself."""
    _refuse_address(path)
    if Path(path).exists() or not re.search(r"[*?\[]", path):
        return [path]
    import glob

    paths = sorted(glob.glob(path, recursive=True))  # noqa: PTH207 - takes absolute patterns too
    if not paths:
        raise DataNotFoundError(f"No file matches {path}. Hint: check the path.")
    return paths


# ------------------------------------------------------------------ bytes and copies


def _unpacked(raw: Any, compression: str) -> Any:
    if compression == "gzip":
        return gzip.GzipFile(fileobj=raw)
    if compression == "zstd":
        return pa.CompressedInputStream(raw, "zstd")
    return raw


def _from_standard_input(kind: str) -> OpenedFile:
    stream = getattr(sys.stdin, "buffer", sys.stdin)
    if stream is None or sys.stdin.isatty():
        raise FileFormatError("Nothing was piped into standard input. Hint: cat FILE | expertload")
    with _own_copy("standard input", kind) as target, target.open("wb") as copy:
        shutil.copyfileobj(stream, copy, 1 << 20)
    if target.stat().st_size == 0:
        raise FileFormatError("Standard input is empty.")
    return OpenedFile(paths=(target,), where="standard input", kind=kind)


def _in_utf8(file: OpenedFile, options: FileOptions) -> OpenedFile:
    """Return a UTF-8 copy of text in another encoding."""
    if file.kind not in TEXT or options.is_utf8:
        return file
    encoding = str(options.encoding)
    try:
        with _own_copy(file.where, file.kind) as target, target.open("wb") as copy:
            for text in codecs.iterdecode(file.pieces(), encoding):
                copy.write(text.encode())
    except UnicodeError as error:
        raise FileFormatError(
            f"{file.where} is not in the encoding {encoding}: {error}. Hint: pass another one "
            "(--encoding)."
        ) from error
    return replace(file, paths=(target,), compression="none")


@contextmanager
def _own_copy(where: str, kind: str) -> Iterator[Path]:
    """Yield the path of a copy to write, which is removed when the process ends."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="expertload-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        yield folder / f"copy.{kind}"
    except OSError as error:
        raise FileFormatError(
            f"{where} could not be copied to the folder for temporary files: "
            f"{error.strerror or error}. Hint: set the environment variable TMPDIR to another "
            "folder."
        ) from error


# ------------------------------------------------------------------ errors


@contextmanager
def explained_errors(where: str, what: str, paths: Sequence[Path]) -> Iterator[None]:
    """Turn an error of DuckDB or numpy into a sentence about the file, without its folder."""
    try:
        yield
    except ExpertLoadError:
        raise
    except (duckdb.Error, *DAMAGE) as error:
        why = first_sentence(error)
        for path in paths:
            for spelling in (literally(path), str(path)):
                why = why.replace(spelling, path.name if len(paths) > 1 else where)
        raise FileFormatError(f"{where} could not be {what}: {why}") from error


def first_sentence(error: BaseException) -> str:
    """Return the first line of a message, without the error type and further lines."""
    text = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    text = re.sub(r"^[A-Za-z ]*(Error|Exception): ", "", text.strip())
    return text if text.endswith((".", "!", "?")) else f"{text}."


def literally(path: Path) -> str:
    """Escape a path, because DuckDB reads stars and brackets as patterns."""
    return re.sub(r"([*?\[])", r"[\1]", str(path))


def check_distinct_names(
    names: Iterable[str], where: str, hint: str = "give every column a distinct name"
) -> None:
    """Refuse two columns with the same name, which DuckDB compares without regard to case."""
    counts = Counter(name.lower() for name in names)
    repeated = next((name for name, n in counts.items() if n > 1), None)
    if repeated is not None:
        raise FileFormatError(
            f"{where} has more than one column '{repeated}', in upper or lower case. Hint: {hint}."
        )
