"""Sweeps: what is trained, what is chosen and by what, and what becomes of failures."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from lightning.fabric.plugins.environments import SLURMEnvironment
from rich.console import Console
from tests.lab.conftest import environment, run_command

from expertload.exceptions import FileWriteError, ParameterError
from expertload.lab import worker
from expertload.lab.launch import ClusterLauncher, ProcessLauncher
from expertload.lab.recipe import load_recipe
from expertload.lab.run_folder import RunFolder
from expertload.lab.sweep import Sweep, SweepReport
from expertload.lab.sweep_display import LiveTable, LogLines, observing, print_report

RECIPE = """
data.name = "digits"
model = { name = "small-cnn", options = { width = 8 } }
[training]
epochs = 2
batch_size = 128
optimiser = "adam"
learning_rate = 0.01
[losses]
ce = {}
"ce+aucoc" = { weight = [0.1, 1.0, 10.0] }
"""


@pytest.fixture
def recipe_path(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(RECIPE)
    return path


@pytest.fixture
def recipe(recipe_path):
    return load_recipe(recipe_path)


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
    return LogLines(Console(file=io.StringIO(), width=200))


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


def test_a_loss_whose_candidates_all_fail_is_left_out(recipe, tmp_path):
    launcher = FakeLauncher(SCORES, fail={(w, 0) for w in (0.1, 1.0, 10.0)})
    sweep = sweep_of(recipe, tmp_path)
    report = sweep.run(launcher, jobs=2, observer=log_lines())
    assert len(report.failed) == 3
    assert set(sweep.choices) == {"ce"}
    assert report.n_done == 3


def test_no_more_than_jobs_at_a_time(recipe, tmp_path):
    seen = []

    class Watching(LogLines):
        def tick(self, sweep):
            seen.append(len(sweep.running))

    observer = Watching(Console(file=io.StringIO()))
    sweep_of(recipe, tmp_path).run(FakeLauncher(SCORES), jobs=2, observer=observer)
    assert max(seen) == 2


def test_wrong_losses_are_refused_at_once(recipe, tmp_path):
    with pytest.raises(ParameterError, match="ce\\+aucoo"):
        sweep_of(recipe, tmp_path, losses=["ce+aucoo"])


def test_a_folder_that_cannot_be_made(recipe, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileWriteError, match="Could not make the folder"):
        sweep_of(recipe, tmp_path / "file").run(FakeLauncher(SCORES), jobs=1, observer=log_lines())


# ------------------------------------------------------------------ what is shown


def test_a_log_has_a_line_for_each_event(recipe, tmp_path):
    text = io.StringIO()
    console = Console(file=text, width=200)
    with observing(console) as observer:
        sweep_of(recipe, tmp_path).run(
            FakeLauncher(SCORES, fail={(0.1, 0)}), jobs=2, observer=observer
        )
    lines = text.getvalue().splitlines()
    assert sum("started" in line for line in lines) == 8
    assert sum("done" in line for line in lines) == 7
    assert sum("FAILED" in line for line in lines) == 1
    assert sum("chosen   ce+aucoc with weight 1" in line for line in lines) == 1


def test_a_terminal_has_a_table(recipe, tmp_path):
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    sweep = sweep_of(recipe, tmp_path)
    shown = []

    class Recording(LiveTable):
        def tick(self, sweep):
            super().tick(sweep)
            beside = Console(width=120)
            with beside.capture() as capture:
                beside.print(self.render(sweep))
            shown.append(capture.get())

    with observing(console) as observer:
        recording = Recording(observer.live)
        sweep.run(FakeLauncher(SCORES, fail={(0.1, 0)}), jobs=2, observer=recording)
    plain = [frame for frame in shown if "epoch 0/2" in frame]
    assert plain, "runs in training are shown"
    assert "weight 1" in shown[-1]
    assert "0.8000 ± 0.0000" in shown[-1]
    assert shown[-1].count("●") >= 5
    assert shown[-1].count("✗") == 1


def test_many_runs_are_counted(recipe, tmp_path):
    sweep = sweep_of(recipe, tmp_path, losses=["ce"], seeds=range(30))
    sweep.waiting()
    console = Console(width=120)
    terminal = Console(force_terminal=True, file=io.StringIO())
    with console.capture() as capture, observing(terminal) as observer:
        console.print(observer.render(sweep))
    assert "0 of 30" in capture.get()


def test_logs_that_say_nothing(tmp_path):
    (tmp_path / "empty.log").write_text("")
    text = io.StringIO()
    failed = {"a": tmp_path / "empty.log", "b": tmp_path / "none.log"}
    print_report(Console(file=text, width=200), SweepReport(1, failed))
    assert "1 run is done" in text.getvalue()
    assert "was it killed?" in text.getvalue()
    assert "left no log" in text.getvalue()


# ------------------------------------------------------------------ real processes


def alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
def test_a_killed_sweep_takes_its_workers_along_and_goes_on(recipe_path, tmp_path):
    out = tmp_path / "out"
    arguments = ["lab", "sweep", recipe_path, "--losses", "ce", "--seeds", "0-1", "--jobs", "2"]
    arguments += ["--out", out, "--set", "training.epochs=3"]
    process = subprocess.Popen(
        [sys.executable, "-m", "expertload.cli", *map(str, arguments)],
        env=environment(),
        stdout=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 120
    while not list(out.glob("*/metrics.jsonl")) and time.monotonic() < deadline:
        time.sleep(0.02)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert children
    while any(alive(int(pid)) for pid in children) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(alive(int(pid)) for pid in children)

    done = run_command(*arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 runs are done." in done.stdout
    assert all(RunFolder(path).is_done for path in out.iterdir() if path.is_dir())
    assert len(list(out.glob("*/environment.json"))) == 2


def test_a_worker_that_is_killed_is_reported_with_its_log(recipe, tmp_path):
    launcher = ProcessLauncher(jobs=1, accelerator="cpu")
    sweep = sweep_of(recipe, tmp_path, losses=["ce"], seeds=[0])

    class Killing(LogLines):
        def started(self, run):
            _, job = sweep.running[run.run_name]
            job.process.kill()

    report = sweep.run(launcher, jobs=1, observer=Killing(Console(file=io.StringIO())))
    assert [path.name for path in report.failed.values()] == ["train.log"]


def test_workers_can_be_stopped(recipe, tmp_path):
    run = recipe.run(recipe.candidates("ce")[0], 0)
    folder = RunFolder(tmp_path / "run")
    folder.create(run)
    job = ProcessLauncher(jobs=1).start(folder.path)
    assert not job.ended()
    job.stop()
    assert job.ended()


def test_threads_are_shared_out():
    cores = len(os.sched_getaffinity(0))
    assert ProcessLauncher(jobs=1).threads == cores
    assert ProcessLauncher(jobs=cores).threads == 1
    assert ProcessLauncher(jobs=4 * cores, devices=2).threads == 1


def test_threads_that_were_asked_for_are_kept(monkeypatch):
    def threads():
        environment = ProcessLauncher(jobs=10_000).environment()
        return environment["OMP_NUM_THREADS"], environment["MKL_NUM_THREADS"]

    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    assert threads() == ("1", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert threads() == ("7", "7")
    monkeypatch.setenv("MKL_NUM_THREADS", "3")
    assert threads() == ("7", "3")


class FakeProcess:
    """Takes down the GPUs that it is started with, and ends when it is told to."""

    stdin = None

    def __init__(self, *_, env, **__):
        self.gpus, self.over = env.get("CUDA_VISIBLE_DEVICES"), False

    def poll(self):
        return 0 if self.over else None


@pytest.fixture
def start_on(monkeypatch, tmp_path):
    """Start runs on a machine that has a number of GPUs, and return their processes."""

    def start_on(n_gpus, n_runs, **options):
        monkeypatch.setattr("torch.cuda.device_count", lambda: n_gpus)
        monkeypatch.setattr("expertload.lab.launch.subprocess.Popen", FakeProcess)
        launcher = ProcessLauncher(jobs=n_runs, **options)
        return launcher, [launcher.start(tmp_path).process for _ in range(n_runs)]

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return start_on


def test_runs_are_spread_over_the_gpus(start_on):
    assert [p.gpus for p in start_on(3, 5)[1]] == ["0", "1", "2", "0", "1"]
    assert [p.gpus for p in start_on(4, 3, devices=2, accelerator="gpu")[1]] == [
        "0,1",
        "2,3",
        "0,1",
    ]


def test_a_gpu_that_falls_free_is_taken_next(start_on, tmp_path):
    launcher, processes = start_on(3, 3)
    processes[1].over = True
    assert launcher.start(tmp_path).process.gpus == "1"


def test_only_gpus_that_are_visible_are_used(start_on, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4, GPU-8f2c")
    assert [p.gpus for p in start_on(2, 3)[1]] == ["4", "GPU-8f2c", "4"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,-1,5")  # CUDA stops at what it does not know
    assert [p.gpus for p in start_on(1, 2)[1]] == ["4", "4"]


def test_without_gpus_nothing_is_hidden(start_on, monkeypatch):
    assert [p.gpus for p in start_on(0, 2)[1]] == [None, None]
    assert [p.gpus for p in start_on(2, 2, accelerator="cpu")[1]] == [None, None]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert [p.gpus for p in start_on(0, 1)[1]] == [""]


def test_a_log_that_cannot_be_opened(tmp_path):
    with pytest.raises(FileWriteError, match="Could not write"):
        ProcessLauncher(jobs=1).start(tmp_path / "nowhere")


@pytest.fixture
def worker_main(monkeypatch):
    """The worker's main, in this process, whose standard input is nobody's pipe."""
    monkeypatch.setattr(worker, "_end_with_parent", lambda: None)

    def main(folder, **options):
        monkeypatch.setattr(sys, "argv", ["worker", str(folder), json.dumps(options)])
        worker.main()

    return main


def test_a_worker_ends_with_a_sentence(worker_main, recipe, tmp_path, monkeypatch):
    with pytest.raises(SystemExit, match="has no config.json"):
        worker_main(tmp_path)
    RunFolder(tmp_path / "run").create(recipe.run(recipe.candidates("ce")[0], 0))
    with pytest.raises(SystemExit, match="abacus"):
        worker_main(tmp_path / "run", accelerator="abacus")

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(worker, "train", interrupted)
    with pytest.raises(SystemExit) as ended:
        worker_main(tmp_path / "run")
    assert ended.value.code == 130


# ------------------------------------------------------------------ clusters


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


FAKE_SLURM = {
    "sbatch": """#!/bin/sh
