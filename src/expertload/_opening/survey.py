"""A quick walk over the bytes of a CSV: is it one that all programs read alike, and how long is it?

The walk knows the dialect of RFC 4180 and nothing else. A file in which some rows could be read in
more than one way (a quote in the middle of a value, line ends of two kinds, a quote never closed)
is refused here, with the line; the rest is counted, so that whoever reads the values can compare.
It costs a fraction of reading: where a piece of the file has no quotes, only line ends are counted.
"""

from __future__ import annotations

import contextlib
import csv
import io
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from expertload._opening.contents import check_text
from expertload._opening.files import OpenedFile
from expertload._opening.options import FileOptions
from expertload._typing import AnyArray
from expertload.exceptions import FileFormatError

__all__ = ["Survey", "survey_csv"]

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
LONGEST_LINE = 2_000_000  # what DuckDB takes
DELIMITERS = (",", ";", "\t")
LINE_FEED, RETURN, QUOTE = 10, 13, 34
LF, CR, CRLF = "a line feed", "a carriage return", "both a carriage return and a line feed"


@dataclass(frozen=True, kw_only=True)
class Survey:
    """What a CSV is made of.

    Attributes
    ----------
    header : tuple of str
        The names in its first line.
    delimiter : str
        What stands between values.
    n_rows : int
        How many rows follow the header; empty lines do not count.
    """

    header: tuple[str, ...]
    delimiter: str
    n_rows: int


def survey_csv(file: OpenedFile, options: FileOptions) -> Survey:
    """Walk over a CSV, or refuse it."""
    text = _first_record(file)
    delimiter = options.delimiter or ("\t" if file.kind == "tsv" else _delimiter_of(text))
    header = _names(text, delimiter, file.where)
    if len(header) == 1 and options.delimiter is None and "|" in header[0]:
        raise FileFormatError(
            f"The header of {file.where} is one name, '{header[0]}'. Hint: if | stands between "
            "values, say so with --delimiter '|'; if not, with --delimiter ','."
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
    """Return the first line; more than one where a name in quotes goes on in the next."""
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
            f"The first line of {file.where} is empty. Hint: it must name the columns."
        )
    return record.decode()


