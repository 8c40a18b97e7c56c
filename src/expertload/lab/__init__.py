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
    from expertload.lab.ladder import lower_load
    from expertload.lab.models import build_model
    from expertload.lab.results import (
        collect,
        compare_runs,
        evaluate_outliers,
        evaluate_runs,
        make_ensemble,
        make_table,
        predict_images,
    )
    from expertload.lab.runs import FinishedRun, Recipe, RunConfig, RunFolder, load_recipe
    from expertload.lab.sweeps import ProcessLauncher, Sweep
    from expertload.lab.training import train

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

# Subpackages are imported on first use, because torch takes seconds to import.
_SUBPACKAGES = {
    "data": ("load_dataset",),
    "ladder": ("lower_load",),
    "models": ("build_model",),
    "results": (
        "collect",
        "compare_runs",
        "evaluate_outliers",
        "evaluate_runs",
        "make_ensemble",
        "make_table",
        "predict_images",
    ),
    "runs": ("FinishedRun", "Recipe", "RunConfig", "RunFolder", "load_recipe"),
    "sweeps": ("ProcessLauncher", "Sweep"),
    "training": ("train",),
}


def __getattr__(name: str) -> Any:
    from expertload._check import needs_extra  # here, because it imports numpy

    for package, names in _SUBPACKAGES.items():
        if name == package or name in names:
            with needs_extra("lab", f"{__name__}.{package}"):
                module = import_module(f"{__name__}.{package}")
            return module if name == package else getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