for last; do :; done
echo "$last" >> "$FAKE_SLURM/submitted"
SLURM_JOB_ID=77 SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NTASKS=1 SLURM_NODEID=0 \\
  sh -c 'sleep 1; touch "$FAKE_SLURM/over"' > /dev/null 2>&1 &
echo "Submitted batch job 77"
""",
    "sacct": """#!/bin/sh
if [ -e "$FAKE_SLURM/over" ]; then state=COMPLETED; else state=RUNNING; fi
echo "JobID|State|NodeList"
echo "77|$state|here"
""",
    "srun": "#!/bin/sh\\nexit 0\\n",
}


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """Commands that answer as Slurm's do; the job itself does nothing."""
    folder = tmp_path / "slurm"
    folder.mkdir()
    for name, text in FAKE_SLURM.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    monkeypatch.setenv("FAKE_SLURM", str(folder))
    return folder


def test_a_sweep_takes_up_the_jobs_of_an_earlier_one(slurm, recipe, tmp_path):
    parameters = {"slurm_partition": "gpu", "timeout_min": 5}
    run = recipe.run(recipe.candidates("ce")[0], 0)
    folder = RunFolder(tmp_path / "run")
    folder.create(run)

    def launcher():
        return ClusterLauncher(tmp_path / "jobs", cluster="slurm", parameters=parameters)

    first = launcher().start(folder.path)
    first.stop()  # leaves the job alone
    second = launcher().start(folder.path)
    assert len((slurm / "submitted").read_text().splitlines()) == 1
    assert second.job.job_id == "77"
    assert "gpu" in next((tmp_path / "jobs").glob("*.sh")).read_text()
    assert launcher().log_of(folder.path) == tmp_path / "jobs" / "77_0_log.err"
    assert launcher().log_of(tmp_path) == tmp_path / "jobs"


