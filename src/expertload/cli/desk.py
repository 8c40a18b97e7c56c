"""`expertload desk`: serve, activate policies, copy, verify, export."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from expertload._files import write_atomically
from expertload._names import Purpose, Which
from expertload.cli.files import check_output
from expertload.cli.options import OptionGroup, check_policy, takes
from expertload.cli.screen import console, one_line
from expertload.exceptions import ParameterError

if TYPE_CHECKING:
    from expertload.desk import Desk

HERE = "http://127.0.0.1:8765"
SERVED_AT = "address.txt"  # in the folder of a desk
Place: TypeAlias = str  # of a desk: a folder, or an address


def _place(
    data: Path | None = None,
    database: Annotated[str | None, typer.Option(envvar="EXPERTLOAD_DESK_DATABASE")] = None,
) -> str:
    """Return the folder or the address of the desk, if exactly one is given.

    Parameters
    ----------
    data : FOLDER
        The folder of the desk (SQLite).
    database : URL
        The database of the desk: a postgresql:// address.
    """
    from expertload._check import require_extra

    for module in ("sqlalchemy", "alembic", "fastapi"):
        require_extra(module, "desk", "expertload desk")
    from expertload.desk.store import is_postgres

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


def open_desk(place: Place, **options: Any) -> Desk:
    """Open the desk in a folder or at an address.

    Commands that only read one make no new one (`may_make=False`): a mistyped folder would look
    like a desk without cases.

    Examples
    --------
    >>> import tempfile
    >>> from expertload.cli.desk import open_desk
    >>> with tempfile.TemporaryDirectory() as folder, open_desk(folder) as desk:
    ...     print(desk.project)
    main
    """
    from expertload.desk import Desk

    return Desk.open(place, **options)


DESK = OptionGroup(_place, _place)
OPEN = OptionGroup(lambda **at: open_desk(_place(**at)), _place)
EXISTING = OptionGroup(lambda **at: open_desk(_place(**at), may_make=False), _place)


@takes(place=DESK)
def serve(
    host: str = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8765,
    trusted_header: str | None = None,
    proxy_secret: Annotated[str, typer.Option(envvar="EXPERTLOAD_DESK_PROXY_SECRET")] = "",
    oidc_issuer: Annotated[str | None, typer.Option(show_default=False)] = None,
    oidc_client: Annotated[str, typer.Option(show_default=False)] = "",
    oidc_secret: Annotated[str, typer.Option(envvar="EXPERTLOAD_DESK_OIDC_SECRET")] = "",
    oidc_claim: str = "email",
    passwords: bool = True,
    *,
    place: Place,
) -> None:
    """Serve a desk until Ctrl-C; writes in progress are finished first.

    Parameters
    ----------
    host : ADDRESS
        Address to listen on. 0.0.0.0 accepts other machines; put TLS in front of it.
    port
        Port to listen on; 0 takes a free one.
    trusted_header : NAME
        The header in which a trusted proxy names the user; see docs/desk/operator.md.
    proxy_secret : SECRET
        The secret that the proxy sends as X-Desk-Proxy-Secret.
    oidc_issuer : URL
        The OpenID Connect provider to sign in with.
    oidc_client : ID
        The desk's client ID at the provider.
    oidc_secret : SECRET
        The desk's client secret at the provider.
    oidc_claim : NAME
        The claim that holds the user's name.
    passwords
        Let people sign in with passwords and one-time links of the desk.
    """
    if not (passwords or trusted_header or oidc_issuer):
        raise typer.BadParameter("--no-passwords needs --trusted-header or --oidc-issuer.")
    with open_desk(place, serving=True) as desk:
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
            if Path(place).is_dir():
                write_atomically(Path(place, SERVED_AT), reached_at)
            console(stderr=True).print(f"The desk is at {address} (Ctrl-C ends it).")
            # Behind a proxy, nobody needs a link: 'desk user add' adds the first manager.
            needs_link = passwords and proxy is None
            if needs_link and (secret := desk.write(first_link)) is not None:
                link = f"{reached_at}/welcome/{secret}"
                typer.echo(f"Sign in as '{FIRST}' with this link, which works once: {link}")
            app = create_app(desk, proxy=proxy, provider=provider, passwords=passwords)
            serve_on(app, listening)


# ------------------------------------------------------------------ policies and rules


@takes(desk=OPEN)
def activate_policy(policy: Path, *, desk: Desk) -> None:
    """Let a certified policy decide from now on; it replaces the previous one.

    Parameters
    ----------
    policy
        A policy saved by 'expertload evaluate --save-policy'.
    """
    check_policy(policy)
    from expertload.desk.intake.routing import read_policy
    from expertload.desk.watch import policies

    document = policy.read_text(encoding="utf-8", errors="backslashreplace")
    number = desk.write(policies.add_policy, document)
    desk.write(policies.activate, number)
    active = read_policy(document)
    screen = console()
    screen.print(f"Policy {number} is active.", active.point.guarantee)
    if active.model is not None:
        screen.print(f"It decides only cases whose 'model' is '{one_line(active.model)}'.")


@takes(desk=EXISTING)
def withdraw_policy(number: int, reason: Annotated[str, typer.Option()], *, desk: Desk) -> None:
    """End a policy for good; from now on, every case goes to experts.

    Parameters
    ----------
    number
        The number of the policy.
    reason
        The reason, stored with the policy.
    """
    from expertload.desk.watch import policies

    desk.write(policies.withdraw, number, reason=reason)
    console().print(f"Policy {number} is withdrawn.")


@takes(desk=EXISTING)
def list_policies(*, desk: Desk) -> None:
    """List the policies: number, state, what is promised, for which model, and why it ended."""
    from expertload.desk.intake.routing import read_policy
    from expertload.desk.watch import policies

    for row in desk.read(policies.all_policies):
        policy = read_policy(row.document)
        point, reason = policy.point, f"  {one_line(row.reason)}" if row.reason else ""
        model = f", model {one_line(policy.model)}" if policy.model is not None else ""
        promise = f"accuracy {point.target_accuracy:g}, load {point.expert_load:.1%}{model}"
        console().print(f"{row.id}  {row.state}  {promise}{reason}")


@takes(place=DESK)
def rules(changes: Annotated[list[str] | None, typer.Argument()] = None, *, place: Place) -> None:
    """Show or change the rules: shares of cases to read, times, strict mode.

    Parameters
    ----------
    changes : NAME=VALUE
        For example quality_rate=0.1 strict=true.
    """
    given: dict[str, str | list[str]] = {}
    for change in changes or ():
        name, _, value = (part.strip() for part in change.partition("="))
        many = [part.strip() for part in value.split(",")] if value else []
        given[name] = many if name in ("classes", "webhook_hosts") else value
    with open_desk(place, may_make=bool(changes)) as desk:
        from expertload.desk.watch.state import edit_rules

        if given:
            current = desk.write(edit_rules, given)
        else:
            current = desk.read(lambda transaction: transaction.project.rules)
        for name, value in current.model_dump().items():
            console().print(f"{name} = {value}")


@takes(desk=EXISTING)
def erase(
    keys: Annotated[list[str] | None, typer.Argument()] = None,
    older_than: Annotated[int | None, typer.Option(min=0, show_default=False)] = None,
    *,
    desk: Desk,
) -> None:
    """Erase what was sent of cases: bodies and probabilities. Decisions and digests stay.

    Parameters
    ----------
    keys : KEY
        The keys of cases.
    older_than : DAYS
        Erase all cases received before.
    """
    from expertload.desk.queue import managing

    chosen = list(keys or ())
    if older_than is not None:
        moment = desk.clock() - older_than * 86_400_000_000
        chosen += desk.read(managing.keys_before, moment)
    n_erased = sum(desk.write(managing.erase, key) for key in chosen)
    console().print(f"Erased {n_erased} cases. Backups made before still have them.")


@takes(desk=EXISTING)
def backup(target: Path, *, desk: Desk) -> None:
    """Copy a desk while it runs; 'desk restore' reads the copy, on either database.

    Parameters
    ----------
    target
        A new file, written completely or not at all.
    """
    check_output(target)
    from expertload.desk.store.migrating import backup as copy

    copy(desk.database, target)
    console().print(f"Copied to {target}.")


@takes(place=DESK)
def restore(source: Path, *, place: Place) -> None:
    """Fill a new, empty desk from a backup.

    Parameters
    ----------
    source
        A file written by 'desk backup'.
    """
    from expertload.desk.store import open_database
    from expertload.desk.store.migrating import restore as fill

    with open_database(place) as opened:
        fill(source, opened)
        console().print(f"Restored from {source}.")


@takes(desk=EXISTING)
def verify(head: str | None = None, chain_only: bool = False, *, desk: Desk) -> None:
    """Check that nobody has changed the chain of events or the tables.

    Parameters
    ----------
    head : HEAD
        A head noted earlier, which must still be in the chain.
    chain_only
        Do not compare the tables with the events.
    """
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


@takes(desk=EXISTING)
def export(
    out: Path,
    cases: Which = "all",
    purpose: Annotated[Purpose, typer.Option("--for")] = "evaluation",
    *,
    desk: Desk,
) -> None:
    """Export the cases, one row each, as a data set for training, or with answers for other tools.

    'expertload evaluate' reads the labelled cases. A data set for training leaves out the cases
    that certify models, for all time.

    Parameters
    ----------
    out
        A .jsonl, .csv or .parquet file; a new folder for training; .json for tools.
    cases
        All, those labelled by experts, or those decided and audited; not beside --for.
    purpose
        What the export is for: docs/loop.md explains it.
    """
    if purpose != "evaluation" and cases != "all":
        raise typer.BadParameter(f"--for {purpose} says which cases. Leave out --cases {cases}.")
    if purpose == "training":
        from expertload.desk.trail.training import export_for_training

        manifest = export_for_training(desk, out)
        console().print(f"{manifest['n_cases']} cases written to {out}. {manifest['note']}")
        return
    check_output(out)
    if purpose in ("label-studio", "argilla"):
        from expertload.desk.trail.training import export_annotations

        n = export_annotations(desk, out, tool=purpose)
        console().print(f"{n} cases written to {out}.")
        return
    from expertload.desk.trail.export import export as write

    which: Which = "readings" if purpose == "readers" else cases
    n = write(desk, out, which=which)
    console().print(f"{n} {'readings' if which == 'readings' else 'cases'} written to {out}.")


@takes(desk=EXISTING)
def dossier(out: Path, *, desk: Desk) -> None:
    """Write the oversight file: what the model may decide, what was promised, who watches it.

    Parameters
    ----------
    out
        A new folder, written completely or not at all.
    """
    from expertload.desk.pages.audit import write_dossier

    console().print(f"Open {write_dossier(desk, out)}.")
