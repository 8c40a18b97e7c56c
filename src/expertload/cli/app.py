"""The `expertload` command: its tree of commands, and how errors are shown.

A new command is a new file and one line here. An error that the library raises on purpose becomes
one sentence on standard error and exit code 1. Wrong use of the command line gives exit code 2, and
Ctrl-C gives 130, as in shells.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from expertload import __version__
from expertload.cli import (
    decide,
    desk,
    desk_demo,
    desk_people,
    evaluate,
    lab_data,
    lab_ensemble,
    lab_evaluate,
    lab_lower_load,
    lab_ood,
    lab_predict,
    lab_recipes,
    lab_sweep,
    lab_table,
    lab_train,
    monitor,
    plot,
)
from expertload.cli.interrupts import raised_as_exception
from expertload.cli.outputs import give_up_standard_output
from expertload.cli.screen import complain, saying_warnings
from expertload.exceptions import ExpertLoadError

__all__ = ["app"]


class _SayingErrors(TyperGroup):
    """A group of commands that prints errors as sentences."""

    def invoke(self, ctx: Any) -> Any:
        """Run the chosen command."""
        try:
            raised_as_exception()
            with saying_warnings():
                return super().invoke(ctx)
        except KeyboardInterrupt:
            complain("Stopped; run the same command again to continue.", style="yellow")
            raise typer.Exit(130) from None
        except ExpertLoadError as error:
            if ctx.params.get("debug"):
                raise
            complain(str(error))
            raise typer.Exit(1) from error
        except OSError as error:
            if ctx.params.get("debug") or error.filename is not None:
                raise
            complain(give_up_standard_output(error))
            raise typer.Exit(1) from error


def _group(help: str) -> typer.Typer:  # noqa: A002 - the name typer gave it
    return typer.Typer(help=help, no_args_is_help=True, rich_markup_mode="markdown")


app = typer.Typer(
    cls=_SayingErrors,
    help="Operate classifiers at high accuracy and low expert load.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("evaluate")(evaluate.evaluate)
app.command("decide")(decide.decide)
app.command("plot")(plot.plot)
app.command("monitor")(monitor.monitor)

lab = _group("Experiments: data, training, sweeps, tables.")
data = _group("The data sets of the lab.")

app.add_typer(lab, name="lab")
lab.add_typer(data, name="data")
data.command("list")(lab_data.list_data)
data.command("fetch")(lab_data.fetch_data)
lab.command("recipes")(lab_recipes.recipes)
lab.command("train")(lab_train.train)
lab.command("sweep")(lab_sweep.sweep)
lab.command("lower-load")(lab_lower_load.lower_load)
lab.command("evaluate")(lab_evaluate.evaluate)
lab.command("ensemble")(lab_ensemble.ensemble)
lab.command("predict")(lab_predict.predict)
lab.command("ood")(lab_ood.ood)
lab.command("table")(lab_table.table)
lab.command("compare")(lab_table.compare)

desk_group = _group("Run the desk: cases, experts, and a monitored promise.")
desk_token = _group("Bearer tokens for programs.")
desk_policy = _group("Certified policies.")
desk_user = _group("People who sign in.")

app.add_typer(desk_group, name="desk")
desk_group.add_typer(desk_token, name="token")
desk_group.add_typer(desk_policy, name="policy")
desk_group.add_typer(desk_user, name="user")
desk_group.command("demo")(desk_demo.demo)
desk_group.command("serve")(desk.serve)
desk_group.command("rules")(desk.rules)
desk_group.command("backup")(desk.backup)
desk_group.command("restore")(desk.restore)
desk_group.command("verify")(desk.verify)
desk_group.command("export")(desk.export)
desk_token.command("add")(desk.add_token)
desk_token.command("revoke")(desk.revoke_token)
desk_user.command("add")(desk_people.add_user)
desk_user.command("link")(desk_people.link_user)
desk_user.command("disable")(desk_people.disable_user)
desk_policy.command("activate")(desk.activate_policy)
desk_policy.command("withdraw")(desk.withdraw_policy)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"expertload {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error.", show_default=False)
    ] = False,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Handle the options that precede a command."""
