"""Operate classifiers at high accuracy and low expert load."""

__version__ = "0.1.0"
