"""The command line reference: a page for each command, from the program itself."""

import re
from pathlib import Path

import typer
from api_pages import write_changed

from expertload.cli.app import app as program
from expertload.cli.help_text import help_record


def walk(command, words):
    """Yield each command that can be run, with the words it is called by."""
    if hasattr(command, "commands"):
        for name, inner in command.commands.items():
            yield from walk(inner, [*words, name])
    else:
        yield words, command


def cell(text):
    """Return text that can stand in a cell of a table."""
    return re.sub(r"\s+", " ", text).replace("|", "\\|").strip()


RANGE = r"at least [\d.]+|[\d.]+ to [\d.]+"
EXTRAS = re.compile(
    rf"\s*\[(?:default: (?P<default>.*?))?(?:; )?(?P<range>{RANGE})?(?P<must>required)?\]$"
)


def option_line(name, text):
    """Return the row of one option: what it does, its range, and its default in a last column."""
    extras = EXTRAS.search(text)
    said = cell(EXTRAS.sub("", text))
    if extras and extras["range"]:
        said += f" ({extras['range']})"
    default = f"`{extras['default']}`" if extras and extras["default"] else ""
    last = "required" if extras and extras["must"] else default
    return f"| `{cell(name)}` | {said} | {cell(last)} |\n"


def command_text(words, command, level):
    """Return the section of one command: usage, what it does, its options."""
    called = " ".join(words)
    context = typer.Context(command, info_name=called)
    usage = command.get_usage(context).removeprefix("Usage: ")
    records = [help_record(param, context) for param in command.params]
    rows = "".join(option_line(*record) for record in records if record)
    table = f"| | | default |\n| --- | --- | --- |\n{rows}" if rows else ""
    return f"{'#' * level} {called}\n\n```text\n{usage}\n```\n\n{command.help or ''}\n\n{table}"


def page(name, command):
    """Return the page of a command or of a group of commands."""
    leaves = list(walk(command, ["expertload", name]))
    if len(leaves) == 1:
        return command_text(*leaves[0], level=1)
    parts = [command_text(words, leaf, level=2) for words, leaf in leaves]
    return f"# expertload {name}\n\n{command.help}\n\n" + "\n".join(parts)


def write(app, config):
    """Write the pages before Sphinx looks for pages."""
    commands = typer.main.get_command(program).commands
    folder = Path(app.srcdir) / "reference" / "commands"
    write_changed(folder, {f"{name}.md": page(name, one) for name, one in commands.items()})


def setup(app):
    """Write the pages before Sphinx looks for pages."""
    app.connect("config-inited", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
