"""Write the snapshots: ``python -m tests.contract.write [--overwrite PART ...]``.

New entries are added. Entries that exist are neither changed nor removed unless their part is named
after ``--overwrite``: a snapshot that follows the code checks nothing.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.contract.compare import SNAPSHOTS, differences, read_snapshot, write_snapshot
from tests.contract.parts import PARTS, entries_of


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m tests.contract.write", description=__doc__)
    parser.add_argument("--overwrite", nargs="+", metavar="PART", default=[], choices=PARTS)
    overwrite = parser.parse_args(arguments).overwrite
    refused = []
    for part in PARTS:
        before = read_snapshot(part)
        with tempfile.TemporaryDirectory() as folder:
            made = {name: make() for name, make in entries_of(part, Path(folder)).items()}
        changed = sorted(
            name
            for name in before
            if name not in made or any(differences(before[name], made[name]))
        )
        if changed and part not in overwrite:
            refused += [f"{part}: {name}" for name in changed]
            made |= {name: before[name] for name in changed}
        write_snapshot(part, made)
        print(f"{part}: {len(made)} entries, {len(changed)} differ from before")
    print(f"{sum(path.stat().st_size for path in SNAPSHOTS.iterdir()) / 1000:.0f} kB")
    if refused:
        print("Not overwritten (pass --overwrite PART to do so):", *refused, sep="\n  ")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
