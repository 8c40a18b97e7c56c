"""Every recipe that comes with the library can be run: names, networks and losses exist."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from expertload.lab.data import dataset_names
from expertload.lab.models import build_model
from expertload.lab.runs.recipe import SUBFOLDERS, load_recipe
from expertload.losses.build import LOSS_NAMES, build_loss

FOLDER = Path(__file__).resolve().parents[3] / "experiments"
FOLDERS = (FOLDER, *(FOLDER / name for name in SUBFOLDERS))
RECIPES = sorted(path.stem for folder in FOLDERS for path in folder.glob("*.toml"))
PAPER = {
    "cifar100": ("wide-resnet-28-10", 200, 512, 0.1, (60, 120, 160)),
    "cifar100-resnet50": ("resnet50", 200, 512, 0.1, (60, 120, 160)),
    "cifar100-lt-100": ("wide-resnet-28-10", 200, 512, 0.1, (60, 120, 160)),
    "tiny-imagenet": ("resnet50", 100, 512, 0.1, (40, 60)),
    "tiny-imagenet-wrn-28-10": ("wide-resnet-28-10", 100, 512, 0.1, (40, 60)),
    "dermamnist": ("resnet50", 100, 128, 0.0001, (50, 75)),
    "retinamnist": ("resnet50", 100, 128, 0.001, (50, 75)),
    "tissuemnist": ("resnet50", 100, 512, 0.001, (50, 75)),
    "dermamnist-batch-size-32": ("resnet50", 100, 32, 0.0001, (50, 75)),
    "dermamnist-batch-size-64": ("resnet50", 100, 64, 0.0001, (50, 75)),
}


@pytest.fixture(scope="module")
def loaded():
    return {name: load_recipe(name) for name in RECIPES}


@pytest.mark.parametrize("name", RECIPES)
def test_recipes_can_be_run(name, loaded):
    recipe = loaded[name]
    assert recipe.name == name
    assert recipe.data.name in dataset_names()
    with torch.device("meta"):  # shapes without numbers
        build_model(recipe.model.name, num_classes=10, **recipe.model.options)
    candidates = [candidate for loss in recipe.losses for candidate in recipe.candidates(loss)]
    for candidate in candidates:
        build_loss(candidate.name, weight=candidate.weight, **candidate.options)
    runs = [recipe.run(candidate, seed) for candidate in candidates for seed in (0, 1)]
    assert len({run.run_name for run in runs}) == len(runs)


@pytest.mark.parametrize("name", PAPER)
def test_settings_are_the_papers(name, loaded):
    recipe = loaded[name]
    training = recipe.training
    assert PAPER[name] == (
        recipe.model.name,
        training.epochs,
        training.batch_size,
        training.learning_rate,
        training.milestones,
    )
    assert training.optimiser == ("adam" if "mnist" in name else "sgd")
    assert (training.clip_norm, training.gamma, training.select_by) == (2.0, 0.1, "aucoc")
    low = "tiny" in name or "retina" in name
    assert recipe.evaluation.target_accuracies == ((0.65, 0.75) if low else (0.90, 0.95))


def test_the_eleven_losses_are_compared(loaded):
    ablations = ("batch-size", "gradient", "reflection", "warm-up", "weights")
    ablations += ("confirmation", "ladder", "claim")
    for name, recipe in loaded.items():
        if not any(word in name for word in ablations):
            assert tuple(recipe.losses) == LOSS_NAMES


def test_the_grids_are_the_papers(loaded):
    recipe = loaded["cifar100"]
    assert len(recipe.candidates("ce+savuc")) == 4 * 3
    assert len(recipe.candidates("focal+sece")) == 4 * 3
    assert [c.weight for c in recipe.candidates("ce+mmce")] == [2.0]
    weights = [c.weight for c in recipe.candidates("ce+aucoc")]
    # The authors' 1 to 10 beside a sum over 512 images, and the same numbers beside a mean.
    assert min(weights) == 0.002
    assert {0.005, 0.01, 1.0, 10.0} <= set(weights)


@pytest.mark.parametrize("name", ["cifar100-summed", "dermamnist-summed"])
def test_the_authors_sum_and_weights_can_be_trained(name, loaded):
    recipe = loaded[name]
    assert recipe.training.clip_norm == 2.0
    for loss in LOSS_NAMES:
        first, *_ = recipe.candidates(loss)
        options = first.options.get("primary_options", first.options)
        assert options["reduction"] == "sum"
    assert [c.weight for c in recipe.candidates("ce+aucoc")] == [1.0, 2.0, 5.0, 10.0]


@pytest.mark.parametrize(
    "name",
    [n for n in RECIPES if "summed" in n or (n in PAPER and "batch-size" not in n)],
)
def test_as_many_runs_as_the_page_says(name, loaded):
    """The candidates with one seed, then two more seeds of the chosen ones."""
    recipe = loaded[name]
    candidates = sum(len(recipe.candidates(loss)) for loss in recipe.losses)
    assert candidates + 2 * len(recipe.losses) == (83 if "summed" in name else 93)
