"""Runs: their recipes and settings, their folders, and finished runs."""

from expertload._check import needs_extra

with needs_extra("lab", "expertload.lab.runs"):
    from expertload.lab.runs.finished import FinishedRun
    from expertload.lab.runs.folder import RunFolder
    from expertload.lab.runs.origin import load_run_data
    from expertload.lab.runs.recipe import LossConfig, Recipe, RunConfig
    from expertload.lab.runs.recipe_files import load_recipe

__all__ = [
    "FinishedRun",
    "LossConfig",
    "Recipe",
    "RunConfig",
    "RunFolder",
    "load_recipe",
    "load_run_data",
]
