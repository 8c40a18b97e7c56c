"""`expertload monitor POLICY AUDITS`: is the promise still kept? And `sample`: what to audit."""

from __future__ import annotations

import io
import json
import math
import sys
from contextlib import nullcontext, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from expertload import __version__
from expertload._files import explained_write_errors, one_at_a_time
from expertload._names import AuditColumns, FileOptions
from expertload.cli.files import check_output, check_picture, save_picture
from expertload.cli.options import (
    OPENING,
    AsJson,
    OptionGroup,
    Policy,
    Rows,
    fields_of,
    load_policy,
    takes,
)
from expertload.cli.screen import complain, console
from expertload.exceptions import ExpertLoadError, FileFormatError, ParameterError

if TYPE_CHECKING:
    from expertload.io import AuditTable
    from expertload.monitoring import AccuracyMonitor
    from expertload.operating_point import CertifiedClasses, ClassPromise
    from expertload.operating_point.point import Label
    from expertload.operating_point.storage import Saved

    # the name of a promise, the policy that makes it, what it is about, and the group
    Watch = tuple[str | None, Any, ClassPromise | None, Label | None]
    Watched = tuple[str | None, AccuracyMonitor, AuditTable, int]


REFUTED = 3
TOGETHER = (
    "The policy promises this for every group, and audits are counted together: a group may be "
    "worse than the average. Hint: --query selects the audits of one group, if 'expertload decide "
    "--keep' kept its column."
)
DRAWN = (
    "This holds if audits are drawn at random, as 'expertload sample' draws them, and if experts "
    "label them rightly without seeing the decision."
)
STYLES = {"confirmed": "green", "not refuted": "yellow", "refuted": "red"}


@fields_of(AuditColumns)
def _audit_columns() -> None:
    """Name the columns of audits.

    Parameters
    ----------
    correct : COLUMN, default by name
        Whether the decision was right; empty while a review is open.
    decided : COLUMN, default by name
        The decided label, instead of --correct.
    label : COLUMN, default by name
        The expert's label, with --decided; empty while a review is open.
    inclusion_probability : COLUMN, default by name
        The probability with which the case was audited.
    decided_at : COLUMN, default by name
        When the case was decided.
    key : COLUMN, default by name
        The identifier of the case.
    """


@takes(columns=OptionGroup(AuditColumns, _audit_columns), opening=OPENING)
def monitor(
    policy: Policy,
    file: Path,
    state: Path | None = None,
    out: Path | None = None,
    blocks: int | None = None,
    order: str | None = None,
    least_inclusion_probability: float | None = None,
    promise: str | None = None,
    as_json: AsJson = False,
    *,
    columns: AuditColumns,
    opening: FileOptions,
) -> None:
    """Tell from audits whether a policy's accuracy is confirmed, not refuted or refuted.

    Ends with exit code 3 if it is refuted. Look as often as you like: the probability that a
    promise kept at every moment is ever called refuted is at most one minus the policy's
    confidence level.

    Parameters
    ----------
    file : AUDITS
        Audited automatic decisions: .csv, .parquet, .jsonl, .npz, or a DuckDB database.
    state : STATE.json
        Keep the audits in this file and continue from it next time. Cases need a key; rows already
        counted are skipped.
    out : PICTURE
        Draw the evidence over time: .png, .svg or .pdf.
    blocks, default no limit
        Watch only this many blocks of 50 audits; a limit finds a late fall sooner.
    order : NAME, default decision
        The order of audits: decision, or arrival, which counts labels as they arrive. Arrival is
        only valid if the time a review takes does not depend on the answer.
    least_inclusion_probability : PROBABILITY
        The smallest probability with which any decided case is audited, if these differ.
    promise : PROMISE, default all
        Watch one of several promises about classes, such as 'missed:malignant=0.02'; within a
        group, 'north: missed:malignant=0.02'.
    """
    if out is not None:
        check_picture(out, others=[policy, file, *filter(None, [state])])
    if state is not None:
        check_output(state, others=[policy, file])

    from expertload.io import check_not_sorted, read_audits
    from expertload.monitoring import AccuracyMonitor
    from expertload.operating_point import CertifiedGroups

    promised = load_policy(policy)
    watches = _watches(promised, promise)
    if len(watches) > 1 and (state or out):
        raise typer.BadParameter("--state and --out are for one promise: name it with --promise.")
    tables: dict[Label | None, AuditTable] = {}
    results = []
    for name, part, about, group in watches:
        fresh = AccuracyMonitor.from_policy(
            part,
            promise=about and str(about),
            least_inclusion_probability=least_inclusion_probability,
            blocks=blocks,
            order=order or "decision",
        )
        if group not in tables:
            tables[group] = read_audits(
                file,
                names=columns,
                options=opening if group is None else _of_group(group, file, opening, promised),
                classes=promised.origin.labels,
                with_delegated=about is not None,
            )
        if about is None:
            _check_decided(promised, file, opening)
        own = tables[group] if about is None else _about(about, tables[group], part)
        if order is None and own.decided_at is None:
            check_not_sorted(own)
        # Alone: the new audits of another run at the same time would be lost.
        with nullcontext() if state is None else one_at_a_time(state):
            watched = _continued(fresh, state, policy)
            n_new = _count(watched, own, keep=state is not None)
            if state is not None:
                with explained_write_errors(state):
                    watched.save(state)
        results.append((name, watched, own, n_new))
    if out is not None:
        from expertload.display import EvidenceDisplay

        save_picture(lambda: EvidenceDisplay.from_monitor(watched), out)
    _say(results, as_json=as_json)
    if not as_json:
        together = f"{TOGETHER} " if isinstance(promised, CertifiedGroups) else ""
        console().print(f"{together}{DRAWN}", style="dim")
    if out is not None:
        console(stderr=as_json).say(f"The plot is in {out}.")
    if any(watched.state == "refuted" for _, watched, *_ in results):
        raise typer.Exit(REFUTED)


