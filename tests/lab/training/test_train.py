"""Training in one process: what comes out, and what is selected."""

from __future__ import annotations

import contextlib
import shutil

import numpy as np
import pytest
import torch
from PIL import Image
from tests.lab.conftest import tiny
from tests.lab.training.own_parts import (
    PLAIN,
    BackboneInModule,
    StopAfter,
    Tied,
    history,
    stop_after,
)
from torch import nn

from expertload import aucoc_score
from expertload.exceptions import ParameterError
from expertload.lab.runs.finished import FinishedRun
from expertload.lab.runs.folder import RunFolder
from expertload.lab.runs.network import apply_network, load_weights
from expertload.lab.training.loop import set_weight, train
from expertload.lab.training.setup import parameter_groups
from expertload.losses import build_loss
from expertload.losses.build import LOSS_NAMES

pytestmark = pytest.mark.training


@pytest.mark.parametrize("loss", LOSS_NAMES)
def test_every_loss_of_the_tables_trains(loss, run_path):
    results = train(tiny(loss), run_path)
    losses = [record["train_loss"] for record in history(run_path)]
    assert losses[1] < losses[0]
    assert results["test"]["accuracy"] > 0.1  # of ten classes
    assert RunFolder(run_path).is_done


class WeightedLoss(nn.CrossEntropyLoss):
    """A loss with a buffer, the weights of the classes, that knows where it was moved to."""

    moves = 0

    def __init__(self, first=1.0):
        super().__init__(weight=torch.tensor([first] + [1.0] * 9))

    def _apply(self, *arguments, **options):
        type(self).moves += 1
        return super()._apply(*arguments, **options)


def test_labels_are_smoothed_by_an_option_of_cross_entropy(tmp_path):
    plain = train(tiny(), tmp_path / "plain")
    smooth = train(tiny(options={"label_smoothing": 0.1}), tmp_path / "smooth")
    assert smooth["test"] != plain["test"]
    pair = {"weight": 0.1, "options": {"primary_options": {"label_smoothing": 0.1}}}
    assert train(tiny("ce+aucoc", **pair), tmp_path / "pair")["test"] != smooth["test"]


def test_a_loss_of_ones_own_trains_where_the_network_is(tmp_path):
    name = "tests.lab.training.test_train:WeightedLoss"
    before = WeightedLoss.moves
    plain, weighted = (
        train(tiny(name, options={"first": first}), tmp_path / f"{first}")["test"]
        for first in (1.0, 50.0)
    )
    assert plain["accuracy"] > 0.2  # of ten classes
    assert weighted["aucoc"] != plain["aucoc"]
    assert WeightedLoss.moves == before + 2  # to the device of the network, each of both


def test_a_run_is_a_folder(run_path):
    results = train(tiny(), run_path)
    assert {path.name for path in run_path.iterdir()} - {".lock"} == {
        "best.safetensors",
        "config.json",
        "environment.json",
        "metrics.jsonl",
        "results.json",
        "test.npz",
        "validation.npz",
    }
    folder = RunFolder(run_path)
    assert folder.config() == tiny()
    assert folder.read_json("results.json") == results
    logits, labels = folder.read_logits("test")
    assert logits.shape == (500, 10)
    proba = torch.from_numpy(logits).double().softmax(dim=1).numpy()
    assert results["test"]["aucoc"] == pytest.approx(aucoc_score(labels, proba), abs=1e-12)


def test_a_run_that_is_done_is_not_trained_again(run_path):
    results = train(tiny(), run_path)
    before = (run_path / "best.safetensors").stat().st_mtime_ns
    assert train(tiny(), run_path) == results
    assert (run_path / "best.safetensors").stat().st_mtime_ns == before


def test_a_run_that_another_process_finished_meanwhile_is_not_trained_again(run_path, monkeypatch):
    results = train(tiny(), run_path)
    before = {path: path.read_bytes() for path in run_path.iterdir()}
    (run_path / "results.json").unlink()  # another process is about to write it
    held = RunFolder.held

    @contextlib.contextmanager
    def held_in_the_end(folder):
        with held(folder):
            (run_path / "results.json").write_bytes(before[run_path / "results.json"])
            yield

    monkeypatch.setattr(RunFolder, "held", held_in_the_end)
    reporter = StopAfter(1)
    assert train(tiny(), run_path, reporter=reporter) == results
    assert not hasattr(reporter, "first_epoch")  # it was never told of a start
    assert {path: path.read_bytes() for path in run_path.iterdir()} == before


def test_seeds_decide(tmp_path):
    first, again, other = (
        train(tiny(seed=seed), tmp_path / name)
        for seed, name in ((0, "first"), (0, "again"), (1, "other"))
    )
    assert first["test"] == again["test"]
    assert first["test"] != other["test"]


