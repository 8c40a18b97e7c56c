"""MLflow and Weights & Biases as far as the pages use them: each call is checked and noted."""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import SimpleNamespace


def stand_ins(noted):
    """Return modules by name; what is logged is added to the dictionary `noted`."""

    def note(tool, numbers=(), file=None, **words):
        own = noted.setdefault(tool, {})
        own |= {name: float(value) for name, value in dict(numbers).items()}
        own |= words
        if file is not None:
            own[file] = Path(file).read_text()

    @contextlib.contextmanager
    def start_run(run_id=None, experiment_id=None, run_name=None):
        yield SimpleNamespace()

    @contextlib.contextmanager
    def init(entity=None, project=None):
        summary: dict[str, str] = {}
        yield SimpleNamespace(
            summary=summary,
            log=lambda data, step=None: note("wandb", data),
            log_artifact=lambda path, name=None, type=None: note("wandb", file=path),  # noqa: A006
        )
        note("wandb", **summary)

    mlflow = SimpleNamespace(
        start_run=start_run,
        log_metrics=lambda metrics, step=None: note("mlflow", metrics),
        log_artifact=lambda local_path, artifact_path=None: note("mlflow", file=local_path),
        set_tag=lambda key, value: note("mlflow", **{key: value}),
    )
    return {"mlflow": mlflow, "wandb": SimpleNamespace(init=init)}
