"""Do some work in processes that are killed over and over, until one gets to the end.

Forking after the imports makes a death cost milliseconds, so there can be many.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import stat
import sys
import time
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import torch
from tests import forked

import expertload._files
from expertload.lab.data import load_dataset

MOST = 200


def drive_in_a_process(work: Callable[[], object], how: str) -> int:
    """Do the work, which can be pickled, in processes that are killed; how many were."""
    here, there = multiprocessing.Pipe(duplex=False)
    process = forked.start(drive, work, how, there)
    there.close()
    assert forked.finish([process], seconds=600) == [0]
    return here.recv()


def in_child(work: Callable[[], object]) -> int:
    pid = os.fork()
    if pid == 0:
        work()
        os._exit(0)
    return pid


def die_at_write(number: int) -> None:
    """Arrange for SIGKILL in the middle of the `number`-th file that is written."""
    count = 0
    real = os.fsync

    def fsync(handle: int) -> None:
        nonlocal count
        is_file = stat.S_ISREG(os.fstat(handle).st_mode)  # folders are made durable too
        count += is_file
        if is_file and count == number:
            os.truncate(handle, os.fstat(handle).st_size // 2)
            os.kill(os.getpid(), signal.SIGKILL)
        real(handle)

    expertload._files.os.fsync = fsync


def killed_in_its_second_epoch(arguments, said: Path) -> None:
    """Run the command line, and kill it once it has something to lose."""
    written = []

    def kill_at_the_second(event, values) -> None:
        if event == "os.rename" and str(values[1]).endswith("metrics.jsonl"):
            written.append(values)
            if len(written) == 2:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(kill_at_the_second)
    forked.run_command(arguments, said)


def drive(work: Callable[[], object], how: str, told: Connection) -> None:
    """Do the work to the end, and tell how many processes were killed."""
    rng = random.Random(0)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    load_dataset("digits")  # imports what it needs before forking
    kills = 0
    while kills < MOST:
        # Later deaths as time goes by, so that it ends on a slow machine too.
        number, delay = rng.randint(1, 4 + kills), rng.uniform(0, 0.4) * 1.2**kills
        if how == "writing in turn":  # the first in its first file, the second in its second
            number = kills + 1

        def try_it(number=number) -> None:
            if how.startswith("writing"):
                die_at_write(number)
            work()

        pid = in_child(try_it)
        if how == "anywhere":
            time.sleep(delay)
            os.kill(pid, signal.SIGKILL)  # harmless to one that has ended but is not yet awaited
        _, status = os.waitpid(pid, 0)
        if os.WIFEXITED(status):
            if status:
                sys.exit(f"a child failed: {status}")
            told.send(kills)
            return
        kills += 1
    sys.exit("it never came to an end")
