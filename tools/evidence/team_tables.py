"""Tables of the page about teams, from the CSV that `tools.evidence.team` writes."""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean

from tools.evidence.files import TEAM, TEAM_CERTIFICATES, TEAM_READERS, TEAM_WEAK, read_records
from tools.evidence.markdown import DASH, spread, table

TITLES = {
    "cifar10h_resnet110": "CIFAR-10H, ResNet-110",
    "cifar10h_weak": "CIFAR-10H, weaker network",
    "tweets": "tweets",
    "tweets_off_panel": "tweets, reader not on the panel",
}
RULES = {
    "plain": "team",
    "combined": "team, answers combined",
    "compare_confidences": "compare confidences",
    "codoc_like": "like CoDoC",
}
PROMISES = {
    "not_worse": "not worse than experts",
    "not_worse_margin": "at most a point worse",
    "team": "a target for the team",
    "combined_team": "the same, answers combined",
}
AGREEMENTS = ("majority", "consensus", "consensus, a fifth golden")


def _by_data() -> dict[str, Callable[[str], list[float]]]:
    """Return, for each data set, a function from a column to its values."""
    records = read_records(TEAM)

    def values_of(name: str) -> Callable[[str], list[float]]:
        own = [record for record in records if record["data"] == name]
        return lambda column: [float(record[column]) for record in own]

    return {name: values_of(name) for name in dict.fromkeys(r["data"] for r in records)}


def team_summary() -> str:
    """Return experts, model, team and combined team, and the loads of equal accuracy."""
    lines = []
    for name, column in _by_data().items():
        plain, combined = fmean(column("plain_load")), fmean(column("combined_load"))
        saved = f"{1 - combined / plain:.0%}" if combined < plain else "does not reach it"
        lines.append(
            [
                TITLES[name],
                *(spread(column(c)) for c in ("experts", "model", "plain_best", "combined_best")),
                f"{plain:.1%}",
                f"{combined:.1%}" if combined < 1 else DASH,
                saved,
            ]
        )
    headings = ["people and model", "experts alone", "model alone", "team at best", "combined"]
    return table([*headings, "load of the team", "combined, as accurate", "less load"], lines)


def team_rules() -> str:
    """Return the best accuracy of each rule, and its load there."""
    lines = []
    for name, column in _by_data().items():
        cells = [
            f"{100 * fmean(column(f'{rule}_best')):.2f} at {fmean(column(f'{rule}_best_load')):.1%}"
            for rule in RULES
        ]
        lines.append([TITLES[name], *cells])
    return table(["people and model", *RULES.values()], lines)


def team_stated() -> str:
    """Return what was stated about the team beside what is true on other cases."""
    lines = []
    for name, column in _by_data().items():
        true = column("true")
        gaps = (
            [100 * (a - b) for a, b in zip(column(what), true, strict=True)]
            for what in ("stated", "stated_constant")
        )
        stated, constant = (f"{fmean(gap):+.2f}" for gap in gaps)
        lines.append([TITLES[name], spread(column("stated")), spread(true), stated, constant])
    headings = ["people and model", "stated", "true", "points too high"]
    return table([*headings, "with a constant expert accuracy"], lines)


def team_certificates() -> str:
    """Return the certified loads, and how often a promise was broken."""
    lines = [
        [
            f"{TITLES[record['data']]}: {PROMISES[record['promise']]}",
            f"{int(record['n']):,}",
            record["draws"],
            f"{float(record['certified']):.0%}",
            f"{float(record['load']):.1%}",
            f"{float(record['broken']):.1%}",
        ]
        for record in read_records(TEAM_CERTIFICATES)
    ]
    return table(["promise", "cases", "draws", "certified", "mean load", "broken"], lines)


def team_readers() -> str:
    """Return the range of readers, and how right they are together."""
    records = read_records(TEAM_READERS)
    lines = []
    for finding in dict.fromkeys(record["finding"] for record in records):
        own = {r["reader"]: r for r in records if r["finding"] == finding}
        alone = [float(r["accuracy"]) for name, r in own.items() if name not in AGREEMENTS]
        together = (
            f"{float(own[how]['accuracy']):.1%} ({float(own[how]['sensitivity']):.0%})"
            for how in AGREEMENTS
        )
        title = finding.replace("_", " ").lower()
        lines.append([title, f"{min(alone):.1%} to {max(alone):.1%}", *together])
    return table(["finding", "single readers", *AGREEMENTS], lines)


def team_weak_reader() -> str:
    """Return how many golden readings find a reader who is ten points worse."""
    lines = [
        [
            record["finding"].replace("_", " ").lower(),
            f"{float(record['others_error']):.1%}",
            f"{float(record['median']):.0f}",
            f"{float(record['ninety_percent']):.0f}",
            f"{float(record['within_150']):.0%}",
            f"{float(record['falsely_found']):.1%}",
        ]
        for record in read_records(TEAM_WEAK)
    ]
    headings = ["finding", "others err", "found after, median", "90 %", "within 150"]
    return table([*headings, "falsely found in 600"], lines)
