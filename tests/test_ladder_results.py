"""The evidence of the ladder: CSV from finished runs, and tables from the CSV."""

from __future__ import annotations

import csv
import re
from statistics import fmean, stdev

import pytest
from scipy.stats import ttest_rel
from tools.evidence import files
from tools.evidence.ladder import measure_ladders
from tools.evidence.pages import make

from expertload.exceptions import FileFormatError
from expertload.lab.ladder.steps import STEPS
from tests.lab.ladder.made_up import ARMS, write_arm
from tests.pages import ROOT

SEEDS = (0, 1, 2)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Three pairs of networks, the last without AUCOC; beside them their CSV."""
    place = tmp_path_factory.mktemp("ladder") / "runs"
    for arm in ARMS:
        folder = place / ("digits-plain" if arm == "plain" else "digits")
        for seed in (*SEEDS, *(seed + 100 for seed in SEEDS)):
            if arm != "aucoc" or seed % 100 < 2:
                write_arm(folder, arm, seed)
    assert list(measure_ladders(place, into=place / "ladder.csv")) == ["digits: 3 seeds"]
    return place


@pytest.fixture
def measured(runs, monkeypatch):
    """The lines of the CSV, which tables are then made of."""
    monkeypatch.setattr(files, "LADDER", runs / "ladder.csv")
    with files.LADDER.open(newline="") as stream:
        return list(csv.DictReader(stream))


def of_step(lines, step, name):
    return {int(line["seed"]): float(line[name]) for line in lines if line["step"] == step}


def test_one_line_is_one_step_of_one_seed(measured):
    steps = [(int(line["seed"]), line["step"]) for line in measured]
    full = [*STEPS, "aucoc_always"]
    wanted = [(seed, step) for seed in (0, 1) for step in full]
    assert steps == [*wanted, *((2, step) for step in full[:5])]


def test_the_numbers_are_those_of_the_steps(measured):
    for line in measured:
        assert (line["first_target"], line["second_target"]) == ("0.9", "0.95")
        assert 0 <= float(line["first_load"]) <= float(line["second_load"]) <= 1
        assert 0 <= float(line["certified_load"]) <= 1
        assert float(line["certified_accuracy"]) >= 0.8 or line["certified"] == "0.0"
    by_step = {step: fmean(of_step(measured, step, "aucoc").values()) for step in STEPS}
    assert list(by_step.values()) == sorted(by_step.values())  # as they were made up


@pytest.mark.slow
def test_measuring_again_keeps_other_data_sets(runs, measured, tmp_path):
    path = tmp_path / "ladder.csv"
    (line,) = [line for line in measured if (line["step"], line["seed"]) == ("plain", "0")]
    files.write_records(path, [*measured, {**line, "experiment": "others"}])
    list(measure_ladders(runs, into=path))
    kept = files.read_records(path)
    assert [record for record in kept if record["experiment"] == "digits"] == measured
    assert len(kept) == len(measured) + 1


def test_the_table_by_hand(measured):
    (line,) = [
        [cell.strip() for cell in line.strip("|\n").split("|")]
        for line in make("ladder digits").splitlines()
        if line.startswith("| + augmentation |")
    ]
    after, before = (of_step(measured, step, "first_load") for step in ("augmentation", "plain"))
    test = ttest_rel(list(after.values()), list(before.values()))
    low, high = test.confidence_interval(0.95)
    change = 100 * (fmean(after.values()) - fmean(before.values()))
    assert line[1] == "3"
    assert line[8] == f"{change:+.1f} ({100 * low:+.1f} to {100 * high:+.1f})"
    assert line[9] == (f"{test.pvalue:.3f}" if test.pvalue >= 0.001 else "< 0.001")
    assert line[10] == line[8]  # its step before is the first


def test_a_forced_step_is_compared_with_the_networks_without_it(measured):
    (line,) = [
        line for line in make("ladder digits").splitlines() if line.startswith("| AUCOC whatever")
    ]
    after, before = (of_step(measured, step, "aucoc") for step in ("aucoc_always", "networks"))
    change = 100 * fmean(after[seed] - before[seed] for seed in after)
    assert f"{change:+.2f} (" in line


def test_the_summary_by_hand(measured):
    line = make("ladder-summary").splitlines()[-1]
    plain = of_step(measured, "plain", "first_load")
    top = {
        **of_step(measured, "networks", "first_load"),
        **of_step(measured, "aucoc", "first_load"),
    }
    change = fmean(top.values()) - fmean(plain.values())
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[0] == "digits at 90 %"
    assert re.match(rf"{re.escape(f'{100 * change:+.1f}')} \(", cells[4])
    assert cells[5] == f"{100 * change / fmean(plain.values()):+.0f} %"


def test_a_folder_without_ladders_is_refused(tmp_path):
    with pytest.raises(FileFormatError, match="no folder NAME-plain"):
        list(measure_ladders(tmp_path))


def test_the_table_of_calibration_by_hand(measured):
    lines = make("ladder-calibration").splitlines()
    assert len(lines) == 4
    for line, step in zip(lines[2:], ("plain", "networks"), strict=True):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert cells[0] == f"digits, {STEPS[step].removeprefix('+ ')}"
        errors, losses, scores = (
            [*of_step(measured, step, name).values()] for name in ("ece", "nll", "brier")
        )
        assert cells[1:] == [
            "3",
            f"{100 * fmean(errors):.1f} ± {100 * stdev(errors):.1f}",
            f"{fmean(losses):.3f} ± {stdev(losses):.3f}",
            f"{fmean(scores):.3f} ± {stdev(scores):.3f}",
        ]


def test_the_certified_loads_in_the_prose_are_those_of_the_tables():
    page = (ROOT / "docs" / "lower_load.md").read_text()
    (promise,) = re.findall(r"The certified load falls(.*?)On RetinaMNIST", page, flags=re.S)
    claims = re.findall(r"from ([\d.]+) to\s+([\d.]+) % on ([\w-]+\w)", promise)
    assert len(claims) == 3
    for before, after, name in claims:
        section = page[page.index(f"\n## {name}") :].partition("<!-- end of results")[0]
        table = [
            [c.strip() for c in line.split("|")] for line in section.splitlines() if "|" in line
        ]
        column = next(i for i, word in enumerate(table[0]) if word.startswith("certified load"))
        steps = [row for row in table if row[1].startswith(("cross-entropy alone", "+"))]
        first, last = steps[0][column], steps[-1][column]
        assert (first.split()[0], last.split()[0]) == (before, after), name
