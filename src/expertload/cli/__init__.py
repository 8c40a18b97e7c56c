"""The command line: one file a command, and nothing heavy imported until a command runs."""

from expertload.cli.app import app, main

__all__ = ["app", "main"]
