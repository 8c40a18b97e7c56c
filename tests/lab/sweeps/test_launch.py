"""Where a sweep's runs are started: processes that share cores and GPUs, workers, clusters."""

from __future__ import annotations

import json
import os
import sys

import pytest

from expertload.exceptions import FileWriteError, ParameterError
from expertload.lab.runs.folder import RunFolder
from expertload.lab.sweeps import worker
from expertload.lab.sweeps.launch import ClusterLauncher, ProcessLauncher


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
        monkeypatch.setattr("expertload.lab.sweeps.launch.subprocess.Popen", FakeProcess)
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
    with pytest.raises(FileWriteError, match="could not be written"):
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


@pytest.mark.processes
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
    from lightning.fabric.plugins.environments import SLURMEnvironment  # takes seconds to import

    assert SLURMEnvironment.detect()
    SLURMEnvironment().validate_settings(num_devices=4, num_nodes=2)


@pytest.mark.processes
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
