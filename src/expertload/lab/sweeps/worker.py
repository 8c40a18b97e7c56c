"""A process that trains one run: what a sweep starts, here or on a cluster."""

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
from expertload.lab.training.progress import ConsoleReporter, FileReporter, Reporters

__all__ = ["Worker"]

LOG_WIDTH = 160


class Worker:
    """Trains the run of a folder. If a cluster ends the job early, it asks for another.

    Parameters
    ----------
    allow : sequence of str
        The import paths that the recipe named; the folder may name no others.
    **options
        Options of `expertload.lab.train`: `data_dir`, `accelerator`, `devices`, `nodes`.
    """

    def __init__(self, *, allow: Sequence[str] = (), **options: Any) -> None:
        self.allow, self.options = allow, options

    def __call__(self, folder: str) -> None:
        """Train the run whose configuration is in a folder."""
        console = ConsoleReporter(Console(width=LOG_WIDTH), folder=Path(folder))
        reporter = Reporters(console, FileReporter(Path(folder)))
        config = RunFolder(folder).config()
        refuse_imports(config, Path(folder), allow=self.allow)
        train(config, folder, reporter=reporter, **self.options)

    def checkpoint(self, folder: str) -> Any:
        """Go on in a new job, as submitit asks when time is up."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, folder)


def _end_with_parent() -> None:
    """Wait until the other end of standard input is closed, then end this process.

    A sweep that is killed cannot stop its workers; the end of this pipe does. Reading below the
    buffered stream holds no lock that would block the interpreter's exit.
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
