"""Sweeps: what is trained, what is chosen and by what, and what becomes of failures."""

from __future__ import annotations

import io
import json
import time
from pathlib import Path

import pytest
from rich.console import Console
from tests import forked
from tests.lab.conftest import environment

from expertload.exceptions import ExpertLoadError, FileWriteError, ParameterError
from expertload.lab.data import load_dataset
from expertload.lab.runs.folder import RunFolder
from expertload.lab.runs.recipe import ModelConfig, load_recipe
from expertload.lab.sweeps.launch import ClusterLauncher, ProcessLauncher
from expertload.lab.sweeps.sweep import Observer, Sweep, SweepReport, print_report


class FakeJob:
    def __init__(self):
        self.polls = 0
        self.stopped = False

    def ended(self):
        self.polls += 1
        return self.polls > 1

    def stop(self):
        self.stopped = True


class FakeLauncher:
    """Writes results in place of training: validation and test AUCOC by weight, or a failure."""

    poll_seconds = 0.0

    def __init__(self, scores, *, fail=(), break_at=None):
        self.scores, self.fail, self.break_at = scores, fail, break_at
        self.started, self.most = [], 0
        self.jobs = []

    def start(self, folder):
        config = RunFolder(folder).config()
        self.started.append(config)
        if self.break_at is not None and len(self.started) > self.break_at:
            raise KeyboardInterrupt
        if (config.loss.weight, config.seed) not in self.fail:
            validation, test = self.scores[config.loss.weight]
            RunFolder(folder).write_json(
                "results.json", {"validation": {"aucoc": validation}, "test": {"aucoc": test}}
            )
        self.jobs.append(FakeJob())
        return self.jobs[-1]

    def log_of(self, folder):
        (folder / "train.log").write_text("epoch 1\nThe loss became nan.\n")
        return folder / "train.log"


SCORES = {None: (0.5, 0.5), 0.1: (0.7, 0.9), 1.0: (0.8, 0.1), 10.0: (0.6, 1.0)}


def log_lines():
    return Observer(Console(file=io.StringIO(), width=200))


def sweep_of(recipe, out, **options):
    options = {"losses": ["ce", "ce+aucoc"], "seeds": range(3), **options}
    return Sweep(recipe, out, **options)


def test_candidates_are_tried_with_one_seed_and_the_best_with_all(recipe, tmp_path):
    launcher = FakeLauncher(SCORES)
    report = sweep_of(recipe, tmp_path / "out").run(launcher, jobs=2, observer=log_lines())
    trained = sorted((str(c.loss.weight), c.seed) for c in launcher.started)
    assert trained == sorted(
        [("None", s) for s in range(3)] + [("1.0", s) for s in range(3)] + [("0.1", 0), ("10.0", 0)]
    )
    assert (report.n_done, report.failed) == (8, {})


def test_the_choice_is_by_validation_and_test_has_no_say(recipe, tmp_path):
    for name, turned in (("as they are", False), ("turned round", True)):
        scores = {w: (v, 1 - t if turned else t) for w, (v, t) in SCORES.items()}
        sweep = sweep_of(recipe, tmp_path / name)
        sweep.run(FakeLauncher(scores), jobs=1, observer=log_lines())
        written = json.loads((tmp_path / name / "choice.json").read_text())
        assert written["ce+aucoc"]["chosen"] == {"weight": 1.0, "options": {}}
        assert [c["scores"] for c in written["ce+aucoc"]["candidates"]] == [
            {"0": 0.7},
            {"0": 0.8},
            {"0": 0.6},
        ]
        assert written["ce"]["chosen"] == {"weight": None, "options": {}}


def test_lower_is_better_where_ece_selects(recipe_path, tmp_path):
    recipe = load_recipe(recipe_path, settings=["training.select_by=ece"])

    class ECELauncher(FakeLauncher):
        def start(self, folder):
            job = super().start(folder)
            weight = RunFolder(folder).config().loss.weight
            value = {"ece": self.scores[weight][0]}
            RunFolder(folder).write_json("results.json", {"validation": value})
            return job

    sweep = sweep_of(recipe, tmp_path / "out")
    sweep.run(ECELauncher(SCORES), jobs=1, observer=log_lines())
    assert sweep.choices["ce+aucoc"].chosen.weight == 10.0


