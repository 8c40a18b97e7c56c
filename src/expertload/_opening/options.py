"""Options for opening a file, in addition to its name."""

from __future__ import annotations

import codecs
from dataclasses import dataclass

from expertload._validation import check_option, parameter_error

__all__ = ["FORMATS", "FileOptions"]

FORMATS = ("csv", "tsv", "parquet", "jsonl", "json", "npz")


@dataclass(frozen=True, kw_only=True)
class FileOptions:
    """How to open a file; by default, its name determines everything.

    Attributes
    ----------
    query : str, optional
        One SQL query. The file is the table ``file``; a DuckDB database has its own tables. The
        query can read nothing else and write nothing.
    format : {"csv", "tsv", "parquet", "jsonl", "json", "npz"}, optional
        The format, if the name of the file does not determine it.
    delimiter : str, optional
        The character between the values of a CSV. By default a tab in a .tsv; else the first of
        comma, semicolon and tab that the header has outside quotes.
    decimal : {".", ","}, default="."
        The decimal mark of numbers in a CSV.
    encoding : str, optional
        The encoding of a CSV or JSON file that is not UTF-8, ``"latin-1"`` for example.

    Examples
    --------
    >>> from expertload.predictions import FileOptions
    >>> FileOptions(decimal=",", encoding="latin-1").decimal
    ','
    """

    query: str | None = None
    format: str | None = None
    delimiter: str | None = None
    decimal: str = "."
    encoding: str | None = None

    def __post_init__(self) -> None:
        if self.format is not None:
            check_option(self.format, FORMATS, "format")
        check_option(self.decimal, (".", ","), "decimal")
        _check_delimiter(self.delimiter)
        if self.encoding is not None:
            _check_encoding(self.encoding)

    @property
    def is_utf8(self) -> bool:
        """Whether the file can be read without converting its encoding."""
        return self.encoding is None or codecs.lookup(self.encoding).name in ("utf-8", "ascii")


def _check_delimiter(delimiter: str | None) -> None:
    if delimiter is None:
        return
    wanted = "must be one character that is not a quote, a letter, a digit or a line end"
    if (
        len(delimiter) != 1
        or not delimiter.isascii()
        or delimiter.isalnum()
        or delimiter in '"\r\n'
    ):
        raise parameter_error("delimiter", wanted, repr(delimiter), "pass ';', for instance")


def _check_encoding(encoding: str) -> None:
    try:
        text = codecs.lookup(encoding)._is_text_encoding
    except LookupError:
        text = False
    if not text:
        hint = "latin-1, cp1252 and utf-16 are usual ones"
        raise parameter_error(
            "encoding", "must name an encoding that Python knows", repr(encoding), hint
        )