def _watches(promised: Any, promise: str | None) -> list[Watch]:
    """Return what to watch: the policy's accuracy, or the promises about classes."""
    from expertload.operating_point import CertifiedClasses, CertifiedGroupClasses

    is_by_group = isinstance(promised, CertifiedGroupClasses)
    parts: Any = promised if is_by_group else {None: promised}
    known = [
        (str(about) if group is None else f"{group}: {about}", own, about, group)
        for group, own in parts.items()
        if isinstance(own, CertifiedClasses)
        for about, point in own.promises.items()
        if point.is_certified
    ]
    if not known and promise is None:
        return [(None, promised, None, None)]
    watches: list[Watch] = [watch for watch in known if promise in (None, watch[0])]
    if not watches:
        listed = ", ".join(watch[0] for watch in known) or "a policy's own; this one has none"
        raise ParameterError(f"--promise must be one of {listed}. Got {promise!r} instead.")
    return watches


def _of_group(group: Label, file: Path, opening: FileOptions, promised: Any) -> FileOptions:
    """Return options that also select the rows of a group."""
    from expertload.io.formats import quoted, text_of
    from expertload.io.source import open_source

    column = promised.origin.group_column or "group"
    named = quoted(open_source(file, opening).header.named(column))
    rows = opening.query or "SELECT * FROM file"
    query = f"SELECT * FROM ({rows}) WHERE {named}::VARCHAR = {text_of(str(group))}"
    return replace(opening, query=query)


def _about(about: ClassPromise, audits: AuditTable, promised: CertifiedClasses) -> AuditTable:
    """Return the cases that a promise is about; refuse misses without the delegated cases."""
    decided = () if audits.answers is None else audits.answers[0]
    is_partial = len(decided) and all(answer is not None for answer in decided)
    if about.kind == "missed" and promised.n_delegated and is_partial:
        raise FileFormatError(
            f"{audits.where} must also hold cases left to experts, for {about}: an expert who "
            "decides a case does not miss it. Without them, a kept promise would look broken. "
            "Hint: 'expertload sample --with-delegated' takes them too; a case that is not "
            "accepted, or has no decision, was left to experts."
        )
    return audits.about(about)


def _check_decided(promised: Saved, file: Path, opening: FileOptions) -> None:
    """Refuse cases that the policy leaves to experts, if the file has what it decides by."""
    from expertload.io import decide_file

    left = 0
    with suppress(ExpertLoadError):  # mostly, audits have no confidence and no probabilities
        left = decide_file(promised, file, out=io.StringIO(), options=opening).n_delegated
    if left:
        raise FileFormatError(
            f"{file} holds {left} case(s) that the policy leaves to experts, by their confidence: "
            "its promise is about automatic decisions only. Hint: decide the file first "
            "('expertload decide'), and audit what was accepted ('expertload sample')."
        )


def _continued(fresh: AccuracyMonitor, state: Path | None, policy: Path) -> AccuracyMonitor:
    """Return the monitor with the audits of previous runs."""
    from expertload.monitoring import AccuracyMonitor

    if state is None or not state.exists():
        return fresh
    earlier = AccuracyMonitor.load(state)
    if earlier.policy_digest not in (None, fresh.policy_digest):
        raise FileFormatError(
            f"{state} must hold audits of {policy}. Got audits of another policy, which say "
            "nothing about this one. Hint: name another file for --state, or pass the policy of "
            "these audits."
        )
    return fresh.merge(earlier)


