"""The `expertload` command: its tree of commands, and how errors are shown.

A new command is a new file and one line here. An error that the library raises on purpose becomes
one sentence on standard error and exit code 1. Wrong use of the command line gives exit code 2, and
Ctrl-C gives 130, as in shells.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from expertload import __version__
from expertload.cli import (
    decide,
    desk,
    desk_cases,
    desk_people,
    evaluate,
    lab_lower_load,
    lab_results,
    lab_train,
    monitor,
    plot,
)
from expertload.cli.options import takes
from expertload.cli.screen import complain, give_up_standard_output, warnings_as_sentences
from expertload.exceptions import ExpertLoadError

# What Python calls otherwise than the command line, in messages about values.
OTHER_NAMES = {
    **{"promises": "promise", "groups": "group", "clusters": "cluster"},
    **{"random_state": "seed", "sample_weight": "weight"},
}


class _NamesOptions(TyperCommand):
    """A command whose errors name the option, where the library names its argument."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except ExpertLoadError as error:
            options = {
                option.name: option.opts[0] for option in self.params if option.opts[0][0] == "-"
            }

            def spelled(argument: re.Match[str]) -> str:
                return options.get(OTHER_NAMES.get(argument[1], argument[1]), argument[0])

            error.args = (re.sub(r"^'(\w+)'(?= (?:must|needs) )", spelled, str(error)),)
            raise


class _ErrorsAsSentences(TyperGroup):
    """A group of commands that prints errors as sentences."""

    def invoke(self, ctx: Any) -> Any:
        """Run the chosen command."""
        try:
            with warnings_as_sentences():
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


class _Group(NamedTuple):
    """Commands, named after their functions: `list_users` is `list` in the group `user`."""

    name: str
    help: str
    commands: list[Callable[..., None] | _Group]

    def fill(self, made: typer.Typer) -> None:
        """Add the commands to typer's group."""
        for entry in self.commands:
            if isinstance(entry, _Group):
                inner = typer.Typer(help=entry.help, no_args_is_help=True, rich_markup_mode=None)
                entry.fill(inner)
                made.add_typer(inner, name=entry.name)
                continue
            name = re.sub(f"_{self.name[:-1]}.*", "", entry.__name__).replace("_", "-")
            command = entry if hasattr(entry, "__signature__") else takes()(entry)
            summary = (command.__doc__ or "").partition("\n\n")[0]
            made.command(name, cls=_NamesOptions, short_help=summary)(command)


DATA = _Group("data", "List and download data sets.", [lab_train.list_data, lab_train.fetch_data])
LAB = _Group(
    "lab",
    "Experiments: data, training, sweeps, tables.",
    [
        *(lab_train.recipes, lab_train.train, lab_train.sweep, lab_lower_load.lower_load),
        *(lab_results.evaluate, lab_results.ensemble, lab_results.predict, lab_results.ood),
        *(lab_results.table, lab_results.compare, DATA),
    ],
)
TOKEN = _Group(
    "token",
    "Give programs access: bearer tokens.",
    [desk_people.add_token, desk_people.list_tokens, desk_people.revoke_token],
)
POLICY = _Group(
    "policy",
    "Activate or withdraw certified policies.",
    [desk.activate_policy, desk.list_policies, desk.withdraw_policy],
)
USER = _Group(
    "user",
    "Give people access, or end it.",
    [
        *(desk_people.add_user, desk_people.list_users, desk_people.link_user),
        *(desk_people.away_user, desk_people.disable_user, desk_people.enable_user),
    ],
)
DESK = _Group(
    "desk",
    "Run the desk: cases, experts, and a monitored promise.",
    [
        *(desk_cases.demo, desk_cases.send, desk.serve, desk.rules, desk.backup, desk.restore),
        *(desk.verify, desk.erase, desk.export, desk.dossier, TOKEN, POLICY, USER),
    ],
)
COMMANDS = _Group(
    "expertload",
    "Operate classifiers at high accuracy and low expert load.\n\n"
    "Start with `expertload evaluate predictions.csv --out report.html`, or try `expertload desk "
    "demo`.",
    [
        *(evaluate.evaluate, decide.decide, evaluate.cascade, plot.plot),
        *(monitor.sample, monitor.monitor),
        *(_Group("policy", "Use a saved policy elsewhere.", [decide.sql]), LAB, DESK),
    ],
)
app = typer.Typer(
    cls=_ErrorsAsSentences,
    help=COMMANDS.help,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS.fill(app)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"expertload {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Handle the options that precede a command."""