def _end_of_record(content: bytes) -> int | None:
    """Return where the first line ends that closes as many quotes as were opened."""
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
            f"The first line of {where} is '{text}', a note for Excel. Hint: remove it; the first "
            "line must name the columns."
        )
    csv_lines = text.splitlines(keepends=True)
    try:
        header = next(csv.reader(csv_lines, delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise FileFormatError(
            f"The header of {where} could not be read: {error}. Hint: if "
            "something else than a comma, a semicolon or a tab stands between values, say so "
            "(--delimiter)."
        ) from error
    # The first name is blank where pandas wrote its index.
    names = tuple(name if name.strip() else f"column{i}" for i, name in enumerate(header))
    lowered = [name.strip().lower() for name in names]
    # A number twice is no name: then a row of values stands where the header should.
    numbers = all(re.match(r"[-+.\d]", name) for name in lowered)
    repeated = [name for name, n in Counter(lowered).items() if n > 1] if not numbers else []
    if repeated:
        raise FileFormatError(
            f"The header of {where} names more than one column '{repeated[0]}'. "
            "Hint: give every column a name of its own."
        )
    return names


# --------------------------------------------------------------------------------- the walk


def _blocks(pieces: Iterator[bytes], where: str) -> Iterator[bytes]:
    """Return the content in blocks of whole lines, without a byte order mark."""
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
                f"{where} has a line of more than {LONGEST_LINE:,} bytes. Hint: is it a CSV? Look "
                "for a quote that is not closed."
            )
    if rest:
        yield rest


@dataclass
class _Walk:
    """What is known after some blocks."""

    where: str
    delimiter: int
    n_columns: int
    n_records: int = 0
    n_delimiters: int = 0
    n_lines: int = 0  # as an editor counts them, for messages
    inside: bool = False  # a quoted value goes on in the next block
    opened: int = 0  # the line where it began
    end: str = ""  # how lines end, outside quotes

    def __post_init__(self) -> None:
        # What may stand before a quote that opens, and after one that closes.
        self.beside_quotes = np.zeros(256, dtype=bool)
        self.beside_quotes[[self.delimiter, LINE_FEED, RETURN, QUOTE]] = True

    def pass_over(self, block: bytes) -> None:
        """Take in some lines."""
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
        """Refuse what the end of the file shows to be cut short."""
        if self.inside:
            raise FileFormatError(
                f"A quote that opens in line {self.opened} of {self.where} is never closed. "
                "Hint: close it, or write a quote inside a value as two in quotes."
            )

    def _count_lines(self, codes: AnyArray, n_feeds: int) -> None:
        """Count where there are no quotes and no empty lines: every line is a record."""
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
        """Refuse a line that ends in another way than the first."""
        if len(kinds) == 0:
            return
        self.end = self.end or str(kinds[0])
        other = kinds != self.end
        if other.any():
            first = int(np.argmax(other))
            raise FileFormatError(
                f"Line {lines[first]} of {self.where} ends with {kinds[first]}, and those before "
                f"it with {self.end}. Hint: save it with line ends of one kind, and put values "
                "that hold a line end in quotes."
            )

    def _count_records(self, ends: AnyArray, width: AnyArray) -> None:
        """Count the records that end here, but for those that are empty."""
        if len(ends) == 0:
            return
        first = -1 if self.inside else 0  # what goes on from the block before is not empty
        starts = np.append(first, (ends + width)[:-1])
        empty = int((starts == ends).sum())
        if empty and self.n_columns == 1:
            raise FileFormatError(
                f"{self.where} has one column and an empty line, which may be a missing value or "
                'none. Hint: remove the empty lines, or write "" for a missing value.'
            )
        self.n_records += len(ends) - empty

    def _check_quotes(self, codes: AnyArray, quotes: AnyArray, ends: AnyArray) -> None:
        """Refuse a quote that neither opens nor closes a value, nor stands for itself in one."""
        opens = (np.arange(len(quotes)) + self.inside) % 2 == 0
        padded = np.concatenate([[LINE_FEED], codes, [LINE_FEED]])
        beside = np.where(opens, padded[quotes], padded[quotes + 2])
        sound = self.beside_quotes[beside]
        if not sound.all():
            line = self.n_lines + 1 + int(np.searchsorted(ends, quotes[np.argmin(sound)]))
            raise FileFormatError(
                f"Line {line} of {self.where} has a quote in the middle of a value, which programs "
                "read in different ways. Hint: put the value in quotes and double those in it, "
                '"5"" disk".'
            )


def ragged(file: OpenedFile, delimiter: str, n_columns: int) -> FileFormatError:
    """Word that a row is longer or shorter than the header, and which; slow, but only once."""
    lines = io.TextIOWrapper(io.BufferedReader(_Stream(file.pieces())), "utf-8-sig", newline="")
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    which = "A row"
    with contextlib.suppress(csv.Error):
        row = next((row for row in reader if row and len(row) != n_columns), [])
        which = f"The row that ends in line {reader.line_num} ({len(row)} value(s))"
    return FileFormatError(
        f"{which} of {file.where} does not have as many values as its header has names, "
        f"{n_columns}. Hint: look for a row that is cut short, or a value with a delimiter in it "
        "that is not in quotes."
    )


class _Stream(io.RawIOBase):
    """Pieces as a stream."""

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
    """Return where lines end, and how wide each end is: two where a feed follows a return."""
    feeds, returns = np.flatnonzero(codes == LINE_FEED), np.flatnonzero(codes == RETURN)
    if len(returns) == 0:
        return feeds, np.ones(len(feeds), dtype=np.int64)
    second = np.isin(feeds - 1, returns, assume_unique=True)
    ends = np.sort(np.concatenate([feeds[~second], returns]))
    return ends, 1 + np.isin(ends + 1, feeds[second], assume_unique=True)
