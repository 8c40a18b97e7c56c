"""Trains one run, in one process or several, from its last checkpoint."""
