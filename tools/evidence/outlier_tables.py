"""Makes the tables of outliers from results/ladder_outliers.csv."""

from __future__ import annotations

from expertload.lab.ladder.steps import STEPS
from tools.evidence import files
from tools.evidence.files import read_records
from tools.evidence.ladder_tables import TITLES, BySeed, change, numbers, points
from tools.evidence.markdown import DASH, p_value, spread, table

SCORES = {"msp": "MSP", "odin": "ODIN", "maxlogit": "max logit", "energy": "energy"}

Found = dict[tuple[str, str], dict[str, BySeed]]


def read_outliers() -> Found:
    """The lines by data set and kind of outliers, then by step and by seed."""
    found: Found = {}
    for record in read_records(files.OUTLIERS):
        key = record["experiment"], record["outliers"]
        found.setdefault(key, {}).setdefault(record["step"], {})[int(record["seed"])] = record
    order = [*TITLES, *(name for name, _ in found)]
    return dict(sorted(found.items(), key=lambda item: order.index(item[0][0])))


def ladder_outliers() -> str:
    """Return a table of how well confidence separates outliers from test images, by step."""
    found = read_outliers()
    steps = [step for step in STEPS if any(step in own for own in found.values())]
    headings = [
        "AUROC of outliers by confidence (%)",
        "seeds",
        *(STEPS[step] for step in steps),
        "last step against the first",
        "p",
        "FPR95, first step",
        "FPR95, last step",
    ]
    return table(headings, [_line(key, own, steps) for key, own in found.items()])


def _line(key: tuple[str, str], own: dict[str, BySeed], steps: list[str]) -> list[str]:
    climbed = [step for step in steps if step in own]
    first, last = own[climbed[0]], own[climbed[-1]]
    gained = change(last, first, "msp_auroc") if len(climbed) > 1 else None
    return [
        _title(*key),
        str(len(last)),
        *(
            spread([*numbers(own.get(step, {}), "msp_auroc").values()], decimals=1)
            for step in steps
        ),
        points(gained),
        DASH if gained is None else p_value(gained.p_value),
        *(spread([*numbers(step, "msp_fpr95").values()], decimals=1) for step in (first, last)),
    ]


def ladder_outlier_scores(step: str = "averaging") -> str:
    """Return a table of how well each score of one network finds outliers."""
    lines = [
        [
            _title(*key),
            str(len(own[step])),
            *(
                spread([*numbers(own[step], f"{score}_auroc").values()], decimals=1)
                for score in SCORES
            ),
        ]
        for key, own in read_outliers().items()
        if step in own
    ]
    return table(["AUROC of outliers (%)", "seeds", *SCORES.values()], lines)


def _title(experiment: str, outliers: str) -> str:
    own = TITLES.get(experiment, experiment)
    kind, _, argument = outliers.partition(":")
    if kind == "corrupted":
        return f"{own}, corrupted, severity {argument.rpartition(':')[2]}"
    return f"{own}, {TITLES.get(f'ladder-{outliers}', outliers)}"
