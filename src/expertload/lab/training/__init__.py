"""Trains one run, in one process or several, from its last checkpoint."""

from expertload._check import needs_extra

with needs_extra("lab", "expertload.lab.training"):
    from expertload.lab.training.loop import train
    from expertload.lab.training.progress import (
        ConsoleReporter,
        FileReporter,
        Reporter,
        Reporters,
        TensorBoardReporter,
    )

__all__ = [
    "ConsoleReporter",
    "FileReporter",
    "Reporter",
    "Reporters",
    "TensorBoardReporter",
    "train",
]
