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
    from expertload.lab.data import load_dataset as load_dataset
    from expertload.lab.ladder.lowering import lower_load as lower_load
    from expertload.lab.models import build_model as build_model
    from expertload.lab.results.compare import compare_runs as compare_runs
    from expertload.lab.results.ensembles import make_ensemble as make_ensemble
    from expertload.lab.results.evaluate import evaluate_runs as evaluate_runs
    from expertload.lab.results.outliers import evaluate_outliers as evaluate_outliers
    from expertload.lab.results.predict import predict_images as predict_images
    from expertload.lab.results.rows import collect as collect
    from expertload.lab.results.tables import make_table as make_table
    from expertload.lab.runs.finished import FinishedRun as FinishedRun
    from expertload.lab.runs.folder import RunFolder as RunFolder
    from expertload.lab.runs.recipe import Recipe as Recipe
    from expertload.lab.runs.recipe import RunConfig as RunConfig
    from expertload.lab.runs.recipe import load_recipe as load_recipe
    from expertload.lab.sweeps.launch import ProcessLauncher as ProcessLauncher
    from expertload.lab.sweeps.sweep import Sweep as Sweep
    from expertload.lab.training.loop import train as train

# Words that a command and the function behind it both take; here, so that help needs no torch.
TableFormat = Literal["markdown", "csv"]
TableKind = Literal["performance", "calibration", "ood"]

# Modules are imported on first use, because torch takes seconds to import.
_HOMES = {
    "FinishedRun": "runs.finished",
    "ProcessLauncher": "sweeps.launch",
    "Recipe": "runs.recipe",
    "RunConfig": "runs.recipe",
    "RunFolder": "runs.folder",
    "Sweep": "sweeps.sweep",
    "build_model": "models",
    "collect": "results.rows",
    "compare_runs": "results.compare",
    "evaluate_outliers": "results.outliers",
    "evaluate_runs": "results.evaluate",
    "load_dataset": "data",
    "load_recipe": "runs.recipe",
    "lower_load": "ladder.lowering",
    "make_ensemble": "results.ensembles",
    "make_table": "results.tables",
    "predict_images": "results.predict",
    "train": "training.loop",
}
__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    from expertload._check import needs_extra  # here, because it imports numpy

    if name in _HOMES:
        with needs_extra("lab", f"{__name__}.{name}"):
            return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    if name in {home.partition(".")[0] for home in _HOMES.values()}:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
