"""The steps of the ladder, the predictions they compare, and whether each step is taken.

A step changes the models of the step before it. It is taken if the mean validation AUCOC of its
models is at least that of the models before; otherwise the models stay as they were. Test cases
play no part.

Until networks are averaged, a step has one model for each network, and its numbers are means over
them. So the gain of averaging two networks is separate from the luck of one.

A run stores the predictions of its selected weights. Those of its raw weights, or over several
views, need passes through the network; they are stored in the run's folder, so that each is
computed only once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from expertload._typing import FloatArray
from expertload.lab.results.ensembles import ViewedRun, predict_split, with_views
from expertload.lab.results.measures import cases_of
from expertload.lab.runs.finished import (
    FinishedRun,
    check_same_cases,
    describe_loss,
    probabilities_of,
)
from expertload.lab.runs.folder import Labelled, RunFolder, make_folder

STEPS = {  # in order, with their titles
    "plain": "cross-entropy alone",
    "augmentation": "+ augmentation",
    "averaging": "+ averaged weights",
    "views": "+ test-time augmentation",
    "networks": "+ mean of the networks",
    "aucoc": "+ AUCOC",
}
ALWAYS = ("plain", "networks")  # taken regardless of validation data
SPLITS = ("validation", "test")
NOTE = "choice.json"  # written last: if it exists, the stored predictions are complete

Arms = Mapping[str, Sequence[FinishedRun]]
Asked = tuple[list[Labelled], dict[str, Any]]  # SPLITS, and a note


class Answers(NamedTuple):
    """A model's probabilities for all cases, and their cost.

    Attributes
    ----------
    validation, test : ndarray of float64, shape (n, classes)
        Probabilities.
    passes : int
        Passes through a network for each image.
    seconds : float
        Training time of its networks.
    choice : str
        The choice made on validation data, in a word or two; empty if there was none.
    """

    validation: FloatArray
    test: FloatArray
    passes: int
    seconds: float
    choice: str = ""


def mean_answers(models: Sequence[Answers]) -> Answers:
    """Return the mean probabilities of several models.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload.lab.ladder.steps import Answers, mean_answers
    >>> sure, unsure = np.array([[0.9, 0.1]]), np.array([[0.5, 0.5]])
    >>> both = mean_answers([Answers(sure, sure, 1, 10.0), Answers(unsure, unsure, 5, 12.0)])
    >>> both.test, both.passes, both.seconds
    (array([[0.7, 0.3]]), 6, 22.0)
    """
    return Answers(
        np.mean([one.validation for one in models], axis=0),
        np.mean([one.test for one in models], axis=0),
        sum(one.passes for one in models),
        sum(one.seconds for one in models),
    )


def raw_answers(run: FinishedRun) -> Answers:
    """Return the predictions of a run's raw weights at their best epoch."""
    if run.folder.selected == "raw":
        return Answers(run.validation_proba, run.test_proba, 1, _seconds(run))
    kept = _kept(run, "raw", _ask_raw)
    validation, test = (probabilities_of(kept.read_logits(split)[0]) for split in SPLITS)
    return Answers(validation, test, 1, _seconds(run))


def selected_answers(run: FinishedRun) -> Answers:
    """Return the predictions of a run's selected weights, raw or averaged."""
    return Answers(run.validation_proba, run.test_proba, 1, _seconds(run), run.folder.selected)


def viewed_answers(run: FinishedRun, *, max_passes: int | None = None) -> Answers:
    """Return the predictions of a run's selected weights, averaged over the chosen views."""
    seen = chosen_views(run, max_passes=max_passes)
    proba = seen.validation_proba, seen.test_proba
    return Answers(*proba, seen.choice.passes, _seconds(run), seen.choice.views)


def chosen_views(run: FinishedRun, *, max_passes: int | None = None) -> ViewedRun:
    """Return a run with the views of each image, of so many passes, that validation data chose."""
    from expertload.ensembling import ViewChoice

    kind = "views" if max_passes is None else f"views-of-{max_passes}"
    kept = _kept(run, kind, partial(_ask_views, max_passes=max_passes))
    choice = ViewChoice(**kept.read_json(NOTE))
    return ViewedRun(run, choice, *(kept.read_logits(split) for split in SPLITS))


def _ask_raw(run: FinishedRun) -> Asked:
    data = run.load_data()
    network = run.load_network(data, weights="raw")
    return [predict_split(network, split, data) for split in (data.validation, data.test)], {}


def _ask_views(run: FinishedRun, max_passes: int | None) -> Asked:
    (seen,) = with_views(run, max_passes=max_passes)
    return [seen.validation, seen.test], asdict(seen.choice)


