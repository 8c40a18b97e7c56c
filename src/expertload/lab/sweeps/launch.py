"""Starts the runs of a sweep: in processes on this machine, or as jobs of a cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import torch

from expertload._check import require_extra
from expertload._files import explained_write_errors
from expertload.exceptions import ParameterError
from expertload.lab.runs.folder import read_json_object, write_json

ON_GPUS = ("auto", "gpu", "cuda")  # accelerators that are, or may be, CUDA GPUs


class Job(Protocol):
    """A run that is being trained."""

    def ended(self) -> bool:
        """Return whether it has ended; the run's folder shows whether it succeeded."""

    def stop(self) -> None:
        """Stop it now."""


class Launcher(Protocol):
    """Starts the training of runs."""

    poll_seconds: float

    def start(self, folder: Path) -> Job:
        """Start the run whose configuration is in a folder."""

    def log_of(self, folder: Path) -> Path:
        """Return the path of the run's log."""


# ------------------------------------------------------------------ this machine


class _Process:
    """A worker process and its GPUs."""

    def __init__(self, process: subprocess.Popen[bytes], gpus: Sequence[str]) -> None:
        self.process, self.gpus = process, gpus

    def ended(self) -> bool:
        """Whether it has ended."""
        if self.process.poll() is None:
            return False
        self.process.communicate()  # closes the pipe
        return True

    def stop(self) -> None:
        """Stop it; unsaved work will be trained again."""
        self.process.terminate()
        try:
            self.process.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()


def _cores() -> int:
    """Return the number of cores that this process may use; the machine may have more."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _visible_gpus() -> list[str]:
    """Return the GPUs that this process may use, as named in CUDA_VISIBLE_DEVICES."""
    n_gpus = torch.cuda.device_count()
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = map(str, range(n_gpus)) if chosen is None else map(str.strip, chosen.split(","))
    # CUDA ignores everything after a number without a GPU, such as -1.
    return list(names)[:n_gpus]


class ProcessLauncher:
    """Trains each run in its own process, and divides cores and GPUs among them.

    Parameters
    ----------
    jobs : int
        The number of processes that run in parallel.
    **options
        Options of `expertload.lab.sweeps.worker.Worker`: those of `expertload.lab.train`, and
        `allow`.
    """

    poll_seconds = 0.3

    def __init__(self, *, jobs: int, **options: Any) -> None:
        self.devices = int(options.get("devices", 1))
        self.threads = max(1, _cores() // (jobs * self.devices))
        self.gpus = _visible_gpus() if options.get("accelerator", "auto") in ON_GPUS else []
        self.options = options
        self._started: list[_Process] = []

    def start(self, folder: Path) -> Job:
        """Start a worker, which ends if this process ends for any reason."""
        with explained_write_errors(folder):
            log = self.log_of(folder).open("ab")
        gpus = self._least_busy_gpus()
        with log:
            process = subprocess.Popen(
                [
                    *(sys.executable, "-P", "-m", "expertload.lab.sweeps.worker"),
                    *(str(folder), json.dumps(self.options)),
                ],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self.environment(gpus),
            )
        self._started.append(_Process(process, gpus))
        return self._started[-1]

    def _least_busy_gpus(self) -> list[str]:
        """Return the GPUs for the next run: those with the fewest runs."""
        self._started = [job for job in self._started if job.process.poll() is None]
        runs = Counter(gpu for job in self._started for gpu in job.gpus)
        return sorted(self.gpus, key=lambda gpu: runs[gpu])[: self.devices]

    def environment(self, gpus: Sequence[str] = ()) -> dict[str, str]:
        """Return a worker's environment: this process's, with its threads and GPUs."""
        # A number of threads set by the user is kept.
        threads = os.environ.get("OMP_NUM_THREADS", str(self.threads))
        both = {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
        visible = {"CUDA_VISIBLE_DEVICES": ",".join(gpus)} if gpus else {}
        # Only what a recipe names is imported from the working folder: -P, for the worker
        # and for the processes that it starts.
        safe = {"PYTHONSAFEPATH": "1", "PYTHONUNBUFFERED": "1"}
        return {**both, **os.environ, **visible, **safe}

    def log_of(self, folder: Path) -> Path:
        """Return the path of the log in the run's folder."""
        return folder / "train.log"