@pytest.mark.parametrize("select_by", ["aucoc", "accuracy", "ece"])
def test_the_best_epoch_is_selected_on_validation_data(select_by, run_path):
    results = train(tiny(epochs=6, select_by=select_by), run_path)
    scores = [record[select_by] for record in history(run_path)]
    best = scores.index(min(scores) if select_by == "ece" else max(scores))
    assert results["best_epoch"] == best + 1
    assert results["validation"][select_by] == pytest.approx(scores[best], abs=1e-12)
    assert load_weights(run_path / "best.safetensors")[1] == {"epoch": best}


def test_the_learning_rate_falls_at_milestones(run_path):
    train(tiny(epochs=4, milestones=(1, 3), gamma=0.5, learning_rate=0.01), run_path)
    rates = [record["learning_rate"] for record in history(run_path)]
    assert rates == [0.01, 0.005, 0.005, 0.0025]


def test_one_cycle_rises_to_the_rate_and_falls_to_zero(run_path):
    one_batch = {"batch_size": 997, "epochs": 20}
    train(tiny(schedule="one-cycle", learning_rate=0.01, **one_batch), run_path)
    rates = [record["learning_rate"] for record in history(run_path)]
    assert [rates[n] for n in (0, 3, 6, 13)] == pytest.approx([0.0004, 0.0052, 0.01, 0.005])
    assert rates == [*sorted(rates[:6]), *sorted(rates[6:], reverse=True)]
    assert rates[-1] == pytest.approx(0.01 * (1 + np.cos(np.pi * 13 / 14)) / 2)


def test_one_cycle_moves_at_every_step(run_path):
    train(tiny(schedule="one-cycle", learning_rate=0.01, batch_size=500, epochs=1), run_path)
    assert history(run_path)[0]["learning_rate"] == pytest.approx(
        0.01 * (1 + np.cos(np.pi * 0.2 / 0.7)) / 2
    )


# A network that has hardly been trained makes the calibrator say so.
hardly_trained = pytest.mark.filterwarnings("ignore:TemperatureScaling")


@pytest.fixture
def even_data(tmp_path):
    """128 images to train on, so that two batches of 64 make one of 128."""
    rng = np.random.default_rng(0)
    arrays = {}
    for split, n in (("train", 128), ("val", 32), ("test", 32)):
        arrays[f"{split}_labels"] = np.arange(n) % 10
        noise = rng.integers(0, 20, (n, 8, 8), dtype=np.uint8)
        arrays[f"{split}_images"] = (
            noise + (20 * arrays[f"{split}_labels"]).astype(np.uint8)[:, None, None]
        )
    np.savez(tmp_path / "even.npz", **arrays)
    return f"npz:{tmp_path / 'even.npz'}"


def weights_after(path, **changes):
    given = {"model": PLAIN, "augment": False, "epochs": 2, "clip_norm": None, **changes}
    train(tiny(**{"optimiser": "sgd", "precision": "64-true", **given}), path)
    return load_weights(path / "best.safetensors")[0]


@hardly_trained
@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
def test_accumulated_gradients_are_those_of_a_larger_batch(optimiser, even_data, tmp_path):
    common = {"data": even_data, "optimiser": optimiser}
    one = weights_after(tmp_path / "one", batch_size=128, **common)
    sums = weights_after(tmp_path / "sums", batch_size=32, accumulate=4, **common)
    apart = weights_after(tmp_path / "apart", batch_size=32, **common)
    for name, expected in one.items():
        assert torch.allclose(sums[name], expected, rtol=0, atol=1e-12)
    assert not torch.allclose(apart["3.weight"], one["3.weight"], atol=1e-3)


@hardly_trained
def test_gradients_are_clipped(even_data, tmp_path):
    common = {"data": even_data, "batch_size": 128, "epochs": 1, "momentum": 0.0}
    before = weights_after(tmp_path / "still", learning_rate=1e-30, **common)
    after = weights_after(tmp_path / "clipped", learning_rate=1.0, clip_norm=0.01, **common)
    step = torch.cat([(after[name] - before[name]).flatten() for name in before])
    assert step.norm().item() == pytest.approx(0.01, rel=1e-4)


@pytest.mark.parametrize(("clip_norm", "share"), [(1e-6, 1.0), (1e6, 0.0), (None, 0.0)])
def test_how_often_gradients_were_clipped(clip_norm, share, run_path):
    results = train(tiny(epochs=1, clip_norm=clip_norm), run_path)
    assert [record["clipped"] for record in history(run_path)] == [share]
    assert results["clipped"] == share