def test_tuning_seeds_are_averaged(recipe, tmp_path):
    launcher = FakeLauncher(SCORES)
    sweep = sweep_of(recipe, tmp_path / "out", seeds=[0], tuning_seeds=[5, 6])
    sweep.run(launcher, jobs=3, observer=log_lines())
    tuned = {(c.loss.weight, c.seed) for c in launcher.started if c.loss.weight is not None}
    assert tuned == {(w, s) for w in (0.1, 1.0, 10.0) for s in (5, 6)} | {(1.0, 0)}


def test_what_is_done_is_skipped(recipe, tmp_path):
    sweep_of(recipe, tmp_path).run(FakeLauncher(SCORES), jobs=2, observer=log_lines())
    again = FakeLauncher(SCORES)
    report = sweep_of(recipe, tmp_path).run(again, jobs=2, observer=log_lines())
    assert again.started == []
    assert report.n_done == 8


def test_one_loss_after_the_other_keeps_both_choices(recipe, tmp_path):
    for loss in ("ce+aucoc", "ce"):
        sweep_of(recipe, tmp_path, losses=[loss]).run(
            FakeLauncher(SCORES), jobs=2, observer=log_lines()
        )
    assert set(json.loads((tmp_path / "choice.json").read_text())) == {"ce", "ce+aucoc"}


def test_an_interrupted_sweep_stops_its_workers_and_goes_on(recipe, tmp_path):
    launcher = FakeLauncher(SCORES, break_at=3)
    with pytest.raises(KeyboardInterrupt):
        sweep_of(recipe, tmp_path).run(launcher, jobs=2, observer=log_lines())
    assert launcher.jobs[-1].stopped
    again = FakeLauncher(SCORES)
    report = sweep_of(recipe, tmp_path).run(again, jobs=2, observer=log_lines())
    assert report.n_done == 8
    assert len(again.started) == 5


def test_a_failed_run_does_not_stop_the_others(recipe, tmp_path):
    """The best candidate fails, so the second best is taken; a final run fails, others do not."""
    launcher = FakeLauncher(SCORES, fail={(1.0, 0), (0.1, 2)})
    sweep = sweep_of(recipe, tmp_path)
    report = sweep.run(launcher, jobs=2, observer=log_lines())
    assert sweep.choices["ce+aucoc"].chosen.weight == 0.1
    assert sorted(name.split("-seed")[0] for name in report.failed) == [
        "ce+aucoc-w0.1",
        "ce+aucoc-w1",
    ]
    written = json.loads((tmp_path / "choice.json").read_text())
    assert written["ce+aucoc"]["candidates"][1]["scores"] == {"0": None}
    text = io.StringIO()
    print_report(Console(file=text, width=300), report)
    assert "2 runs are not" in text.getvalue()
    assert "The loss became nan." in text.getvalue()
    assert str(next(iter(report.failed.values()))) in text.getvalue()


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ({"name": "tiny-cn"}, "found no model 'tiny-cn'"),
        ({"name": "tiny-cnn", "options": {"widht": 3}}, "widht"),
        ({"name": "no_such_lab:network"}, "No module named 'no_such_lab'"),
    ],
)
def test_a_network_that_cannot_be_built_is_reported_once(recipe, tmp_path, model, said):
    """And not by each of a hundred runs, after they were started one by one."""
    broken = recipe.model_copy(update={"model": ModelConfig(**model)})
    launcher = FakeLauncher(SCORES)
    sweep = sweep_of(broken, tmp_path, dataset=load_dataset("digits"))
    with pytest.raises(ExpertLoadError, match=said):
        sweep.run(launcher, jobs=2, observer=log_lines())
    assert not launcher.started


def test_a_loss_whose_candidates_all_fail_is_left_out(recipe, tmp_path):
    launcher = FakeLauncher(SCORES, fail={(w, 0) for w in (0.1, 1.0, 10.0)})
    sweep = sweep_of(recipe, tmp_path)
    report = sweep.run(launcher, jobs=2, observer=log_lines())
    assert len(report.failed) == 3
    assert set(sweep.choices) == {"ce"}
    assert report.n_done == 3


def test_no_more_than_jobs_at_a_time(recipe, tmp_path):
    seen = []

    sweep = sweep_of(recipe, tmp_path)

    class Watching(Observer):
        def started(self, run):
            seen.append(len(sweep.running))

    sweep.run(FakeLauncher(SCORES), jobs=2, observer=Watching())
    assert max(seen) == 2


