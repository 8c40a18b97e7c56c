"""Trains a grid of runs in parallel, on this machine or a cluster, and shows its progress."""
