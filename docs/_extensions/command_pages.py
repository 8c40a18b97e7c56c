"""The command line reference: a page for each command, from the program itself."""

import re
from pathlib import Path

import typer
from api_pages import write_changed
from typer.core import TyperArgument

from expertload.cli.app import app as program

GUIDES = {
    "evaluate": "evaluate.md",
    "decide": "evaluate.md",
    "policy": "frames.md",
    "cascade": "learn/text.md",
    "plot": "evaluate.md",
    "monitor": "monitoring.md",
    "sample": "monitoring.md",
    "lab": "lab.md",
    "desk": "desk.md",
}


def walk(command, words):
    """Yield each command that can be run, with the words it is called by."""
    if hasattr(command, "commands"):
        for name, inner in command.commands.items():
            yield from walk(inner, [*words, name])
    else:
        yield words, command


CODE = re.compile(r"`[^`]+`|(?<!\w)'([^']+)'(?!\w)|(--[a-z][a-z-]*)")


def prose(text):
    """Return help as Markdown: options and quoted words are code."""
    return CODE.sub(lambda found: f"`{found[1] or found[2] or found[0].strip('`')}`", text)


def cell(text):
    """Return text that can stand in a cell of a table."""
    return re.sub(r"\s+", " ", text).replace("|", "\\|").strip()


KINDS = {"int": "NUMBER", "float": "NUMBER", "str": "TEXT", "path": "PATH"}


def kind_of_value(found):
    """Return a word for a type of value; choices stay as they are."""
    return KINDS.get(found[1].lower(), found[1])


def help_sections(command, context):
    """Return the rows of the arguments and options of a command: a name and what it means."""
    sections = {"Arguments": [], "Options": []}
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is None:
            continue
        name, text = record
        if isinstance(parameter, TyperArgument):
            name = parameter.metavar or parameter.name.upper()
        name = re.sub(
            r"<(?:list\[)?(.*?)(?: range)?\]?>",
            lambda kind: KINDS.get(kind[1].lower(), kind[1]),
            name,
        )
        text = re.sub(r"(?<=\[default: )\((.*)\)(?=[;\]])", r"\1", text)
        text = re.sub(r"\bx>=([\d.]+)\]$", r"at least \1]", text)
        text = re.sub(r"([\d.]+)<=x<=([\d.]+)\]$", r"\1 to \2]", text)
        sections["Arguments" if isinstance(parameter, TyperArgument) else "Options"].append(
            (name, text)
        )
    return sections


RANGE = r"at least [\d.]+|[\d.]+ to [\d.]+"
EXTRAS = re.compile(
    rf"\s*\[(?:default: (?P<default>.*?))?(?:; )?(?P<range>{RANGE})?(?P<must>required)?\]$"
)


def option_line(name, text):
    """Return the row of one option: what it does, its range, and its default in a last column."""
    extras = EXTRAS.search(text)
    said = cell(prose(EXTRAS.sub("", text)))
    if extras and extras["range"]:
        said += f" ({extras['range']})"
    default = f"`{extras['default']}`" if extras and extras["default"] else ""
    last = "required" if extras and extras["must"] else default
    return f"| `{cell(name)}` | {said} | {cell(last)} |\n"


def table(title, rows):
    """Return the table of a section; --help is the same everywhere, and left out."""
    lines = "".join(option_line(*row) for row in rows if not row[0].endswith("--help"))
    head = f"| {title.lower()} | meaning | default |\n| --- | --- | --- |\n"
    return f"{head}{lines}\n" if lines else ""


def command_text(words, command, level):
    """Return the section of one command: usage, what it does, its options."""
    called = " ".join(words)
    context = typer.Context(command, info_name=called)
    usage = command.get_usage(context).removeprefix("Usage: ")
    sections = help_sections(command, context).items()
    tables = "\n".join(table(title, rows) for title, rows in sections if rows)
    head = f"{'#' * level} {called}\n\n```text\n{usage}\n```"
    return "\n\n".join([head, prose(command.help or ""), tables])


def page(name, command):
    """Return the page of a command or of a group of commands."""
    leaves = list(walk(command, ["expertload", name]))
    guide = f"The guide to it: [](../../{GUIDES[name]}).\n"
    if len(leaves) == 1:
        return f"{command_text(*leaves[0], level=1)}\n\n{guide}"
    parts = [command_text(words, leaf, level=2) for words, leaf in leaves]
    return "\n".join([f"# expertload {name}\n\n{prose(command.help)}\n\n{guide}", *parts])


def write(app, config):
    """Write the pages before Sphinx looks for pages."""
    commands = typer.main.get_command(program).commands
    folder = Path(app.srcdir) / "reference" / "commands"
    write_changed(folder, {f"{name}.md": page(name, one) for name, one in commands.items()})


def setup(app):
    """Write the pages before Sphinx looks for pages."""
    app.connect("config-inited", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
