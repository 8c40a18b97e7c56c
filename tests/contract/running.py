"""Commands, run in this process as they are typed."""

from __future__ import annotations

import contextlib
from functools import cache
from pathlib import Path

import typer
from click.testing import CliRunner

from tests.contract import subject


@cache
def _command():
    """The tree of commands, which takes a while to build."""
    return typer.main.get_command(subject.command_line())


def run(*arguments, codes=(0,), folder=None):
    """Run a command, in a folder if given, and return its result."""
    with contextlib.chdir(folder or Path.cwd()):
        result = CliRunner(env={"COLUMNS": "200"}).invoke(
            _command(), [str(each) for each in arguments]
        )
    if codes is not None:
        assert result.exit_code in codes, (result.exit_code, result.output, result.exception)
    return result
