"""Training one run, in one process or many, from wherever it stands."""

from expertload.lab.training.loop import train
from expertload.lab.training.progress import (
    ConsoleReporter,
    Reporter,
    Reporters,
    SilentReporter,
    TensorBoardReporter,
)

__all__ = [
    "ConsoleReporter",
    "Reporter",
    "Reporters",
    "SilentReporter",
    "TensorBoardReporter",
    "train",
]
