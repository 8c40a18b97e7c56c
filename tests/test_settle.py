"""The queue of the experiment on the paper's claim: its order, its choice, and what it skips."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest
from tools.evidence import files, settle
from tools.evidence.settle import FRESH_SEEDS, Queue

from expertload.exceptions import RunInUseError, TrainingDivergedError
from expertload.lab import RunConfig, RunFolder, load_recipe
from expertload.lab.results.rows import facts_of, write_rows
from tests.lab.synthetic_runs import PLAIN_ROW

BEST = {"claim-resnet9-usual-tuning": 0.1, "claim-resnet9-authors-tuning": 5.0}


class Trainer:
    """Finishes a run at once; the weights of BEST have the best validation score."""

    def __init__(self, *, diverges=(), in_use=()):
        self.trained, self.diverges, self.in_use = [], diverges, set(in_use)

    def __call__(self, config, folder, **_):
        arm, weight = folder.parent.name, config.loss.weight
        if (arm, weight) in self.in_use:
            self.in_use.clear()  # the other process will be done by the next time
            raise RunInUseError("held")
        if (arm, weight) in self.diverges:
            raise TrainingDivergedError("NaN")
        run = RunFolder(folder)
        run.create(config)
        score = 0.9 if weight == BEST.get(arm) else 0.8
        run.write_json("results.json", {"validation": {"aucoc": score}})
        self.trained.append((arm.removeprefix("claim-resnet9-"), config.loss.name, config.seed))


@pytest.fixture
def run_queue(tmp_path, monkeypatch):
    monkeypatch.setattr(settle, "SECONDS_TO_WAIT", 0)
    monkeypatch.setattr(files, "HERE", tmp_path / "none")

    def run(trainer):
        monkeypatch.setattr(settle, "train", trainer)
        settle.settle(Queue(tmp_path))
        return trainer.trained

    return run


def weights_of(folder, arm):
    configs = (folder / f"claim-resnet9-{arm}").glob("ce+aucoc*/config.json")
    return {json.loads(path.read_text())["loss"]["weight"] for path in configs}


def test_the_order_and_the_number_of_runs(run_queue, tmp_path):
    trained = run_queue(Trainer())
    assert len(trained) == len(set(trained)) + 2 * 4  # five weights are one loss in tuning
    assert trained[:2] == [("usual", "ce", 10), ("authors", "ce", 10)]
    assert {arm for arm, _, _ in trained[2:12]} == {"usual-tuning", "authors-tuning"}
    assert trained[12:14] == [("usual", "ce+aucoc", 10), ("authors", "ce+aucoc", 10)]
    assert [seed for _, _, seed in trained[14:26]] == [
        seed for seed in FRESH_SEEDS[1:] for _ in "1234"
    ]
    assert {loss for _, loss, _ in trained[26:34]} == {"focal", "gce"}
    assert weights_of(tmp_path, "usual") == {0.1}
    assert weights_of(tmp_path, "authors") == {5.0}


def test_finished_runs_are_not_trained_again(run_queue):
    run_queue(Trainer())
    assert run_queue(Trainer()) == []


def test_published_runs_are_not_trained_again(run_queue, tmp_path, monkeypatch):
    """Another machine goes on where one stopped: it has the CSV, but not the runs."""
    first = run_queue(Trainer())
    monkeypatch.setattr(files, "HERE", tmp_path / "results")
    (tmp_path / "results").mkdir()
    for recipe in {path.parents[1] for path in tmp_path.glob("*/*/config.json")}:
        rows = []
        for path in recipe.glob("*/config.json"):
            config = RunConfig.model_validate_json(path.read_text())
            row = replace(PLAIN_ROW, **facts_of(config), split="validation", metric="aucoc")
            score = RunFolder(path.parent).validation_score("aucoc")
            rows.append(replace(row, value=score))
        kept = rows if recipe.name.endswith("-tuning") else rows[:2]
        write_rows(tmp_path / "results" / f"{recipe.name}.csv", kept)
        shutil.rmtree(recipe)
    again = run_queue(Trainer())
    assert 0 < len(again) < len(first)
    assert not any(arm.endswith("tuning") for arm, _, _ in again)
    assert weights_of(tmp_path, "usual") <= {0.1}


def test_a_weight_that_diverges_is_not_chosen(run_queue, tmp_path):
    run_queue(Trainer(diverges=[("claim-resnet9-authors-tuning", 5.0)]))
    (weight,) = weights_of(tmp_path, "authors")
    assert weight != 5.0


def test_the_choice_waits_for_another_process(run_queue, tmp_path):
    trained = run_queue(Trainer(in_use=[("claim-resnet9-usual-tuning", 0.1)]))
    assert trained[2:4] == [("usual-tuning", "ce+aucoc", 0)] * 2
    assert weights_of(tmp_path, "usual") == {0.1}


def test_both_arms_try_the_same_balance():
    usual, authors = (
        [c.weight for c in load_recipe(f"claim-resnet9-{arm}-tuning").candidates("ce+aucoc")]
        for arm in ("usual", "authors")
    )
    assert [128 * weight for weight in usual] == pytest.approx(authors)


def test_the_arms_are_those_of_the_rule():
    usual, authors = (load_recipe(f"claim-resnet9-{arm}") for arm in ("usual", "authors"))
    assert usual.training.clip_norm > 1e6
    assert authors.training.clip_norm == 2.0
    assert authors.training.milestones == (6, 8)
    (ce,) = authors.candidates("ce")
    assert ce.options == {"reduction": "sum"}
    for recipe in (usual, authors):
        assert (recipe.training.epochs, recipe.training.batch_size) == (10, 128)
        for candidate in recipe.candidates("ce+aucoc"):
            assert candidate.options["smoothing"] == "probability"
            reduction = candidate.options.get("primary_options", {}).get("reduction", "mean")
            assert reduction == ("sum" if recipe is authors else "mean")
