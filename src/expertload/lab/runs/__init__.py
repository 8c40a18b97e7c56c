"""Runs: their recipes and settings, their folders, and finished runs."""
