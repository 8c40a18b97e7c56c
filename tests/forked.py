"""Processes for tests, forked from one that has imported torch: each import would take seconds.

The process they are forked from is python's fork server, which starts with the first of them and
ends with the session.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import sys
import time
from pathlib import Path

PRELOADED = ["torch.nn.parallel", "lightning.fabric", "expertload.lab.training.loop"]


@functools.cache
def _context():
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context


def start(work, *arguments):
    """Start `work`, a function that the new process can import, on what can be pickled."""
    process = _context().Process(target=work, args=arguments)
    process.start()
    return process


def run_command(arguments, said: Path):
    """Be the command line, whose output goes to a file: a work to start."""
    import torch

    from expertload.cli import main
    from tests.lab.conftest import environment

    os.environ.update(environment())  # for the processes that the command starts
    with said.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    torch.set_num_threads(1)  # OMP_NUM_THREADS is read when torch is imported
    script = Path(sys.executable).parent / "expertload"  # what other ranks are started with
    sys.argv = [str(script), *map(str, arguments)]
    main()


def finish(processes, seconds=300):
    """Exit codes of all, None of one that had to be killed as time was up."""
    deadline = time.monotonic() + seconds
    for process in processes:
        process.join(max(0.0, deadline - time.monotonic()))
    codes = [process.exitcode for process in processes]
    for process in processes:
        process.kill()
        process.join()
    return codes