def _count(watched: AccuracyMonitor, audits: AuditTable, *, keep: bool) -> int:
    """Count the new audits, and return their number."""
    import numpy as np

    from expertload.io import plain_key

    if keep and audits.key is None:
        raise FileFormatError(
            f"{audits.where} has no keys, so a second run would count its cases twice. Hint: "
            "name the column that identifies a case (--key), or leave out --state."
        )
    keys: list[Any] | None = audits.key
    if keep and keys is not None:
        known = watched.labels
        saved = {plain_key(key): key for key in known}  # keys may have been numbers in Python
        keys = [saved.get(key, key) for key in keys]
        # Counted before are those with the same label, or that are still open.
        is_new = [
            key not in known or not (math.isnan(grade) or known[key] == grade)
            for key, grade in zip(keys, audits.correct, strict=True)
        ]
        audits = replace(audits, key=keys).take(np.flatnonzero(is_new))
    if len(audits.correct):
        watched.update(
            audits.correct,
            inclusion_probability=audits.inclusion_probability,
            decided_at=audits.decided_at,
            key=audits.key,
        )
    return len(audits.correct)


def _say(results: list[Watched], *, as_json: bool) -> None:
    _, _, audits, _ = results[0]
    if as_json:
        documents = [
            {
                "expertload": __version__,
                "file": own.where,
                "columns": asdict(own.columns),
                "n_new": n_new,
                **({} if about is None else {"promise": about}),
                **watched.to_dict(),
            }
            for about, watched, own, n_new in results
        ]
        content = documents[0]
        if len(documents) > 1:
            content = {"expertload": content["expertload"], "promises": documents}
        typer.echo(json.dumps(content, indent=2, allow_nan=False))
        return
    screen = console()
    screen.say(f"{audits.where}: {audits.columns}", "dim")
    for about, watched, own, n_new in results:
        if n_new < len(own.correct):
            known = len(own.correct) - n_new
            screen.print(f"{known} of its rows were counted before.", style="dim")
        screen.print()
        if about is not None:
            screen.print(about, style="bold")
        screen.print(watched.summary(), style=STYLES[watched.state])


# ------------------------------------------------------------------ the next audits


@takes(opening=OPENING)
def sample(
    file: Path,
    out: Rows = None,
    rate: float = 0.1,
    more_doubtful: bool = False,
    key: str | None = None,
    cluster: str | None = None,
    with_delegated: bool = False,
    seed: int | None = None,
    *,
    opening: FileOptions,
) -> None:
    """Draw automatic decisions at random for experts to audit.

    The output has a row per audit, with the probability of being drawn and an empty column `label`
    for the expert's answer: the AUDITS that `expertload monitor` reads. Show experts the case, but
    not the decision.

    Parameters
    ----------
    file
        Decisions of 'expertload decide', with a kept key (--keep).
    rate
        The share of automatic decisions to audit; the same every month.
    more_doubtful
        Draw the less confident half three times as often as the other.
    key : COLUMN, default by name
        The identifier of the case.
    cluster : COLUMN
        The customer, patient, ... of a case: the rate is the share of these, and one case of each
        is drawn; 'none' turns off the warning about such columns.
    with_delegated
        Also take the cases left to experts, whose answers fill the column `label`: 'monitor' needs
        them for a promise such as 'missed:malignant=0.02'.
    seed, default random
        The seed of a draw that can be repeated.
    """
    from expertload.io import draw_audits

    if out is not None:
        check_output(out, others=[file])
    counts = draw_audits(
        file,
        out=sys.stdout if out is None else out,
        rate=rate,
        more_doubtful=more_doubtful,
        key=key,
        cluster=cluster,
        with_delegated=with_delegated,
        seed=seed,
        options=opening,
    )
    least = counts.least_inclusion_probability
    least = math.floor(least * 1e6) / 1e6  # rounded up, it would not be the least
    by_cluster = cluster not in (None, "none")
    differ = more_doubtful or by_cluster or with_delegated
    option = f" --least-inclusion-probability {least:g}" if differ else ""
    one = (
        f": --rate {rate:g} is the share of the clusters, with one case of each"
        if by_cluster
        else ""
    )
    if counts.warning:
        complain(f"Warning: {counts.warning}", style="yellow")
    others = f", and {counts.n_delegated} delegated cases taken" if with_delegated else ""
    console(stderr=True).say(
        f"{counts.n_drawn} of {counts.n_decided} automatic decisions were drawn{others}{one}. "
        f"When their labels are filled in: expertload monitor POLICY {out or 'AUDITS'}{option}"
    )
