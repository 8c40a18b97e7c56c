"""A promise that is kept for 1,000 audits and then broken: the plot of docs/monitoring.md.

Run it from the root of the repository: ``python examples/watched_promise.py``.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from expertload.display import EvidenceDisplay
from expertload.monitoring import AccuracyMonitor


def watch() -> AccuracyMonitor:
    """Return a monitor of decisions that are 97 % right at first and 90 % after 1,000 audits."""
    rng = np.random.default_rng(5)
    accuracy = np.where(np.arange(1500) < 1000, 0.97, 0.90)
    first = datetime(2026, 1, 5, tzinfo=UTC)
    decided_at = [first + timedelta(hours=3 * number) for number in range(len(accuracy))]
    correct = rng.random(len(accuracy)) < accuracy
    return AccuracyMonitor(target_accuracy=0.95).update(correct, decided_at=decided_at)


def main(out: Path) -> None:
    """Draw the evidence, and print the summary of the monitor."""
    import matplotlib as mpl

    mpl.use("Agg")
    monitor = watch()
    EvidenceDisplay.from_monitor(monitor).figure_.savefig(out, dpi=120, metadata={"Software": None})
    print(monitor)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images/evidence.png"))