# ------------------------------------------------------------------ a cluster


class _ClusterJob:
    """A job of submitit's."""

    def __init__(self, job: Any) -> None:
        self.job = job

    def ended(self) -> bool:
        """Whether it has ended."""
        return bool(self.job.done())

    def stop(self) -> None:
        """Do nothing: the cluster continues without us, and the next sweep finds the job again."""


GPU_PARAMETERS = ("gpus_per_node", "slurm_gpus_per_node", "slurm_gpus_per_task", "slurm_gres")


def _slurm_parameters(parameters: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """Return job parameters: one task per process, because Lightning starts none on Slurm."""
    devices = int(options.get("devices", 1))
    needed = {"nodes": int(options.get("nodes", 1)), "tasks_per_node": devices}
    asked = any(name in parameters for name in GPU_PARAMETERS)
    if options.get("accelerator") in ("gpu", "cuda") and not asked:
        needed["gpus_per_node"] = devices
    return needed


def _check_tasks(submitted: dict[str, Any], needed: dict[str, Any]) -> None:
    """Raise unless jobs have one task (Slurm's word) for each process of a run."""
    nodes, tasks = submitted["nodes"], submitted["ntasks_per_node"]
    if (nodes, tasks) != (needed["nodes"], needed["tasks_per_node"]):
        raise ParameterError(
            f"Jobs with {nodes} node(s) and {tasks} task(s) each do not fit runs on "
            f"{needed['nodes']} node(s) with {needed['tasks_per_node']} device(s) each. Hint: set "
            "only --nodes and --devices; jobs use the same numbers."
        )


class ClusterLauncher:
    """Trains each run as a job of a cluster, through submitit.

    Parameters
    ----------
    folder : Path
        The folder for submitit's scripts and logs; every machine must be able to read it.
    cluster : str
        ``"slurm"``, or ``"local"`` and ``"debug"`` to try it without a cluster.
    parameters : dict
        Parameters of the jobs: ``{"slurm_partition": "gpu", "timeout_min": 600}``.
    **options
        Options of `expertload.lab.train`. On Slurm, a job has as many machines and tasks as its run
        has `nodes` and `devices`. With ``accelerator="gpu"`` it has a GPU for each task, unless
        `parameters` request GPUs in another way.
    """

    poll_seconds = 1.0

    def __init__(
        self, folder: Path, *, cluster: str, parameters: dict[str, Any], **options: Any
    ) -> None:
        submitit = require_extra("submitit", "slurm", "A sweep on a cluster")
        self.folder, self.cluster, self.options = folder, cluster, options
        self._submitit = submitit
        needed = _slurm_parameters(parameters, options) if cluster == "slurm" else {}
        try:
            self._executor = submitit.AutoExecutor(folder=folder, cluster=cluster)
            self._executor.update_parameters(**{"name": "expertload", **needed, **parameters})
        except (NameError, ValueError, AssertionError, RuntimeError) as error:
            raise ParameterError(f"submitit rejected these job parameters: {error}") from error
        if needed:
            _check_tasks(self._executor.parameters, needed)

    def start(self, folder: Path) -> Job:
        """Submit a job, unless an earlier sweep's job for this run still exists."""
        from expertload.lab.sweeps.worker import Worker

        job = self._earlier_job(folder)
        if job is None:
            job = self._executor.submit(Worker(**self.options), str(folder))
            write_json(folder / "job.json", {"cluster": self.cluster, "id": job.job_id})
        return _ClusterJob(job)

    def _earlier_job(self, folder: Path) -> Any:
        note = folder / "job.json"
        if self.cluster != "slurm" or not note.exists():
            return None
        job = self._submitit.SlurmJob(self.folder, read_json_object(note)["id"])
        return None if job.done() else job

    def log_of(self, folder: Path) -> Path:
        """Return the path of submitit's log."""
        note = folder / "job.json"
        if not note.exists():
            return self.folder
        return self.folder / f"{read_json_object(note)['id']}_0_log.err"
