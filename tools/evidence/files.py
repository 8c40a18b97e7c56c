"""Where the results are; reads and writes them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from expertload._files import write_atomically

HERE = Path(__file__).resolve().parents[2] / "results"
COMPARISONS = HERE / "comparisons.csv"
CURVES = HERE / "coc_curves.csv"
PUSHES = HERE / "gradient_by_confidence.csv"
AREAS = HERE / "area_of_batches.csv"
COST = HERE / "training_cost.csv"
LADDER = HERE / "ladder.csv"
OUTLIERS = HERE / "ladder_outliers.csv"
ON_TOP = HERE / "strong-on-top.csv"
LOOP = HERE / "loop.csv"
TEAM = HERE / "team_splits.csv"
TEAM_CERTIFICATES = HERE / "team_certificates.csv"
TEAM_READERS = HERE / "team_readers.csv"
TEAM_WEAK = HERE / "team_weak_reader.csv"

Record = Mapping[str, object]


def read_records(path: Path) -> list[dict[str, str]]:
    """Return the records of a CSV file; none if the file does not exist."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def write_records(path: Path, records: Sequence[Record]) -> None:
    """Write records, which have the same keys, as CSV, completely or not at all."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(records[0]) if records else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    write_atomically(path, text.getvalue())


def update_records(path: Path, records: Sequence[Record], experiments: Iterable[str]) -> None:
    """Replace the records of some experiments; keep all others."""
    renewed = set(experiments)
    kept = [record for record in read_records(path) if record["experiment"] not in renewed]
    write_records(path, sorted([*kept, *records], key=lambda record: str(record["experiment"])))
