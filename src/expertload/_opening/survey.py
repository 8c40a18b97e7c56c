"""Scans the bytes of a CSV: do all programs read it in the same way, and how many rows has it?

The scan accepts only the dialect of RFC 4180. If a row could be read in more than one way (a quote
in the middle of a value, two kinds of line ends, a quote that is never closed), the file is refused
with the line number. The scan also counts rows, which must agree with what the real reader finds.
It takes a fraction of the reading time: in a block without quotes, only line ends are counted.
"""

from __future__ import annotations

import contextlib
import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from expertload._opening.contents import check_text
from expertload._opening.files import OpenedFile
from expertload._opening.options import FileOptions
from expertload._opening.source import check_distinct_names
from expertload._typing import AnyArray
from expertload.exceptions import FileFormatError

__all__ = ["Survey", "survey_csv"]

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
LONGEST_LINE = 2_000_000  # DuckDB's limit
DELIMITERS = (",", ";", "\t")
LINE_FEED, RETURN, QUOTE = 10, 13, 34
LF, CR, CRLF = "a line feed", "a carriage return", "both a carriage return and a line feed"


@dataclass(frozen=True, kw_only=True)
class Survey:
    """The header, delimiter and number of rows of a CSV.

    Attributes
    ----------
    header : tuple of str
        The names in its first line.
    delimiter : str
        The character between values.
    n_rows : int
        The number of rows after the header, without empty lines.
    """

    header: tuple[str, ...]
    delimiter: str
    n_rows: int


def survey_csv(file: OpenedFile, options: FileOptions) -> Survey:
    """Scan a CSV and return its survey; refuse a file that programs read in different ways."""
    text = _first_record(file)
    delimiter = options.delimiter or ("\t" if file.kind == "tsv" else _delimiter_of(text))
    header = _names(text, delimiter, file.where)
    if len(header) == 1 and options.delimiter is None and "|" in header[0]:
        raise FileFormatError(
            f"The header of {file.where} has only one name, '{header[0]}'. Hint: if values are "
            "separated by |, pass --delimiter '|'; if not, pass --delimiter ','."
        )
    walk = _Walk(where=file.where, delimiter=ord(delimiter), n_columns=len(header))
    for block in _blocks(file.pieces(), file.where):
        walk.pass_over(block)
    walk.finish()
    if walk.n_delimiters != walk.n_records * (len(header) - 1):
        raise ragged(file, delimiter, len(header))
    return Survey(header=header, delimiter=delimiter, n_rows=walk.n_records - 1)


# --------------------------------------------------------------------------------- the header


def _first_record(file: OpenedFile) -> str:
    """Return the first record, which may span several lines if a quoted name does."""
    read = content = b""
    end = None
    for piece in file.pieces():
        read += piece
        content = read.removeprefix(BYTE_ORDER_MARK)
        end = _end_of_record(content)
        if end is not None or len(content) > LONGEST_LINE:
            break
    check_text(read, file.where, is_whole=False)
    record = content[:end]
    check_text(record, file.where)
    if not record:
        raise FileFormatError(
            f"The first line of {file.where} must name the columns. Got an empty line."
        )
    return record.decode()


def _end_of_record(content: bytes) -> int | None:
    """Return the end of the first line at which all open quotes are closed."""
    quotes = begin = 0
    for match in re.finditer(rb"[\r\n]", content):
        quotes += content.count(b'"', begin, match.start())
        if quotes % 2 == 0:
            return match.start()
        begin = match.end()
    return None


def _delimiter_of(header: str) -> str:
    """Return the first of comma, semicolon and tab that the header has outside quotes."""
    bare = re.sub(r'"[^"]*"', "", header)
    return next((each for each in DELIMITERS if each in bare), ",")


