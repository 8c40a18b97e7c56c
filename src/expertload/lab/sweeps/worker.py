"""The process that trains one run; started by a sweep, on this machine or a cluster."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from expertload.exceptions import ExpertLoadError
from expertload.lab.runs.folder import RunFolder
from expertload.lab.runs.origin import refuse_imports
from expertload.lab.training.loop import train
from expertload.lab.training.progress import Reporter


class Worker:
    """Trains the run of a folder. If a cluster ends the job early, it requests another job.

    Parameters
    ----------
    allow : sequence of str
        The import paths in the recipe; the folder may use no others.
    **options
        Options of `expertload.lab.train`: `data_dir`, `accelerator`, `devices`, `nodes`.
    """

    def __init__(self, *, allow: Sequence[str] = (), **options: Any) -> None:
        self.allow, self.options = allow, options

    def __call__(self, folder: str) -> None:
        """Train the run whose configuration is in a folder."""
        reporter = Reporter(Console(width=160), folder=Path(folder))
        config = RunFolder(folder).config()
        refuse_imports(config, Path(folder), allow=self.allow)
        train(config, folder, reporter=reporter, **self.options)

    def checkpoint(self, folder: str) -> Any:
        """Continue in a new job when time is up, as submitit requires."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, folder)


def _end_with_parent() -> None:
    """Wait until standard input is closed by the parent, then end this process.

    A killed sweep cannot stop its workers, but the closed pipe does. Reading from the unbuffered
    stream holds no lock that would block the interpreter's exit.
    """
    os.read(0, 1)
    os._exit(130)


def main() -> None:
    """Train the run of a folder, with options in JSON."""
    folder, options = sys.argv[1], json.loads(sys.argv[2])
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        Worker(**options)(folder)
    except KeyboardInterrupt:
        sys.exit(130)
    except ExpertLoadError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
