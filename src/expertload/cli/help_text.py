"""The help of every command: plain text in sections, as wide as a narrow terminal.

Typer's own boxes have a column for types, so little room is left for sentences: long names and
values are cut, and `:fog:` becomes a picture of fog.
"""

from __future__ import annotations

import re
import textwrap
from typing import Any

from typer.core import TyperArgument, TyperCommand, TyperGroup

__all__ = ["PlainCommand", "PlainGroup", "help_record", "help_sections", "help_text"]

NAME_WIDTH = 28  # longer names have a line of their own
PANEL = "rich_help_panel"  # typer's name for the section of an option
NO_BREAK = "\N{NO-BREAK SPACE}"
KINDS = {"int": "NUMBER", "float": "NUMBER", "str": "TEXT", "path": "PATH"}


class PlainCommand(TyperCommand):
    """A command with plain help."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage line."""
        return ["[OPTIONS]", *_arguments(self)]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        formatter.write(help_text(self, ctx, width=formatter.width))


class PlainGroup(TyperGroup):
    """A group of commands with plain help."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        formatter.write(help_text(self, ctx, width=formatter.width))


def help_text(command: Any, context: Any, *, width: int = 78) -> str:
    """Return the help of a command: usage, what it does, and its parameters in sections.

    Examples
    --------
    >>> import typer
    >>> from expertload.cli.app import app
    >>> from expertload.cli.help_text import help_text
    >>> policy = typer.main.get_command(app).commands["desk"].commands["policy"]
    >>> print(help_text(policy, typer.Context(policy, info_name="policy")))
    Usage: policy [OPTIONS] COMMAND [ARGS]...
    <BLANKLINE>
    Activate or withdraw certified policies.
    <BLANKLINE>
    Commands:
      activate  Let a certified policy decide from now on; it replaces the
                previous one.
      withdraw  End a policy for good; from now on, every case goes to experts.
    <BLANKLINE>
    Options:
      --help  Show this message and exit.
    <BLANKLINE>
    """
    paragraphs = (command.help or "").replace("`", "'").split("\n\n")
    parts = [command.get_usage(context), *(_wrapped(each, width) for each in paragraphs)]
    for title, rows in help_sections(command, context).items():
        if rows:
            parts.append("\n".join([f"{title}:", *_lines(rows, width)]))
    return "\n\n".join(parts) + "\n"


def help_record(parameter: Any, context: Any) -> tuple[str, str] | None:
    """Return what a parameter is called and what it does; None if it is hidden.

    Examples
    --------
    >>> import typer
    >>> from expertload.cli.app import app
    >>> from expertload.cli.help_text import help_record
    >>> serve = typer.main.get_command(app).commands["desk"].commands["serve"]
    >>> (port,) = [each for each in serve.params if each.name == "port"]
    >>> help_record(port, typer.Context(serve))
    ('--port NUMBER', 'Port to listen on; 0 takes a free one.  [default: 8765; 0 to 65535]')
    """
    record = parameter.get_help_record(context)
    if record is None:
        return None
    name, said = record
    if isinstance(parameter, TyperArgument):
        name = _called(parameter)
    said = re.sub(r"(?<=\[default: )\((.*)\)(?=[;\]])", r"\1", said)
    said = re.sub(r"\bx>=([\d.]+)\]$", r"at least \1]", said)
    said = re.sub(r"([\d.]+)<=x<=([\d.]+)\]$", r"\1 to \2]", said)
    return re.sub(r"<(?:list\[)?(.*?)(?: range)?\]?>", _kind, name), said


def _kind(found: re.Match[str]) -> str:
    """Return a word for a type; choices stay as they are."""
    return KINDS.get(found[1].lower(), found[1])


def help_sections(command: Any, context: Any) -> dict[str, list[tuple[str, str]]]:
    """Return the rows of each section of a help, by title.

    Examples
    --------
    >>> import typer
    >>> from expertload.cli.app import app
    >>> from expertload.cli.help_text import help_sections
    >>> evaluate = typer.main.get_command(app).commands["evaluate"]
    >>> list(help_sections(evaluate, typer.Context(evaluate)))
    ['Arguments', 'Commands', 'Options', 'Columns', 'Opening files']
    """
    commands = [(name, _summary(each)) for name, each in getattr(command, "commands", {}).items()]
    found: dict[str, list[tuple[str, str]]] = {
        "Arguments": [],
        "Commands": commands,
        "Options": [],
    }
    for parameter in command.get_params(context):
        record = help_record(parameter, context)
        usual = "Arguments" if isinstance(parameter, TyperArgument) else "Options"
        if record is not None:
            found.setdefault(getattr(parameter, PANEL, None) or usual, []).append(record)
    return found


def _summary(command: Any) -> str:
    return str(command.help or "").split("\n\n")[0]


def _arguments(command: Any) -> list[str]:
    """Return the arguments of a command, as its usage shows them."""
    arguments = [each for each in command.params if isinstance(each, TyperArgument)]
    return [_called(each) if each.required else f"[{_called(each)}]" for each in arguments]


def _called(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    return name if argument.nargs == 1 else f"{name}..."


def _lines(rows: list[tuple[str, str]], width: int) -> list[str]:
    """Return names and sentences in two columns."""
    column = 4 + min(NAME_WIDTH, max(len(name) for name, _ in rows))
    lines = []
    for name, said in rows:
        head = f"  {name}".ljust(column)
        if len(name) > column - 4:
            lines.append(f"  {name}")
            head = " " * column
        lines.append(_wrapped(said, width, head, " " * column))
    return lines


def _wrapped(text: str, width: int, first: str = "", other: str = "") -> str:
    """Wrap text, but never inside a name such as --save-policy or a short default."""
    joined = re.sub(r"\[.{,30}\]$", _unbroken, " ".join(text.split()))
    wrapped = textwrap.fill(
        joined,
        width,
        initial_indent=first,
        subsequent_indent=other,
        break_on_hyphens=False,
        break_long_words=False,
    )
    return wrapped.replace(NO_BREAK, " ")


def _unbroken(found: re.Match[str]) -> str:
    return found[0].replace(" ", NO_BREAK)
