"""The laboratory: data sets, models and training for experiments on expert load.

====================  ==========================================================================
`lab.data`            data sets by name, as plain arrays
`lab.models`          networks by name
`lab.runs`            recipes, settings, run folders, finished runs
`lab.training`        training one run
`lab.sweeps`          training many runs
`lab.results`         measures, comparisons, ensembles, outliers, tables
`lab.ladder`          lowering the load on your own data, step by step
====================  ==========================================================================

The main functions can also be imported from here. Everything needs the ``lab`` extra
(``pip install 'expertload[lab]'``). The rest of the library never imports this package.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from expertload.lab.data import load_dataset
    from expertload.lab.ladder.lowering import lower_load
    from expertload.lab.models import build_model
    from expertload.lab.results.compare import compare_runs
    from expertload.lab.results.ensembles import make_ensemble
    from expertload.lab.results.evaluate import evaluate_runs
    from expertload.lab.results.outliers import evaluate_outliers
    from expertload.lab.results.predict import predict_images
    from expertload.lab.results.rows import collect
    from expertload.lab.results.tables import make_table
    from expertload.lab.runs.finished import FinishedRun
    from expertload.lab.runs.folder import RunFolder
    from expertload.lab.runs.recipe import Recipe, RunConfig
    from expertload.lab.runs.recipe_files import load_recipe
    from expertload.lab.sweeps.launch import ProcessLauncher
    from expertload.lab.sweeps.sweep import Sweep
    from expertload.lab.training.loop import train

__all__ = [
    "FinishedRun",
    "ProcessLauncher",
    "Recipe",
    "RunConfig",
    "RunFolder",
    "Sweep",
    "build_model",
    "collect",
    "compare_runs",
    "evaluate_outliers",
    "evaluate_runs",
    "load_dataset",
    "load_recipe",
    "lower_load",
    "make_ensemble",
    "make_table",
    "predict_images",
    "train",
]

# Words that a command and the function behind it both take; here, so that help needs no torch.
OutlierNumber = Literal["auroc", "aupr", "fpr95"]
Resize = Literal["bilinear", "nearest"]
TableFormat = Literal["markdown", "latex", "csv"]
TableKind = Literal["performance", "calibration", "ood"]

# Modules are imported on first use, because torch takes seconds to import.
_HOMES = {
    "data": ("load_dataset",),
    "ladder.lowering": ("lower_load",),
    "models": ("build_model",),
    "results.compare": ("compare_runs",),
    "results.ensembles": ("make_ensemble",),
    "results.evaluate": ("evaluate_runs",),
    "results.outliers": ("evaluate_outliers",),
    "results.predict": ("predict_images",),
    "results.rows": ("collect",),
    "results.tables": ("make_table",),
    "runs.finished": ("FinishedRun",),
    "runs.folder": ("RunFolder",),
    "runs.recipe": ("Recipe", "RunConfig"),
    "runs.recipe_files": ("load_recipe",),
    "sweeps.launch": ("ProcessLauncher",),
    "sweeps.sweep": ("Sweep",),
    "training.loop": ("train",),
}


def __getattr__(name: str) -> Any:
    from expertload._check import needs_extra  # here, because it imports numpy

    for home, names in _HOMES.items():
        if name in names:
            with needs_extra("lab", f"{__name__}.{name}"):
                return getattr(import_module(f"{__name__}.{home}"), name)
        if name == home.partition(".")[0]:
            return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
