"""Training a grid of runs side by side, here or on a cluster, and watching it."""

from expertload.lab.sweeps.choice import Choice
from expertload.lab.sweeps.launch import ClusterLauncher, ProcessLauncher
from expertload.lab.sweeps.sweep import Sweep, SweepReport

__all__ = ["Choice", "ClusterLauncher", "ProcessLauncher", "Sweep", "SweepReport"]
