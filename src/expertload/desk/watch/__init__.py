"""Checks the promise of the active policy all the time, and acts if it is not kept."""