@pytest.mark.parametrize("precision", ["bf16-mixed", "64-true"])
def test_precisions(precision, run_path):
    results = train(tiny("ce+aucoc", precision=precision), run_path)
    assert np.isfinite(results["test"]["aucoc"])
    dtype = torch.float64 if precision == "64-true" else torch.float32
    assert load_weights(run_path / "best.safetensors")[0]["head.weight"].dtype == dtype


@hardly_trained
@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a compiler")
def test_compiled_networks_train_to_the_same_kind_of_weights(tmp_path, monkeypatch):
    # More of them would be processes that import torch.
    monkeypatch.setattr("torch._inductor.config.compile_threads", 1)
    compiled = train(tiny(compile=True, epochs=1, model=PLAIN), tmp_path / "compiled")
    plain = train(tiny(epochs=1, model=PLAIN), tmp_path / "plain")
    assert compiled["test"]["aucoc"] == pytest.approx(plain["test"]["aucoc"], abs=0.02)
    names = [load_weights(tmp_path / n / "best.safetensors")[0] for n in ("compiled", "plain")]
    assert set(names[0]) == set(names[1])


@hardly_trained
@pytest.mark.parametrize("network", [BackboneInModule, Tied])
def test_every_network_is_saved_whole_and_goes_on(network, tmp_path):
    name = f"tests.lab.training.own_parts:{network.__name__}"
    config = tiny(model=name, epochs=3, select_by="accuracy")
    whole = train(config, tmp_path / "whole")
    stop_after(tmp_path / "resumed", config, epochs=2)
    assert train(config, tmp_path / "resumed")["test"] == whole["test"]
    for path in (tmp_path / "whole", tmp_path / "resumed"):
        score = history(path)[whole["best_epoch"] - 1]["accuracy"]
        assert whole["validation"]["accuracy"] == score
        run = FinishedRun(path, allow=[name])
        data = run.load_data()
        restored = run.load_network(data)
        assert set(load_weights(path / "best.safetensors")[0]) == set(restored.state_dict())
        logits = apply_network(restored, data.test, data.normalisation)
        np.testing.assert_allclose(logits, run.test[0], atol=1e-5)


def test_tied_weights_stay_tied(run_path):
    train(tiny(model="tests.lab.training.own_parts:Tied", epochs=1), run_path)
    weights = load_weights(run_path / "best.safetensors")[0]
    assert torch.equal(weights["first.weight"], weights["second.weight"])
    assert not torch.equal(weights["first.bias"], weights["second.bias"])


def test_the_second_loss_comes_in_gradually(run_path, tmp_path):
    train(tiny("ce+aucoc", weight=2.0, epochs=5, warm_up=4), run_path)
    train(tiny("ce+aucoc", weight=2.0, epochs=5), tmp_path / "at once")
    train(tiny("ce", epochs=5, warm_up=4), tmp_path / "alone")
    gradual, at_once, alone = map(history, (run_path, tmp_path / "at once", tmp_path / "alone"))
    assert gradual[0]["train_loss"] == alone[0]["train_loss"]
    assert gradual[0]["aucoc"] == alone[0]["aucoc"]
    assert gradual[1]["aucoc"] != alone[1]["aucoc"]
    assert gradual[1]["train_loss"] != at_once[1]["train_loss"]


@pytest.mark.parametrize(("epoch", "weight"), [(0, 0.0), (1, 0.5), (3, 1.5), (4, 2.0), (9, 2.0)])
def test_the_weight_of_an_epoch(epoch, weight):
    config = tiny("ce+aucoc", weight=2.0, epochs=10, warm_up=4)
    loss = build_loss("ce+aucoc", weight=2.0)
    set_weight(loss, config, epoch)
    assert loss.weight == weight


def test_the_body_of_a_network_may_learn_more_slowly(run_path):
    network = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    body, head = parameter_groups(network, 0.1)
    assert (body["share"], head["share"]) == (0.1, 1.0)
    assert [p.shape for p in body["params"]] == [(3, 4), (3,)]
    assert [p.shape for p in head["params"]] == [(2, 3), (2,)]
    (everything,) = parameter_groups(network, 1.0)
    assert len(everything["params"]) == 4
    with pytest.raises(ParameterError, match="body_rate"):
        parameter_groups(nn.Conv2d(1, 1, 1), 0.5)
    config = tiny(epochs=1, body_rate=0.1, learning_rate=0.5)
    train(config, run_path)
    assert history(run_path)[0]["learning_rate"] == 0.5


def test_too_few_images_to_validate_with_are_refused_before_training(tmp_path):
    for name in ("train/a/0", "train/a/1", "train/b/0", "train/b/1", "test/a/0", "test/b/0"):
        path = tmp_path / "scans" / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(path)
    config = tiny(data=f"folder:{tmp_path / 'scans'}")
    with pytest.raises(ParameterError, match=r"The part 'validation' .* at least 2 images\. Got 0"):
        train(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()