def submitted(tmp_path, parameters=None, **options):
    """What submitit would write into the head of a job's script."""
    launcher = ClusterLauncher(
        tmp_path / "jobs", cluster="slurm", parameters=parameters or {}, **options
    )
    return launcher._executor.parameters


@pytest.mark.usefixtures("slurm")
@pytest.mark.parametrize("accelerator", ["cpu", "gpu", "auto"])
def test_a_job_has_the_tasks_that_lightning_expects(accelerator, tmp_path, monkeypatch):
    found = submitted(tmp_path, nodes=2, devices=4, accelerator=accelerator)
    assert (found["nodes"], found["ntasks_per_node"]) == (2, 4)
    assert found.get("gpus_per_node") == (4 if accelerator == "gpu" else None)
    monkeypatch.setenv("SLURM_JOB_NAME", found["job_name"])
    monkeypatch.setenv("SLURM_NNODES", str(found["nodes"]))
    monkeypatch.setenv("SLURM_NTASKS", str(found["nodes"] * found["ntasks_per_node"]))
    monkeypatch.setenv("SLURM_NTASKS_PER_NODE", str(found["ntasks_per_node"]))
    assert SLURMEnvironment.detect()
    SLURMEnvironment().validate_settings(num_devices=4, num_nodes=2)


