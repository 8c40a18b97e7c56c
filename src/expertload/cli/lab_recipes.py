"""`expertload lab recipes [NAME]`."""

from __future__ import annotations

from typing import Annotated

import typer

from expertload.cli.screen import console


def recipes(
    name: Annotated[
        str | None, typer.Argument(help="A recipe to print.", show_default=False)
    ] = None,
) -> None:
    """List the recipes that come with the library, or print one.

    A printed recipe is a good start for your own: `expertload lab recipes digits > mine.toml`. Or
    write only the settings that differ, below a first line `extends = "digits"`.
    """
    from expertload.lab.runs.recipe_files import describe_recipes, read_recipe_text

    if name is not None:
        typer.echo(read_recipe_text(name), nl=False)
        return

    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("recipe", no_wrap=True)
    table.add_column("what it is")
    for recipe, what in sorted(describe_recipes().items()):
        table.add_row(recipe, Text(what))
    console().print(table)
