"""Slow, readable second implementations: the oracles of the tests."""