def test_the_script_of_a_job_asks_for_its_tasks(slurm, recipe, tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.create(recipe.run(recipe.candidates("ce")[0], 0))
    options = {"devices": 2, "accelerator": "gpu"}
    ClusterLauncher(tmp_path / "jobs", cluster="slurm", parameters={}, **options).start(folder.path)
    script = next((tmp_path / "jobs").glob("*.sh")).read_text()
    for line in ("--nodes=1", "--ntasks-per-node=2", "--gpus-per-node=2"):
        assert f"#SBATCH {line}\n" in script


@pytest.mark.usefixtures("slurm")
def test_gpus_can_be_asked_for_in_another_way(tmp_path):
    found = submitted(tmp_path, {"slurm_gres": "gpu:a100:2"}, devices=2, accelerator="gpu")
    assert "gpus_per_node" not in found
    found = submitted(tmp_path, {"gpus_per_node": 8}, devices=2, accelerator="gpu")
    assert found["gpus_per_node"] == 8


@pytest.mark.usefixtures("slurm")
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"tasks_per_node": 3}, "3 task.* do not fit .*2 device"),
        ({"slurm_ntasks_per_node": 3}, "3 task.* do not fit .*2 device"),
        ({"slurm_nodes": 2}, "2 node.* do not fit .*1 node"),
        ({"slurm_colour": "red"}, "Unknown argument 'colour'"),
        ({"timeout_min": "long"}, "timeout_min"),
    ],
)
def test_jobs_that_cannot_be_are_refused_in_words(parameters, message, tmp_path):
    with pytest.raises(ParameterError, match=message):
        submitted(tmp_path, parameters, devices=2)


def test_a_machine_without_slurm_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ParameterError, match="srun"):
        submitted(tmp_path)


def test_a_job_that_runs_out_of_time_asks_for_another():
    again = worker.Worker(accelerator="cpu").checkpoint("folder")
    assert again.function.options == {"accelerator": "cpu"}
    assert again.args == ("folder",)
