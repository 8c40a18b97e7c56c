"""Train for a low expert load, read the curve, choose the point at which to run.

Cross-entropy and cross-entropy with AUCOC are trained over a few seeds on handwritten digits that
were degraded until some need an expert. Everything is written to ``demo-output``.
"""

from __future__ import annotations

import logging
import shutil
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from scipy import stats
from scipy.special import softmax

from expertload import operating_point
from expertload.display import COCComparisonDisplay
from expertload.evaluation import evaluate_predictions
from expertload.lab.runs.folder import RunFolder
from expertload.lab.runs.recipe import LossConfig
from expertload.lab.runs.recipe_files import load_recipe
from expertload.lab.training.loop import train
from expertload.report import build_report

LOSSES = (LossConfig(name="ce"), LossConfig(name="ce+aucoc", weight=0.1))
SEEDS = range(4)
TARGET = 0.95
OUTPUT = Path("demo-output")
COLUMNS = {  # what is shown, where it stands in the results, and whether more of it is better
    "AUCOC": ("test", "aucoc", True),
    "accuracy": ("test", "accuracy", True),
    "load@90": ("test", "load@90", False),
    "load@95": ("test", "load@95", False),
    "ECE": ("test_calibrated", "ece", False),
}

Runs = dict[str, list[RunFolder]]


def train_all(console: Console) -> Runs:
    """Train every loss with every seed; each run is a folder."""
    recipe = load_recipe(Path(__file__).parents[1] / "experiments" / "digits.toml")
    configs = [recipe.run(loss, seed) for loss in LOSSES for seed in SEEDS]
    runs: Runs = {loss.name: [] for loss in LOSSES}
    for config in track(configs, f"training {len(configs)} networks", console=console):
        folder = OUTPUT / "runs" / config.run_name
        train(config, folder, accelerator="cpu")
        runs[config.loss.name].append(RunFolder(folder))
    return runs


def values(runs: list[RunFolder], part: str, name: str) -> list[float]:
    """One number of every run, in per cent."""
    return [100 * run.read_json("results.json")[part][name] for run in runs]


def table_of(runs: Runs) -> Table:
    """Mean and spread over seeds, the better of each column in bold."""
    table = Table("loss", box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    cells: dict[str, list[str]] = {loss: [loss] for loss in runs}
    for heading, (part, name, more_is_better) in COLUMNS.items():
        table.add_column(heading, justify="right", no_wrap=True)
        found = {loss: values(own, part, name) for loss, own in runs.items()}
        means = {loss: statistics.mean(own) for loss, own in found.items()}
        best = max(means.values()) if more_is_better else min(means.values())
        for loss, own in found.items():
            text = f"{means[loss]:.2f} ± {statistics.stdev(own):.2f}"
            cells[loss].append(f"[bold]{text}[/bold]" if means[loss] == best else text)
    for line in cells.values():
        table.add_row(*line)
    return table


def compared(runs: Runs) -> str:
    """Say in a sentence what the seeds say about the two losses."""
    without, with_aucoc = (np.array(values(own, "test", "aucoc")) for own in runs.values())
    gain = with_aucoc - without  # paired: a seed is the same order of the same images
    error = gain.std(ddof=1) / np.sqrt(len(gain))
    verdict = "beyond" if abs(gain.mean()) > stats.t.ppf(0.975, len(gain) - 1) * error else "within"
    return (
        f"AUCOC beside cross-entropy changes the area by {gain.mean():+.2f} ± {error:.2f} points "
        f"(mean and standard error over {len(gain)} seeds): {verdict} what chance allows."
    )


def probabilities(run: RunFolder, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Labels and probabilities of a split."""
    logits, labels = run.read_logits(split)
    return labels, softmax(logits.astype(np.float64), axis=1)


def choose_point(console: Console, run: RunFolder) -> None:
    """Choose a threshold on validation data, and see on test data what it does."""
    point = operating_point.choose(*probabilities(run, "validation"), target_accuracy=TARGET)
    console.print(f"chosen on validation data: {point}")
    labels, proba = probabilities(run, "test")
    accepted = proba.max(axis=1) >= point.threshold
    right = proba.argmax(axis=1) == labels
    console.print(
        f"on test data it delegates {1 - accepted.mean():.1%} of the images and is right in "
        f"{right[accepted].mean():.1%} of the rest; of {(~right).sum()} errors that the network "
        f"would make alone, {(~right & ~accepted).sum()} go to an expert instead. (A threshold "
        f"read from {len(run.read_logits('validation')[1])} cases is a choice, not a guarantee.)"
    )


def show(console: Console, runs: Runs, best: RunFolder) -> None:
    """Draw the curves, write the report, and say what can be promised.

    Neither training nor selection has seen the test images, so they can certify a threshold.
    """
    labels, _ = probabilities(best, "test")
    shown = {loss: probabilities(own[0], "test")[1] for loss, own in runs.items()}
    display = COCComparisonDisplay.from_predictions(labels, shown)
    display.figure_.savefig(OUTPUT / "coc.png", dpi=150)
    evaluations = {
        f"{loss}, seed {seed}": evaluate_predictions(
            *probabilities(run, "test"), target_accuracy=TARGET
        )
        for loss, own in runs.items()
        for seed, run in zip(SEEDS, own, strict=True)
    }
    build_report(evaluations, path=OUTPUT / "report.html", title="Degraded digits")
    promised = evaluate_predictions(*probabilities(best, "test"), target_accuracy=TARGET)
    console.print(f"\n[bold]What the test images can promise.[/bold] {promised.guarantee}")


def main() -> None:
    started = time.monotonic()
    console = Console(highlight=False)
    logging.getLogger("lightning").setLevel(logging.ERROR)
    torch.set_num_threads(1)  # the network is too small to gain from more
    shutil.rmtree(OUTPUT, ignore_errors=True)
    runs = train_all(console)

    console.print(
        f"\nOn 500 test images, mean and spread over {len(SEEDS)} seeds, in per cent. load@95 is "
        "the share of images that experts must see for 95 % accuracy on the rest; ECE is after "
        "temperature scaling.\n"
    )
    console.print(table_of(runs))
    console.print(f"\n{compared(runs)}\n")

    every = [run for own in runs.values() for run in own]
    best = max(every, key=lambda run: run.read_json("results.json")["validation"]["aucoc"])
    choose_point(console, best)
    show(console, runs, best)
    console.print(
        f"\nDone in {time.monotonic() - started:.0f} s. The curves: "
        f"{(OUTPUT / 'coc.png').resolve()}\nThe page to show around: "
        f"{(OUTPUT / 'report.html').resolve()}",
        soft_wrap=True,
    )


if __name__ == "__main__":
    sys.exit(main())
