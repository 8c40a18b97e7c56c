"""Chooses the options of each loss on validation data, and writes the choice to a file.

The rule is that of `expertload.lab.results.selection`. Test results are in the same folders, but
are not read here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from expertload.lab.results.rows import options_of
from expertload.lab.results.selection import best_options
from expertload.lab.runs.folder import RunFolder, read_json_object, write_json
from expertload.lab.runs.recipe import LossConfig, Recipe

__all__ = ["Choice", "choose_options", "save_choices"]


@dataclass(frozen=True)
class Choice:
    """The candidate chosen for a loss, and the scores of all candidates.

    Attributes
    ----------
    chosen : LossConfig
    metric : str
        The validation metric by which candidates were compared.
    scores : tuple of (LossConfig, dict)
        Each candidate with its score for each tuning seed; NaN for a run that failed. Empty if
        there was nothing to choose.
    """

    chosen: LossConfig
    metric: str
    scores: tuple[tuple[LossConfig, dict[int, float]], ...] = ()


def choose_options(
    recipe: Recipe, loss: str, seeds: Sequence[int], folder_of: Callable[[LossConfig, int], Path]
) -> Choice | None:
    """Return the candidate with the best mean validation score; None if all failed.

    Parameters
    ----------
    recipe : Recipe
    loss : str
    seeds : sequence of int
        The seeds whose runs are compared. A candidate that failed with one of them is not chosen.
    folder_of : callable
        Maps a candidate and a seed to the folder of their run.

    Examples
    --------
    >>> from expertload.lab.sweeps.choice import choose_options
    >>> from expertload.lab.runs.recipe_files import load_recipe
    >>> digits = load_recipe("digits")
    >>> choose_options(digits, "ce", [0], lambda loss, seed: None).chosen.name  # no choice to make
    'ce'
    """
    metric = recipe.training.select_by
    candidates = {options_of(candidate): candidate for candidate in recipe.candidates(loss)}
    if len(candidates) == 1:
        return Choice(next(iter(candidates.values())), metric)
    scores = {
        options: dict(_scores(candidate, seeds, metric, folder_of))
        for options, candidate in candidates.items()
    }
    best = best_options(scores, measure=metric, seeds=seeds)
    if best is None:
        return None
    every = dict.fromkeys(seeds, math.nan)
    return Choice(
        candidates[best],
        metric,
        tuple((candidates[options], {**every, **own}) for options, own in scores.items()),
    )


def _scores(
    candidate: LossConfig,
    seeds: Sequence[int],
    metric: str,
    folder_of: Callable[[LossConfig, int], Path],
) -> Iterator[tuple[int, float]]:
    """Return the validation scores of a candidate's finished runs."""
    for seed in seeds:
        run = RunFolder(folder_of(candidate, seed))
        if run.is_done:
            yield seed, run.validation_score(metric)


def save_choices(path: Path, choices: Mapping[str, Choice]) -> None:
    """Write the choice for each loss, with the validation scores of all candidates.

    Entries of other losses in the file are kept.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from expertload.lab.sweeps.choice import Choice, save_choices
    >>> from expertload.lab.runs.recipe import LossConfig
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "choice.json"
    ...     save_choices(path, {"ce": Choice(LossConfig(name="ce"), "aucoc")})
    ...     '"chosen"' in path.read_text()
    True
    """
    before = read_json_object(path) if path.exists() else {}
    write_json(path, {**before, **{loss: _entry(choice) for loss, choice in choices.items()}})


def _entry(choice: Choice) -> dict[str, Any]:
    return {
        "chosen": _settings(choice.chosen),
        "metric": f"validation {choice.metric}",
        "candidates": [
            {**_settings(c), "scores": {str(seed): _number(s) for seed, s in scores.items()}}
            for c, scores in choice.scores
        ],
    }


def _settings(loss: LossConfig) -> dict[str, Any]:
    return {"weight": loss.weight, "options": loss.options}


def _number(score: float) -> float | None:
    return None if math.isnan(score) else score
