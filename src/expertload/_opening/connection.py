"""DuckDB connections that download no extensions and read no files except the given ones."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from expertload._validation import require_extra
from expertload.exceptions import FileFormatError

__all__ = [
    "check_query",
    "connect",
    "connect_to",
    "connect_to_shared",
    "first_sentence",
    "literal_paths",
    "lock",
    "quoted",
    "saying_errors",
    "text_of",
]

# Extensions that are not built in are neither downloaded nor loaded. Content of files is not kept:
# a file that was replaced is read again, whatever its size and time.
SETTINGS = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "enable_external_file_cache": "false",
}


def connect(options: Mapping[str, str] | None = None) -> Any:
    """Return a connection to a database in memory."""
    return _quiet(_duckdb().connect(config={**SETTINGS, **(options or {})}))


_shared: dict[int, Any] = {}  # by process, because a fork does not copy the database's threads


def connect_to_shared() -> Any:
    """Return a connection to an empty database that this process keeps in memory.

    Creating a database takes longer than reading a small file. Use `connect` for a database that
    will be locked, hold a view or have other settings.
    """
    process = os.getpid()
    if process not in _shared or _is_broken(_shared[process]):
        _shared[process] = connect()
    return _shared[process].cursor()


def _is_broken(connection: Any) -> bool:
    """Whether an internal error of DuckDB has closed the database."""
    try:
        connection.cursor().execute("SELECT 1")
    except _duckdb().Error:
        return True
    return False


def connect_to(database: Path) -> Any:
    """Return a read-only connection to a user's database, without access to other files."""
    config = {**SETTINGS, "enable_external_access": "false", "lock_configuration": "true"}
    return _duckdb().connect(database, read_only=True, config=config)


def lock(connection: Any, paths: Sequence[Path]) -> None:
    """Restrict a connection to these files, so that no query can read any other."""
    allowed = ", ".join(text_of(str(path)) for path in paths)
    connection.execute(f"SET allowed_paths = [{allowed}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def check_query(query: str, where: str) -> str:
    """Return the query if it is a single SELECT; refuse it otherwise."""
    duckdb = _duckdb()
    try:
        statements = duckdb.extract_statements(query)
    except duckdb.Error as error:
        raise FileFormatError(
            f"The query of {where} could not be read: {first_sentence(error)}"
        ) from error
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise FileFormatError(
            f"The query of {where} must be one SELECT. Got {len(statements)} statement(s): "
            f"{', '.join(str(s.type).rpartition('.')[2] for s in statements) or 'none'}."
        )
    return str(statements[0].query).strip().rstrip(";")


def quoted(name: str) -> str:
    """Return a column name, quoted for SQL."""
    return '"' + name.replace('"', '""') + '"'


def text_of(value: str) -> str:
    """Return text as an SQL string literal."""
    return "'" + value.replace("'", "''") + "'"


@contextmanager
def saying_errors(where: str, what: str, paths: Sequence[Path]) -> Iterator[None]:
    """Turn a DuckDB error into a sentence about the file, without the path of its folder."""
    duckdb = _duckdb()
    try:
        yield
    except (duckdb.Error, UnicodeError, RuntimeError, OSError, MemoryError) as error:
        why = first_sentence(error)
        for path in paths:
            for spelling in (_literally(path), str(path)):
                why = why.replace(spelling, path.name if len(paths) > 1 else where)
        raise FileFormatError(f"{where} could not be {what}: {why}") from error


def literal_paths(paths: Sequence[Path]) -> str:
    """Return an SQL list of paths, each of which matches exactly one file."""
    return "[" + ", ".join(text_of(_literally(path)) for path in paths) + "]"


def first_sentence(error: BaseException) -> str:
    """Return the first line of a DuckDB message, without the error type and further lines."""
    text = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    text = re.sub(r"^[A-Za-z ]*(Error|Exception): ", "", text.strip())
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _literally(path: Path) -> str:
    """Escape a path, because DuckDB reads stars and brackets as patterns."""
    return re.sub(r"([*?\[])", r"[\1]", str(path))


def _duckdb() -> Any:
    return require_extra("duckdb", "frames", "Reading files of predictions")


def _quiet(connection: Any) -> Any:
    """Turn off DuckDB's progress bar, which is printed to standard output.

    In a notebook without ipywidgets it is already off, and DuckDB refuses to turn it off again.
    """
    [(is_on,)] = connection.execute("SELECT current_setting('enable_progress_bar')").fetchall()
    if is_on:
        connection.execute("SET enable_progress_bar = false")
    return connection