def _seconds(run: FinishedRun) -> float:
    return float(run.folder.read_json("results.json").get("seconds", np.nan))


def _kept(run: FinishedRun, kind: str, ask: Callable[[FinishedRun], Asked]) -> RunFolder:
    """Return the folder with stored predictions; compute them if it does not exist."""
    folder = RunFolder(run.folder.path / "answers" / kind)
    if not (folder.path / NOTE).exists():
        splits, note = ask(run)
        make_folder(folder.path)
        for split, predicted in zip(SPLITS, splits, strict=True):
            folder.write_logits(split, *predicted)
        folder.write_json(NOTE, note)
    return folder


# ------------------------------------------------------------------ steps


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of the ladder.

    Attributes
    ----------
    name : str
        One of `STEPS`.
    models : tuple of Answers
        The models after this step: one for each network, or one for all of them.
    is_taken : bool
    validation_aucoc : float
        Mean over the models that the step proposes, whether or not it is taken.
    choice : str
        The choice made on validation data, in words.
    runs : tuple of FinishedRun
        The runs whose networks are used.
    """

    name: str
    models: tuple[Answers, ...]
    is_taken: bool
    validation_aucoc: float
    choice: str
    runs: tuple[FinishedRun, ...]


class Climb:
    """A climb, step by step; it remembers which steps were taken.

    Parameters
    ----------
    arms : mapping from str to sequence of FinishedRun
        The runs of each arm, one for each network, in the same order of networks: `plain` has
        cross-entropy without augmentation, `augmented` the same with augmentation, and `aucoc` is
        like the better of the two, with AUCOC in addition. Networks without a plain run, which are
        the last ones, count only from the step that averages networks.
    always : collection of str
        Names of steps to take regardless of validation data, besides `ALWAYS`.
    max_passes : int, optional
        The most passes for each image through one network.

    Attributes
    ----------
    validation_labels, test_labels : ndarray of int64
        The labels of the cases.
    steps : list of Step
        The steps for which there are runs.
    """

    def __init__(
        self, arms: Arms, *, always: Collection[str] = (), max_passes: int | None = None
    ) -> None:
        runs = [run for arm in arms.values() for run in arm]
        check_same_cases(runs)
        self.validation_labels, self.test_labels = runs[0].validation[1], runs[0].test[1]
        self.always, self.max_passes = {*ALWAYS, *always}, max_passes
        self.steps: list[Step] = []
        self._climb(arms)

    def took(self, name: str) -> bool:
        """Return whether a step was proposed and taken."""
        return any(step.name == name and step.is_taken for step in self.steps)

    def _climb(self, arms: Arms) -> None:
        viewed = partial(viewed_answers, max_passes=self.max_passes)
        plain, augmented, aucoc = (arms.get(name, ()) for name in ("plain", "augmented", "aucoc"))
        self._propose("plain", map(raw_answers, plain), plain)
        if len(augmented) >= len(plain):
            some = augmented[: len(plain)]
            self._propose("augmentation", map(raw_answers, some), some)
        base = self.steps[-1].runs
        self._propose("averaging", map(selected_answers, base), base)
        self._propose("views", map(viewed, base), base)
        # All networks, with or without augmentation as decided before; then AUCOC.
        together = plain if base == tuple(plain) else augmented
        n_networks = max(map(len, arms.values()))
        if n_networks == 1 or len(together) < n_networks:
            return
        ask = viewed if self.steps[-1].is_taken else selected_answers
        self._propose("networks", [mean_answers([*map(ask, together)])], together)
        if len(aucoc) == n_networks:
            label = " and ".join(dict.fromkeys(describe_loss(run.config.loss) for run in aucoc))
            mean = mean_answers([*map(viewed, aucoc)])._replace(choice=label)
            self._propose("aucoc", [mean], aucoc)

    def _propose(self, name: str, proposed: Iterable[Answers], runs: Sequence[FinishedRun]) -> None:
        """Propose models, made with some runs; the last models stay if they are better."""
        models = list(proposed)
        score = self._score(models)
        before = self.steps[-1] if self.steps else None
        is_taken = name in self.always or before is None or score >= self._score(before.models)
        kept, whose = (models, runs) if before is None or is_taken else (before.models, before.runs)
        self.steps.append(
            Step(
                name=name,
                models=tuple(kept),
                is_taken=is_taken,
                validation_aucoc=score,
                choice=" and ".join(dict.fromkeys(one.choice for one in models if one.choice)),
                runs=tuple(whose),
            )
        )

    def _score(self, models: Sequence[Answers]) -> float:
        """Return the mean AUCOC of models on validation data."""
        return fmean(cases_of(self.validation_labels, one.validation).aucoc() for one in models)
