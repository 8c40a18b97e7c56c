"""`expertload desk`: serve, activate policies, copy, verify, export."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from expertload._files import write_atomically
from expertload._names import Purpose, Which
from expertload.cli.outputs import check_output
from expertload.cli.screen import console, one_line

if TYPE_CHECKING:
    from expertload.desk import Desk

Data = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="The folder of the desk (SQLite)."),
]
Address = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="URL",
        envvar="EXPERTLOAD_DESK_DATABASE",
        help="The database of the desk: a postgresql:// address.",
    ),
]

HERE = "http://127.0.0.1:8765"
SERVED_AT = "address.txt"  # in the folder of a desk


def open_desk(
    data: Path | None, database: str | None, *, serving: bool = False, may_make: bool = True
) -> Desk:
    """Open the desk that the options --data or --database name.

    Commands that only read or copy a desk make no new one.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from expertload.cli.desk import open_desk
    >>> with tempfile.TemporaryDirectory() as folder, open_desk(Path(folder), None) as desk:
    ...     print(desk.project)
    main
    """
    place = _place(data, database)
    from expertload.desk import Desk

    return Desk.open(place, serving=serving, may_make=may_make)


def _place(data: Path | None, database: str | None) -> str:
    """Return the folder or the address of the desk, if exactly one is given."""
    from expertload._check import require_extra

    for module in ("sqlalchemy", "alembic", "fastapi"):
        require_extra(module, "desk", "expertload desk")
    from expertload.desk.store import is_postgres
    from expertload.exceptions import ParameterError

    if (data is None) == (database is None):
        raise ParameterError(
            "Name one desk: --data FOLDER, or --database postgresql://… "
            f"Got {'neither' if data is None else 'both'}. "
            "Hint: EXPERTLOAD_DESK_DATABASE, if set, counts as --database."
        )
    if database is not None and not is_postgres(database):
        raise ParameterError(
            "--database must be a postgresql:// address. Got another one. Hint: name the folder of "
            "a desk with --data FOLDER."
        )
    return str(data) if database is None else database


def serve(
    data: Data = None,
    database: Address = None,
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="Address to listen on. 0.0.0.0 accepts other machines; put TLS in front of it.",
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")
    ] = 8765,
    trusted_header: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The header in which a trusted proxy names the user; see docs/desk/operator.md.",
        ),
    ] = None,
    proxy_secret: Annotated[
        str,
        typer.Option(
            metavar="SECRET",
            envvar="EXPERTLOAD_DESK_PROXY_SECRET",
            help="The secret that the proxy sends as X-Desk-Proxy-Secret.",
        ),
    ] = "",
    oidc_issuer: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="The OpenID Connect provider to sign in with.", show_default=False
        ),
    ] = None,
    oidc_client: Annotated[
        str,
        typer.Option(
            metavar="ID", help="The desk's client ID at the provider.", show_default=False
        ),
    ] = "",
    oidc_secret: Annotated[
        str,
        typer.Option(
            metavar="SECRET",
            envvar="EXPERTLOAD_DESK_OIDC_SECRET",
            help="The desk's client secret at the provider.",
        ),
    ] = "",
    oidc_claim: Annotated[
        str, typer.Option(metavar="NAME", help="The claim that holds the user's name.")
    ] = "email",
    passwords: Annotated[
        bool,
        typer.Option(help="Let people sign in with passwords and one-time links of the desk."),
    ] = True,
) -> None:
    """Serve a desk until Ctrl-C; writes in progress are finished first."""
    if not (passwords or trusted_header or oidc_issuer):
        raise typer.BadParameter("--no-passwords needs --trusted-header or --oidc-issuer.")
    with open_desk(data, database, serving=True) as desk:
        from expertload.desk.app import create_app, listen
        from expertload.desk.app import serve as serve_on
        from expertload.desk.people.sessions import FIRST, first_link
        from expertload.desk.people.sign_on import OpenIdConnect, TrustedProxy

        proxy = TrustedProxy(trusted_header, proxy_secret) if trusted_header else None
        provider = None
        if oidc_issuer is not None:
            provider = OpenIdConnect(oidc_issuer, oidc_client, oidc_secret, oidc_claim)
        with listen(host, port) as listening:
            name = f"[{host}]" if ":" in host else host
            address = f"http://{name}:{listening.getsockname()[1]}"
            reached_at = os.environ.get("EXPERTLOAD_DESK_ADDRESS", address).rstrip("/")
            if data is not None:
                write_atomically(data / SERVED_AT, reached_at)
            console(stderr=True).print(f"The desk is at {address} (Ctrl-C ends it).", markup=False)
            # Behind a proxy, nobody needs a link: 'desk user add' adds the first manager.
            needs_link = passwords and proxy is None
            if needs_link and (secret := desk.write(first_link)) is not None:
                link = f"{reached_at}/welcome/{secret}"
                typer.echo(f"Sign in as '{FIRST}' with this link, which works once: {link}")
            app = create_app(desk, proxy=proxy, provider=provider, passwords=passwords)
            serve_on(app, listening)


# ------------------------------------------------------------------ policies and rules


def activate_policy(
    policy: Annotated[
        Path, typer.Argument(help="A policy saved by 'expertload evaluate --save-policy'.")
    ],
    data: Data = None,
    database: Address = None,
) -> None:
    """Let a certified policy decide from now on; it replaces the previous one."""
    from expertload.exceptions import DataNotFoundError

    if not policy.is_file():
        raise DataNotFoundError(
            f"There is no file {policy}. Hint: make it with "
            f"expertload evaluate FILE --target-accuracy 0.95 --save-policy {policy}"
        )
    with open_desk(data, database) as desk:
        from expertload.desk.intake.routing import read_policy
        from expertload.desk.watch import policies

        document = policy.read_text(encoding="utf-8", errors="replace")
        number = desk.write(policies.add_policy, document)
        desk.write(policies.activate, number)
        active = read_policy(document)
    screen = console()
    screen.print(f"Policy {number} is active.", active.point.guarantee)
    if active.model is not None:
        screen.print(f"It decides only cases whose 'model' is '{one_line(active.model)}'.")


def withdraw_policy(
    number: Annotated[int, typer.Argument(help="The number of the policy.")],
    reason: Annotated[str, typer.Option(help="The reason, stored with the policy.")],
    data: Data = None,
    database: Address = None,
) -> None:
    """End a policy for good; from now on, every case goes to experts."""
    with open_desk(data, database, may_make=False) as desk:
        from expertload.desk.watch import policies

        desk.write(policies.withdraw, number, reason=reason)
        console().print(f"Policy {number} is withdrawn.")


def list_policies(data: Data = None, database: Address = None) -> None:
    """List the policies: number, state, what is promised, and why it ended."""
    with open_desk(data, database, may_make=False) as desk:
        from expertload.desk.intake.routing import read_policy
        from expertload.desk.watch import policies

        for row in desk.read(policies.all_policies):
            point = read_policy(row.document).point
            reason = f"  {one_line(row.reason)}" if row.reason else ""
            promise = f"accuracy {point.target_accuracy:g}, load {point.expert_load:.1%}"
            console().print(f"{row.id}  {row.state}  {promise}{reason}", markup=False)


def rules(
    changes: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME=VALUE", help="For example quality_rate=0.1 strict=true."),
    ] = None,
    data: Data = None,
    database: Address = None,
) -> None:
    """Show or change the rules: shares of cases to read, times, strict mode."""
    given: dict[str, str | list[str]] = {}
    for change in changes or ():
        name, _, value = (part.strip() for part in change.partition("="))
        many = [each.strip() for each in value.split(",")] if value else []
        given[name] = many if name in ("classes", "webhook_hosts") else value
    with open_desk(data, database, may_make=bool(changes)) as desk:
        from expertload.desk.watch.state import edit_rules

        if given:
            current = desk.write(edit_rules, given)
        else:
            current = desk.read(lambda transaction: transaction.project.rules)
        for name, value in current.model_dump().items():
            console().print(f"{name} = {value}")


def erase(
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="KEY", help="The keys of cases.")
    ] = None,
    older_than: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="DAYS", help="Erase all cases received before.", show_default=False
        ),
    ] = None,
    data: Data = None,
    database: Address = None,
) -> None:
    """Erase what was sent of cases: bodies and probabilities. Decisions and digests stay."""
    with open_desk(data, database, may_make=False) as desk:
        from expertload.desk.watch import policies

        chosen = list(keys or ())
        if older_than is not None:
            moment = desk.clock() - older_than * 86_400_000_000
            chosen += desk.read(policies.keys_before, moment)
        n_erased = sum(desk.write(policies.erase, key) for key in chosen)
        console().print(f"Erased {n_erased} cases. Backups made before still have them.")


def backup(
    target: Annotated[Path, typer.Argument(help="A new file, written completely or not at all.")],
    data: Data = None,
    database: Address = None,
) -> None:
    """Copy a desk while it runs; 'desk restore' reads the copy, on either database."""
    check_output(target)
    with open_desk(data, database, may_make=False) as desk:
        from expertload.desk.store.migrating import backup as copy

        copy(desk.database, target)
        console().print(f"Copied to {target}.")


def restore(
    source: Annotated[Path, typer.Argument(help="A file written by 'desk backup'.")],
    data: Data = None,
    database: Address = None,
) -> None:
    """Fill a new, empty desk from a backup."""
    place = _place(data, database)
    from expertload.desk.store import open_database
    from expertload.desk.store.migrating import restore as fill

    with open_database(place) as opened:
        fill(source, opened)
        console().print(f"Restored from {source}.")


def verify(
    data: Data = None,
    database: Address = None,
    head: Annotated[
        str | None,
        typer.Option(
            metavar="HEAD", help="A head noted earlier, which must still be in the chain."
        ),
    ] = None,
    chain_only: Annotated[
        bool, typer.Option("--chain-only", help="Do not compare the tables with the events.")
    ] = False,
) -> None:
    """Check that nobody has changed the chain of events or the tables."""
    with open_desk(data, database, may_make=False) as desk:
        from expertload.desk.trail import chain

        verdict = desk.read(chain.verify, head=head, tables=not chain_only)
    screen = console()
    screen.print(
        f"{verdict.n_events} events in {verdict.n_blocks} sealed blocks, "
        f"{verdict.n_unsealed} not sealed yet. Head: {verdict.head}"
    )
    for problem in verdict.problems:
        screen.print(problem, style="red")
    if not verdict.is_intact:
        raise typer.Exit(1)
    screen.print("Nothing was changed.")


def export(
    out: Annotated[
        Path,
        typer.Argument(
            help="A .jsonl, .csv or .parquet file; a new folder for training; .json for tools."
        ),
    ],
    data: Data = None,
    database: Address = None,
    cases: Annotated[
        Which, typer.Option(help="All, those labelled by experts, or those decided and audited.")
    ] = "all",
    purpose: Annotated[
        Purpose, typer.Option("--for", help="What the export is for: docs/loop.md explains it.")
    ] = "evaluation",
) -> None:
    """Export the cases, one row each, as a data set for training, or with answers for other tools.

    'expertload evaluate' reads the labelled cases. A data set for training leaves out the cases
    that certify models, for all time.
    """
    if purpose != "training":
        check_output(out)
    with open_desk(data, database, may_make=False) as desk:
        if purpose == "training":
            from expertload.desk.trail.training import export_for_training

            manifest = export_for_training(desk, out)
            console().print(f"{manifest['n_cases']} cases written to {out}. {manifest['note']}")
            return
        if purpose in ("label-studio", "argilla"):
            from expertload.desk.trail.annotations import export_annotations

            n = export_annotations(desk, out, tool=purpose)
            console().print(f"{n} cases written to {out}.")
            return
        from expertload.desk.trail.export import export as write

        which: Which = "readings" if purpose == "readers" else cases
        n = write(desk, out, which=which)
        console().print(f"{n} {'readings' if which == 'readings' else 'cases'} written to {out}.")


def dossier(
    out: Annotated[Path, typer.Argument(help="A new folder, written completely or not at all.")],
    data: Data = None,
    database: Address = None,
) -> None:
    """Write the oversight file: what the model may decide, what was promised, who watches it."""
    with open_desk(data, database, may_make=False) as desk:
        from expertload.desk.pages.dossier import write_dossier

        console().print(f"Open {write_dossier(desk, out)}.")
