"""The tables that compare losses."""

from __future__ import annotations

import json

from expertload.lab.results.measures import find_measure
from expertload.lab.results.rows import ResultRow
from expertload.lab.runs.finished import describe_options
from expertload.losses.build import LOSS_NAMES
from tools.evidence.experiments import (
    SUMMARY,
    Difference,
    by_seed,
    chosen_rows,
    paired,
    rows_of,
    tuning_seeds,
)
from tools.evidence.gather import Compared, best_baseline, read_comparisons
from tools.evidence.markdown import DASH, p_value, spread, table


def summary() -> str:
    """Return one line per experiment: cross-entropy with and without AUCOC, and alternatives."""
    headings = [
        "test AUCOC (%)",
        "seeds",
        "ce",
        "ce+aucoc",
        "change (95 % interval)",
        "best other loss on validation data",
        "ensemble of ce",
        "load, ce",
        "load, ce+aucoc",
    ]
    lines = [
        _summary_line(name, title, load) for name, (title, load) in SUMMARY.items() if rows_of(name)
    ]
    return table(headings, lines)


def _summary_line(name: str, title: str, load: str) -> list[str]:
    own = chosen_rows(name)
    seeds = sorted(by_seed(own["ce"]).keys() & by_seed(own["ce+aucoc"]).keys())

    def over_seeds(loss: str, metric: str, decimals: int) -> str:
        found = by_seed(own[loss], metric)
        return spread([found[seed] for seed in seeds], decimals=decimals)

    best = best_baseline([row for row in rows_of(name) if row.loss != "ce"])
    return [
        title,
        str(len(seeds)),
        over_seeds("ce", "aucoc", 2),
        over_seeds("ce+aucoc", "aucoc", 2),
        str(paired(by_seed(own["ce+aucoc"]), by_seed(own["ce"]))),
        DASH if best is None else f"{spread(list(by_seed(own[best]).values()))} ({best})",
        spread(_ensemble(own["ce"])),
        f"{over_seeds('ce', load, 1)} at {load.partition('@')[2]} %",
        over_seeds("ce+aucoc", load, 1),
    ]


def _ensemble(rows: list[ResultRow]) -> list[float]:
    return [r.value for r in rows if r.n_runs > 1 and (r.split, r.metric) == ("test", "aucoc")]


def differences(name: str) -> str:
    """Compare every loss with cross-entropy, seed by seed."""
    own = chosen_rows(name)
    loads = {row.metric for row in own.get("ce", []) if row.metric.startswith("load@")}
    numbers = [find_measure(m) for m in ("aucoc", "accuracy", *sorted(loads))]
    lines = [
        [
            describe_options(loss, json.loads(own[loss][0].options)),
            *(
                str(paired(by_seed(own[loss], number.name), by_seed(own["ce"], number.name)))
                for number in numbers
            ),
        ]
        for loss in LOSS_NAMES
        if loss in own and loss != "ce"
    ]
    arrows = [f"{n.heading} {'↑' if n.higher_is_better else '↓'}" for n in numbers]
    return table(["against ce, in points", *arrows], lines)


def paired_tests(name: str) -> str:
    """Compare AUCOC with cross-entropy or focal loss, and with the best baseline."""
    headings = [
        "AUCOC, in points",
        "change over seeds",
        "p, seeds",
        "over seeds without tuning",
        "ensembles (%)",
        "their change over cases",
        "p, closed form",
        "p, permutation",
    ]
    lines = [_test_line(one) for one in read_comparisons() if one.experiment == name]
    return table(headings, lines)


def _test_line(one: Compared) -> list[str]:
    change = Difference(one.seeds_difference, one.seeds_low, one.seeds_high, one.n_seeds)
    cases = Difference(
        one.ensemble_first - one.ensemble_second, one.closed_form_low, one.closed_form_high, 2
    )
    best = " (best baseline)" if "best baseline" in one.role else ""
    return [
        f"{one.first} against {one.second}{best}",
        str(change),
        p_value(one.seeds_p),
        str(_without_tuning(one)),
        f"{100 * one.ensemble_first:.2f} / {100 * one.ensemble_second:.2f}",
        str(cases),
        p_value(one.closed_form_p),
        p_value(one.permutation_p),
    ]


def _without_tuning(one: Compared) -> Difference:
    """Return the change over the seeds that were not used to choose options.

    If the validation split of a seed favours an option by chance, its test split may do so too.
    """
    sides = ((one.experiment, one.first_loss), (one.second_experiment, one.second_loss))
    tuned = set().union(
        *(tuning_seeds([r for r in rows_of(name) if r.loss == loss]) for name, loss in sides)
    )
    first, second = (
        {s: value for s, value in by_seed(chosen_rows(name)[loss]).items() if s not in tuned}
        for name, loss in sides
    )
    return paired(first, second)
