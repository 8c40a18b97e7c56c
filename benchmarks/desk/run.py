"""Runs every part on both databases."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PARTS = ("intake", "shadows", "clients", "queue", "export", "crowd", "attacks")


@dataclass(frozen=True)
class Sizes:
    """How much each part does."""

    batches: int = 40
    client_seconds: float = 5.0
    backlog: int = 1_000_000
    claims: int = 300
    crowd_seconds: float = 60.0


QUICK = Sizes(batches=10, client_seconds=2.0, backlog=50_000, claims=100, crowd_seconds=8.0)


def main(arguments: Sequence[str] = ()) -> None:
    """Run the parts named on the command line."""
    from benchmarks.desk import attacks, backlog, crowd, intake
    from benchmarks.desk.places import places

    parser = argparse.ArgumentParser(prog="python -m benchmarks.desk")
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--only", choices=("sqlite", "postgresql"))
    parser.add_argument("--parts", default=",".join(PARTS))
    given = parser.parse_args(arguments)
    sizes, parts = QUICK if given.quick else Sizes(), given.parts.split(",")
    with tempfile.TemporaryDirectory(prefix="desk-bench-") as folder:
        for place in places(Path(folder), given.only):
            load = os.getloadavg()[0]
            print(f"{place.kind}, load average {load:.1f} on {os.cpu_count()} cores")
            if "intake" in parts:
                intake.batches(place, sizes)
            if "shadows" in parts:
                intake.shadows(place, sizes)
            if "clients" in parts:
                intake.clients(place, sizes)
            if {"queue", "export"} & set(parts):
                backlog.measure(place, sizes, parts)
            if "crowd" in parts:
                crowd.measure(place, sizes)
            if "attacks" in parts:
                attacks.measure(place, sizes)