def _names(text: str, delimiter: str, where: str) -> tuple[str, ...]:
    if re.fullmatch(r'"?sep=.?"?', text, re.IGNORECASE):
        raise FileFormatError(
            f"The first line of {where} must name the columns. Got '{text}', which is meant for "
            "Excel. Hint: remove this line."
        )
    csv_lines = text.splitlines(keepends=True)
    try:
        header = next(csv.reader(csv_lines, delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise FileFormatError(
            f"The header of {where} could not be read: {error}. Hint: if "
            "values are not separated by a comma, a semicolon or a tab, name the delimiter "
            "(--delimiter)."
        ) from error
    # The first name is blank if pandas wrote its index. Blanks around names come from `a, b`.
    names = tuple(name.strip() or f"column{i}" for i, name in enumerate(header))
    # A repeated number is not a name: the first line is then a row of values, not a header.
    if not all(re.match(r"[-+.\d]", name) for name in names):
        check_distinct_names(names, f"The header of {where}")
    return names


# --------------------------------------------------------------------------------- the walk


def _blocks(pieces: Iterator[bytes], where: str) -> Iterator[bytes]:
    """Yield the content in blocks of whole lines, without a byte order mark."""
    rest, first = b"", True
    for piece in pieces:
        block = rest + piece if rest else piece
        if first and len(block) >= len(BYTE_ORDER_MARK):
            block, first = block.removeprefix(BYTE_ORDER_MARK), False
        cut = block.rfind(b"\n") + 1 or block.rfind(b"\r", 0, len(block) - 1) + 1
        if cut and not first:
            yield block[:cut]
            rest = block[cut:]
        else:
            rest = block
        if len(rest) > LONGEST_LINE:
            raise FileFormatError(
                f"{where} has a line of more than {LONGEST_LINE:,} bytes. Hint: check that it is a "
                "CSV, and look for a quote that is not closed."
            )
    if rest:
        yield rest


@dataclass
class _Walk:
    """The state of the scan after some blocks."""

    where: str
    delimiter: int
    n_columns: int
    n_records: int = 0
    n_delimiters: int = 0
    n_lines: int = 0  # as an editor counts lines, for messages
    inside: bool = False  # whether a quoted value continues in the next block
    opened: int = 0  # the line where that value began
    end: str = ""  # how lines end, outside quotes

    def __post_init__(self) -> None:
        # Characters allowed before an opening quote, and after a closing one.
        self.beside_quotes = np.zeros(256, dtype=bool)
        self.beside_quotes[[self.delimiter, LINE_FEED, RETURN, QUOTE]] = True

    def pass_over(self, block: bytes) -> None:
        """Scan a block of lines."""
        if b"\0" in block or not block.isascii():
            check_text(block, self.where, self.n_lines)
        codes = np.frombuffer(block, dtype=np.uint8)
        feeds = np.flatnonzero(codes == LINE_FEED)
        is_plain = codes[0] != LINE_FEED and not (np.diff(feeds) == 1).any()
        if is_plain and not self.inside and b'"' not in block and b"\r" not in block:
            self._count_lines(codes, len(feeds))
        else:
            self._look_closely(codes)

    def finish(self) -> None:
        """Refuse a file that ends inside a quoted value."""
        if self.inside:
            raise FileFormatError(
                f"A quote that opens in line {self.opened} of {self.where} is never closed. Hint: "
                "close it; a quote inside a value is written twice, and the value put in quotes."
            )

    def _count_lines(self, codes: AnyArray, n_feeds: int) -> None:
        """Count lines as records, in a block without quotes and empty lines."""
        if n_feeds:
            self._check_ends(np.array([LF]), np.array([self.n_lines + 1]))
        self.n_lines += n_feeds
        self.n_records += n_feeds + (codes[-1] != LINE_FEED)
        self.n_delimiters += int(np.count_nonzero(codes == self.delimiter))

    def _look_closely(self, codes: AnyArray) -> None:
        quotes = np.flatnonzero(codes == QUOTE)
        ends, width = _line_ends(codes)
        self._check_quotes(codes, quotes, ends)
        between = np.flatnonzero(codes == self.delimiter)
        self.n_delimiters += int(((np.searchsorted(quotes, between) + self.inside) % 2 == 0).sum())
        outside = (np.searchsorted(quotes, ends) + self.inside) % 2 == 0
        kinds = np.where(width == 2, CRLF, np.where(codes[ends] == LINE_FEED, LF, CR))
        self._check_ends(kinds[outside], self.n_lines + 1 + np.flatnonzero(outside))
        self._count_records(ends[outside], width[outside])
        if len(quotes):
            self.opened = self.n_lines + 1 + int(np.searchsorted(ends, quotes[-1]))
        self.inside = bool((len(quotes) + self.inside) % 2)
        self.n_lines += len(ends)
        is_cut = codes[-1] not in (LINE_FEED, RETURN)
        self.n_records += is_cut and not self.inside

    def _check_ends(self, kinds: AnyArray, lines: AnyArray) -> None:
        """Refuse a line whose line end differs from that of the first line."""
        if len(kinds) == 0:
            return
        self.end = self.end or str(kinds[0])
        other = kinds != self.end
        if other.any():
            first = int(np.argmax(other))
            raise FileFormatError(
                f"All lines of {self.where} must end with {self.end}, as the first one does. Got "
                f"{kinds[first]} at the end of line {lines[first]}. Hint: save the file with one "
                "kind of line end, and put values that contain a line end in quotes."
            )

    def _count_records(self, ends: AnyArray, width: AnyArray) -> None:
        """Count the records that end in this block, except empty ones."""
        if len(ends) == 0:
            return
        # a value that continues from the previous block is not empty
        first = -1 if self.inside else 0
        starts = np.append(first, (ends + width)[:-1])
        empty = int((starts == ends).sum())
        if empty and self.n_columns == 1:
            raise FileFormatError(
                f"{self.where} has one column and an empty line. It is not clear whether a value "
                'is missing there. Hint: remove the empty lines, or write "" for a missing value.'
            )
        self.n_records += len(ends) - empty

    def _check_quotes(self, codes: AnyArray, quotes: AnyArray, ends: AnyArray) -> None:
        """Refuse a quote that neither opens nor closes a value, and is not doubled inside one."""
        opens = (np.arange(len(quotes)) + self.inside) % 2 == 0
        padded = np.concatenate([[LINE_FEED], codes, [LINE_FEED]])
        beside = np.where(opens, padded[quotes], padded[quotes + 2])
        sound = self.beside_quotes[beside]
        if not sound.all():
            line = self.n_lines + 1 + int(np.searchsorted(ends, quotes[np.argmin(sound)]))
            raise FileFormatError(
                f"Line {line} of {self.where} has a quote in the middle of a value, which programs "
                "read in different ways. Hint: put the value in quotes and double the quotes in "
                'it, such as "5"" disk".'
            )


def ragged(file: OpenedFile, delimiter: str, n_columns: int) -> FileFormatError:
    """Return an error that names the row whose length differs from the header; slow, but rare."""
    lines = io.TextIOWrapper(io.BufferedReader(_Stream(file.pieces())), "utf-8-sig", newline="")
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    which = "A row"
    with contextlib.suppress(csv.Error):
        row = next((row for row in reader if row and len(row) != n_columns), [])
        which = f"The row that ends in line {reader.line_num} ({len(row)} value(s))"
    return FileFormatError(
        f"{which} of {file.where} must have {n_columns} value(s), one for each name in the header. "
        "Hint: look for a row that is cut short, or for a value that contains a delimiter and is "
        "not in quotes."
    )


class _Stream(io.RawIOBase):
    """Pieces of bytes as a stream."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._rest = pieces, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._rest = self._rest or next(self._pieces, b"")
        taken, self._rest = self._rest[: len(buffer)], self._rest[len(buffer) :]
        buffer[: len(taken)] = taken
        return len(taken)


def _line_ends(codes: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Return where lines end, and the width of each end: two for a return and a feed."""
    feeds, returns = np.flatnonzero(codes == LINE_FEED), np.flatnonzero(codes == RETURN)
    if len(returns) == 0:
        return feeds, np.ones(len(feeds), dtype=np.int64)
    second = np.isin(feeds - 1, returns, assume_unique=True)
    ends = np.sort(np.concatenate([feeds[~second], returns]))
    return ends, 1 + np.isin(ends + 1, feeds[second], assume_unique=True)