def test_wrong_losses_are_refused_at_once(recipe, tmp_path):
    with pytest.raises(ParameterError, match="ce\\+aucoo"):
        sweep_of(recipe, tmp_path, losses=["ce+aucoo"])


def test_a_folder_that_cannot_be_made(recipe, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileWriteError, match="could not be written"):
        sweep_of(recipe, tmp_path / "file").run(FakeLauncher(SCORES), jobs=1, observer=log_lines())


# ------------------------------------------------------------------ what is shown


def test_a_log_has_a_line_for_each_event(recipe, tmp_path):
    text = io.StringIO()
    console = Console(file=text, width=200)
    sweep_of(recipe, tmp_path).run(
        FakeLauncher(SCORES, fail={(0.1, 0)}), jobs=2, observer=Observer(console)
    )
    lines = text.getvalue().splitlines()
    assert sum("started" in line for line in lines) == 8
    assert sum("done" in line for line in lines) == 7
    assert sum("FAILED" in line for line in lines) == 1
    assert sum("chosen   ce+aucoc with weight 1" in line for line in lines) == 1


def test_logs_that_say_nothing(tmp_path):
    (tmp_path / "empty.log").write_text("")
    text = io.StringIO()
    failed = {"a": tmp_path / "empty.log", "b": tmp_path / "none.log"}
    print_report(Console(file=text, width=200), SweepReport(1, failed))
    assert "1 run is done" in text.getvalue()
    assert "may have been killed" in text.getvalue()
    assert "left no log" in text.getvalue()


# ------------------------------------------------------------------ real processes


def alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


@pytest.mark.processes
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
def test_a_killed_sweep_takes_its_workers_along_and_goes_on(recipe_path, tmp_path):
    out = tmp_path / "out"
    arguments = ["lab", "sweep", recipe_path, "--losses", "ce", "--seeds", "0-1", "--jobs", "2"]
    arguments += ["--out", out, "--set", "training.epochs=12"]
    said = tmp_path / "said"
    process = forked.start(forked.run_command, arguments, said)
    deadline = time.monotonic() + 120
    while not list(out.glob("*/metrics.jsonl")) and time.monotonic() < deadline:
        time.sleep(0.02)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.kill()
    process.join()
    assert children
    while any(alive(int(pid)) for pid in children) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(alive(int(pid)) for pid in children)

    again = forked.start(forked.run_command, arguments, said)
    assert forked.finish([again]) == [0], said.read_text()
    assert "2 runs are done." in said.read_text()
    assert all(RunFolder(path).is_done for path in out.iterdir() if path.is_dir())
    assert len(list(out.glob("*/environment.json"))) == 2


@pytest.mark.processes
def test_a_worker_that_is_killed_is_reported_with_its_log(recipe, tmp_path):
    launcher = ProcessLauncher(jobs=1, accelerator="cpu")
    sweep = sweep_of(recipe, tmp_path, losses=["ce"], seeds=[0])

    class Killing(Observer):
        def started(self, run):
            _, job = sweep.running[run.run_name]
            job.process.kill()

    report = sweep.run(launcher, jobs=1, observer=Killing(Console(file=io.StringIO())))
    assert [path.name for path in report.failed.values()] == ["train.log"]


@pytest.mark.processes
def test_workers_can_be_stopped(recipe, tmp_path):
    run = recipe.run(recipe.candidates("ce")[0], 0)
    folder = RunFolder(tmp_path / "run")
    folder.create(run)
    job = ProcessLauncher(jobs=1).start(folder.path)
    assert not job.ended()
    job.stop()
    assert job.ended()


@pytest.mark.processes
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("cluster", ["debug", "local"])
def test_jobs_through_submitit(cluster, recipe, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])
    launcher = ClusterLauncher(
        tmp_path / "jobs", cluster=cluster, parameters={"timeout_min": 5}, accelerator="cpu"
    )
    sweep = sweep_of(recipe, tmp_path, losses=["ce"], seeds=[0])
    report = sweep.run(launcher, jobs=1, observer=log_lines())
    assert (report.n_done, report.failed) == (1, {})
    note = json.loads(next(tmp_path.glob("ce-*/job.json")).read_text())
    assert note["cluster"] == cluster
    (record,) = tmp_path.glob("ce-*/environment.json")  # from the job
    assert json.loads(record.read_text())["processes"] == 1
