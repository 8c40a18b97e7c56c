"""`expertload evaluate FILE...` and `expertload cascade SMALL LARGE`: files of predictions."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from expertload import __version__
from expertload._files import explained_write_errors
from expertload._format import percent
from expertload._names import METHODS, ColumnNames, FileOptions, Identity
from expertload.cli.files import check_models, check_outputs, print_warnings, read_models, say_where
from expertload.cli.options import (
    COLUMNS,
    IDENTITY,
    OPENING,
    AsJson,
    Names,
    Report,
    numbers_in,
    takes,
)
from expertload.cli.screen import console, one_line, table_of, true_text
from expertload.exceptions import InsufficientDataError, ShapeError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from expertload.cli.evaluation_text import SplitChoice
    from expertload.evaluation import Compared, Evaluation
    from expertload.io import PredictionsTable
    from expertload.operating_point import CertifiedCascade

    Models = dict[str, tuple[PredictionsTable, Evaluation]]
    Comparisons = tuple[dict[str, Compared], dict[str, str]]  # and why others were not compared


@takes(columns=COLUMNS.without("probabilities"), identity=IDENTITY, opening=OPENING)
def evaluate(
    files: list[Path],
    target_accuracy: list[float] | None = None,
    out: Report = None,
    save_policy: Path | None = None,
    confidence_level: float = 0.95,
    method: Annotated[
        str, typer.Option(metavar="NAME", help=f"How thresholds are tested: {', '.join(METHODS)}.")
    ] = "spending",
    certify_groups: bool = False,
    promise: list[str] | None = None,
    cluster_promise: str = "all_cases",
    choose_confidence: bool = False,
    seed: int = 0,
    readings: Path | None = None,
    name: Names = None,
    title: str = "Expert load report",
    as_json: AsJson = False,
    probabilities: list[str] | None = None,
    *,
    columns: ColumnNames,
    identity: Identity,
    opening: FileOptions,
) -> None:
    """Evaluate predictions: the curve, its area, the load at a target, a certified threshold.

    Columns are found by name: `y_true`, `label`, `target` or `class` with `p_*`, `prob_*` or
    `proba_*` (or `logit_*`); or `confidence` with `correct`, or with a label and `y_pred`;
    `group`; `sample_weight`.

    Parameters
    ----------
    files : FILE
        Predictions: .csv, .parquet, .jsonl, .npz, or a DuckDB database. Several files are models
        compared on the same cases.
    target_accuracy : ACCURACY, default 0.95
        The accuracy that automatic decisions must reach. May be repeated: all are certified
        together, and the first one is shown.
    save_policy : POLICY.json
        Save the certified operating point for 'expertload decide'.
    confidence_level : LEVEL
        Confidence level of the intervals and the guarantee.
    certify_groups
        Certify a threshold for each group, or each --promise to each group; --save-policy then
        saves all of them.
    promise : PROMISE
        Promise something about a class, with a threshold for each answer:
        'precision:malignant=0.98' (automatic answers that are right) or 'missed:malignant=0.02'
        (cases decided as something else). May be repeated; --save-policy then saves these
        thresholds.
    cluster_promise : NAME
        The promise for clusters: all_cases, or one_case_each drawn at random.
    choose_confidence
        Choose the score that ranks cases on a part of them, and certify on the others.
    seed
        The seed of the split for --choose-confidence.
    readings : FILE
        Answers of several readers (columns case, reader, answer), in place of --expert; one reader
        of each case is drawn at random, and cases are matched by --id.
    title
        The report's heading.
    probabilities : PATTERN, default by name
        Columns with the probabilities: 'p_*', or names separated by commas. Repeat it to compare
        several models.
    """
    check_models(files, probabilities or [], identity.model)
    if save_policy is not None and len(files) > 1:
        raise typer.BadParameter("--save-policy needs one FILE: a policy belongs to one model.")
    check_outputs(out, save_policy, others=files)

    read = read_models(files, name, columns, probabilities or [], identity, opening)
    if readings is not None:
        read = _with_readers(read, readings)
    tables, apart = _matched(read)
    if save_policy is not None and len(tables) > 1:
        raise typer.BadParameter("--save-policy needs one model: a policy belongs to one model.")
    targets, choice = target_accuracy or [0.95], None
    if choose_confidence:
        from expertload.cli.evaluation_text import choose_on_a_part

        choice = choose_on_a_part(tables, seed, targets[0], confidence_level)
        tables = dict.fromkeys(tables, choice.rest)
    models = _evaluate(
        tables,
        choice,
        target_accuracy=targets,
        confidence_level=confidence_level,
        method=method,
        certify_groups=certify_groups,
        promises=promise or [],
        cluster_promise=cluster_promise,
    )
    from expertload.evaluation import compare_with_first

    evaluations = {called: evaluation for called, (_, evaluation) in models.items()}
    compared, others = compare_with_first(evaluations)
    comparisons = compared, {**others, **apart}
    try:  # files first: a reader such as `head` may close the output early
        if out is not None:
            from expertload.report import build_report

            with explained_write_errors(out):
                build_report(evaluations, path=out, title=true_text(title))
        if save_policy is not None:
            is_named = name is not None or identity.model not in (None, "none")
            _save_policy(models, save_policy, is_named=is_named)
    finally:
        _show(models, comparisons, choice, as_json=as_json)
    say_where(console(stderr=as_json), out, save_policy)  # JSON is alone on standard output


def _with_readers(
    tables: Mapping[str, PredictionsTable], readings: Path
) -> dict[str, PredictionsTable]:
    """Give each case the answer of one of its readers, drawn at random."""
    from expertload.io import read_readings

    read = read_readings(readings)
    answered = {}
    for name, table in tables.items():
        if table.identifiers is None or table.cases.expert_answers is not None:
            raise typer.BadParameter("--readings needs an --id column, and excludes --expert.")
        answers = read.draw(table.identifiers)
        answered[name] = replace(table, cases=table.cases.with_experts(answers))
    return answered


def _evaluate(
    tables: Mapping[str, PredictionsTable], choice: SplitChoice | None, **promise: Any
) -> Models:
    """Evaluate each model, by the chosen score if there is one, and print warnings."""
    models = {}
    for called, table in tables.items():
        evaluation = table.evaluate(score=choice and choice.score, **promise)
        models[called] = table, evaluation if choice is None else choice.explain(evaluation)
    print_warnings(tables.values())
    return models


def _show(
    models: Models, comparisons: Comparisons, choice: SplitChoice | None, *, as_json: bool
) -> None:
    if as_json:
        chosen = {"confidence_choice": choice.to_dict()} if choice else {}
        content = {**_to_dict(models, comparisons), **chosen}
        typer.echo(json.dumps(content, indent=2, allow_nan=False))
        return
    from expertload.cli.evaluation_text import print_choice, print_comparisons, print_evaluation

    screen = console()
    if choice is not None:
        print_choice(screen, choice)
    for called, (table, evaluation) in models.items():
        print_evaluation(screen, called, table, evaluation)
    print_comparisons(screen, models, comparisons, _matched_by(models))


def _matched(
    read: Mapping[str, PredictionsTable],
) -> tuple[dict[str, PredictionsTable], dict[str, str]]:
    """Put the cases of all models into the order of the first; or say why that is impossible."""
    from expertload.io import match_cases

    first = next(iter(read))
    tables, apart = dict(read), {}
    for name in [*read][1:]:
        try:
            tables[name] = match_cases({first: read[first], name: read[name]})[name]
        except ShapeError as error:
            apart[name] = str(error)
    return tables, apart


def _matched_by(models: Models) -> str | None:
    """Return the column by which cases were matched; None if there is none."""
    columns = {evaluation.identified_by for _, evaluation in models.values()}
    return columns.pop() if len(columns) == 1 else None


def _save_policy(models: Models, path: Path, *, is_named: bool) -> None:
    """Save the policy; it decides for one model only if somebody has named that model."""
    called, (_, evaluation) = next(iter(models.items()))
    policy = evaluation.policy
    certified = getattr(policy, "certified", evaluation.is_certified)
    if policy is None or not certified:
        raise InsufficientDataError("No policy was saved, because nothing is certified.")
    with explained_write_errors(path):
        policy.save(path, model_name=called if is_named else None)


def _to_dict(models: Models, comparisons: Comparisons) -> dict[str, Any]:
    first, (compared, apart) = next(iter(models)), comparisons
    return {
        "expertload": __version__,
        "models": [
            {
                "name": called,
                "file": table.where,
                "columns": {k: v for k, v in asdict(table.columns).items() if k != "is_half"},
                **evaluation.to_dict(),
            }
            for called, (table, evaluation) in models.items()
        ],
        "cases_matched_by": _matched_by(models) if compared else None,
        "comparisons": [
            {
                "models": f"{other} minus {first}",
                **asdict(difference.aucoc),
                "load": difference.load and asdict(difference.load),
            }
            for other, difference in compared.items()
        ],
        **({"not_compared": apart} if apart else {}),
    }


# ------------------------------------------------------------------ two models in sequence


@takes(
    columns=COLUMNS.without("group", "weight"),
    identity=IDENTITY.only("identifier", "cluster"),
    opening=OPENING,
)
def cascade(
    small: Path,
    large: Path,
    target_accuracy: float = 0.95,
    handover: list[float] | None = None,
    costs: str = "0,0,1",
    confidence_level: float = 0.95,
    save_policies: Path | None = None,
    name: Names = None,
    as_json: AsJson = False,
    *,
    columns: ColumnNames,
    identity: Identity,
    opening: FileOptions,
) -> None:
    """Certify two models in sequence before a person: two thresholds, and one promise over both.

    The small model decides cases at or above its threshold. Else the large model is asked, and
    decides at or above its own. Else an expert does. Columns are found by name, as for `expertload
    evaluate`.

    Parameters
    ----------
    small : SMALL
        Predictions of the model that is asked first, as for 'evaluate'.
    large : LARGE
        Predictions of the model that is asked next, about the same cases; matched by --id, or else
        in the same order.
    target_accuracy : ACCURACY
        The accuracy to promise among all cases that either model decides.
    handover : CONFIDENCE, default the target accuracy
        Below this confidence the small model hands over to the large one; fixed without looking at
        these labels. May be repeated: each is tested at its share of the level, and the cheapest is
        taken.
    costs : PRICES
        The prices of asking the small model, the large model and an expert about one case.
    confidence_level : LEVEL
        The confidence level of the promise.
    save_policies : FOLDER
        Save the policies of both models, small.json and large.json, for 'expertload decide': first
        all cases by the small one, then those left to experts by the large one.
    """
    from expertload.io import match_cases
    from expertload.operating_point import certify_cascade

    names = replace(columns, group="none", weight="none")
    read = read_models(
        [small, large], name, names, [*filter(None, [names.probabilities])], identity, opening
    )
    tables = match_cases(read)
    print_warnings(tables.values())
    first, then = (table.cases for table in tables.values())
    certified = certify_cascade(
        first,
        then,
        handover=handover or [target_accuracy],
        target_accuracy=target_accuracy,
        confidence_level=confidence_level,
        costs=numbers_in(costs, "prices", "1,20,300"),
    )
    stages = _stages(certified, [*tables])
    if as_json:
        shown = ("confidence_level", "is_certified", "guarantee", "expert_load", "mean_cost")
        content = {
            "expertload": __version__,
            "files": [table.where for table in tables.values()],
            "n_cases": int(certified.point.n_cases),
            "target_accuracy": certified.point.target_accuracy,
            **{what: getattr(certified, what) for what in shown},
            "stages": stages,
        }
        typer.echo(json.dumps(content, indent=2, allow_nan=False))
    else:
        _show_cascade(certified, stages)
    if save_policies is None:
        return
    if not certified.is_certified:
        raise InsufficientDataError("No policies were saved, because nothing is certified.")
    with explained_write_errors(save_policies):
        save_policies.mkdir(parents=True, exist_ok=True)
        certified.small.save(save_policies / "small.json")
        certified.large.save(save_policies / "large.json")


def _stages(certified: CertifiedCascade, names: list[str]) -> list[dict[str, Any]]:
    """Return what each stage is asked and decides, as shares of all cases, and what that costs."""
    total, load = certified.point.n_cases, certified.expert_load
    points, asked = (certified.small, certified.large, None), (1.0, certified.large_share, load)
    return [
        {
            "name": name,
            "threshold": point.threshold if point and point.threshold < math.inf else None,
            "asked": share,
            "decided": point.n_accepted / total if point else load,
            "accuracy": point.accuracy if point else None,
            "cost": price * share,
        }
        for name, point, share, price in zip(
            [*names, "experts"], points, asked, certified.costs, strict=True
        )
    ]


def _show_cascade(certified: CertifiedCascade, stages: list[dict[str, Any]]) -> None:
    from expertload.operating_point.point import digits

    def row(stage: dict[str, Any]) -> list[str]:
        threshold, right = stage["threshold"], stage["accuracy"]
        return [
            one_line(stage["name"]),
            "" if threshold is None else digits(threshold),
            percent(stage["asked"]),
            percent(stage["decided"]),
            "" if right is None else percent(right),
            f"{stage['cost']:.4g}",
        ]

    headings = ["stage", "threshold", "asked", "decides", "right of these", "cost of a case"]
    load, screen = certified.expert_load, console()
    screen.print(table_of(headings, map(row, stages)))
    screen.print()
    screen.say(
        f"The models decide {percent(1 - load)} of {certified.point.n_cases:.0f} cases and leave "
        f"{percent(load)} to experts. A case costs {certified.mean_cost:.4g} on average, and "
        f"{certified.costs[2]:.4g} if experts decide all."
    )
    style = "green" if certified.is_certified else "yellow"
    screen.say(certified.guarantee, style)
