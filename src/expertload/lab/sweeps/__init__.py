"""Trains a grid of runs in parallel, on this machine or a cluster, and shows its progress."""

from expertload.lab.sweeps.launch import ClusterLauncher, ProcessLauncher
from expertload.lab.sweeps.sweep import Choice, Sweep, SweepReport

__all__ = ["Choice", "ClusterLauncher", "ProcessLauncher", "Sweep", "SweepReport"]
