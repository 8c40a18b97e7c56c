"""Does the network's confidence tell outliers from the images it was trained for?

The paper asks this with four scores: the maximum softmax probability (MSP), ODIN, the maximum logit
and the energy. Its ODIN is the softmax at the temperature that calibration fitted, without ODIN's
input perturbation; that is ``odin`` here, and ``odin_perturbed`` is ODIN as published by its
authors. Inliers are the run's own test images; outliers are the test images of any other data set,
normalised as the run's own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from expertload._typing import FloatArray
from expertload._validation import check_count, check_option, check_positive
from expertload.calibrators import TemperatureScaling
from expertload.exceptions import ParameterError
from expertload.lab.data import Dataset, Normalisation, Split, corruption_names, load_dataset
from expertload.lab.results.outlier_images import Resize, convert_images, describe_conversion
from expertload.lab.runs.finished import FinishedRun
from expertload.lab.runs.folder import RunFolder
from expertload.lab.runs.recipe import DataConfig
from expertload.metrics import fpr_at_tpr_error, outlier_aupr_score, outlier_auroc_score
from expertload.scores import (
    energy_confidence,
    max_logit_confidence,
    max_softmax_confidence,
    tempered_softmax_confidence,
)

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

__all__ = ["OutlierEvaluation", "describe_settings", "evaluate_outliers"]

OUTLIERS_FILE = "outliers.json"
SCORE_NAMES = ("msp", "odin", "odin_perturbed", "maxlogit", "energy")
Numbers = dict[str, dict[str, float]]
USUAL: Mapping[str, Any] = MappingProxyType(
    {
        "epsilon": 0.0014,
        "odin_temperature": 1000.0,
        "objective": "nll",
        "positive": "outlier",
        "resize": "bilinear",
        "max_images": None,
    }
)


@dataclass(frozen=True, kw_only=True)
class OutlierEvaluation:
    """How well each score finds outliers.

    Attributes
    ----------
    results : dict
        By data set, then score (`SCORE_NAMES`): ``auroc``, ``aupr`` and ``fpr95``.
    conversions : dict
        By data set: what was done to its images so that the network could see them.
    settings : dict
        Everything else that decides the numbers.
    """

    results: dict[str, Numbers]
    conversions: dict[str, str]
    settings: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain lists and numbers."""
        return asdict(self)


def evaluate_outliers(
    folder: str | Path,
    against: Sequence[str],
    *,
    epsilon: float = 0.0014,
    odin_temperature: float = 1000.0,
    objective: Literal["nll", "ece"] = "nll",
    positive: Literal["outlier", "inlier"] = "outlier",
    resize: Resize = "bilinear",
    max_images: int | None = None,
    batch_size: int = 512,
    device: str | torch.device = "cpu",
    data_dir: str | Path | None = None,
    save: bool = False,
    allow: Collection[str] = (),
) -> OutlierEvaluation:
    """Measure how well a run's scores tell outliers from its own test images.

    Parameters
    ----------
    folder : path
        The folder of a run that is done; its selected weights are used.
    against : sequence of str
        Data sets by name, ``"svhn"`` or ``"cifar100-c:gaussian_noise"`` for example;
        ``"cifar100-c:all"`` (or ``"cifar100-c:all:3"`` for one severity) is the mean of the
        numbers over the fifteen corruptions. Their classes do not matter, only their test images.
    epsilon : float, default=0.0014
        Step of ODIN's perturbation, as a share of the range from black to white.
    odin_temperature : float, default=1000
        The temperature of ``odin_perturbed``.
    objective : {"nll", "ece"}, default="nll"
        What the temperature of ``odin`` is fitted by on the validation split; the paper used ECE.
    positive : {"outlier", "inlier"}, default="outlier"
        The side that AUPR and FPR95 look for, as in `expertload.metrics`.
    resize : {"bilinear", "nearest"}, default="bilinear"
        How outliers of another size are resized for the run.
    max_images : int, optional
        At most this many of each side, evenly spread over the split.
    batch_size : int, default=512
    device : str or torch.device, default="cpu"
    data_dir : path, optional
        Where data files are.
    save : bool, default=False
        Add the results to ``outliers.json`` in the run's folder, where tables look for them.
        Results with other settings are kept.
    allow : collection of str
        Import path of your own network that the folder may import.

    Returns
    -------
    OutlierEvaluation

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from expertload.lab.results.ood import evaluate_outliers
    >>> from expertload.lab.runs.recipe import RunConfig
    >>> from expertload.lab.training.loop import train
    >>> config = RunConfig.model_validate({
    ...     "data": {"name": "digits"}, "model": {"name": "small-cnn"}, "loss": {"name": "ce"},
    ...     "training": {"epochs": 1, "batch_size": 64, "learning_rate": 0.1}})
    >>> with TemporaryDirectory() as place:
    ...     run = Path(place) / "run"
    ...     _ = train(config, run, accelerator="cpu")
    ...     evaluation = evaluate_outliers(run, ["digits-clean"], max_images=100)
    >>> sorted(evaluation.results["digits-clean"]["msp"])
    ['aupr', 'auroc', 'fpr95']
    """
    caller = "evaluate_outliers"
    settings = {
        "epsilon": check_positive(epsilon, "epsilon", caller, zero=True),
        "odin_temperature": check_positive(odin_temperature, "odin_temperature", caller),
        "objective": check_option(objective, ("nll", "ece"), "objective", caller),
        "positive": check_option(positive, ("outlier", "inlier"), "positive", caller),
        "resize": check_option(resize, ("bilinear", "nearest"), "resize", caller),
        "max_images": None if max_images is None else check_count(max_images, "max_images", caller),
    }
    names = [against] if isinstance(against, str) else list(against)
    if not names:
        raise ParameterError(f"{caller} needs at least one data set to compare with. Got none.")
    run = FinishedRun(folder)
    if run.folder.is_ensemble:
        raise ParameterError(
            f"{caller} looks at the logits of one network, and {run.folder.path} is an ensemble, "
            "which has only probabilities. Hint: evaluate its members."
        )
    logits, labels = run.validation
    scaling = TemperatureScaling(objective=objective)
    temperature = scaling.fit(logits, labels, labels=np.arange(logits.shape[1])).temperature_
    data, network = run.load_data_and_network(data_dir, allow=allow)
    examiner = _Examiner(
        run.config.data, data, network.to(device), settings, temperature, batch_size, data_dir
    )
    results: dict[str, Numbers] = {}
    conversions: dict[str, str] = {}
    for name in names:
        results[name], conversions[name] = examiner.examine(name)
    evaluation = OutlierEvaluation(
        results=results,
        conversions=conversions,
        settings={**settings, "temperature": temperature},
    )
    if save:
        _save(run, evaluation)
    return evaluation


class _Examiner:
    """Holds what is the same for every kind of outlier: the network, and the inliers' scores."""

    def __init__(
        self,
        config: DataConfig,
        data: Dataset,
        network: nn.Module,
        settings: dict[str, Any],
        temperature: float,
        batch_size: int,
        data_dir: str | Path | None,
    ) -> None:
        self.data, self.network = data, network
        self.settings, self.temperature = settings, temperature
        self.batch_size, self.data_dir = batch_size, data_dir
        self.seed, self.image_size = config.split_seed, config.image_size
        self.inlier_scores = self._scores(self._thinned(self.data.test))

    def examine(self, name: str) -> tuple[Numbers, str]:
        """The numbers of one name, and what was done to its images."""
        parts = [self._examine_one(part) for part in _parts(name)]
        mean = {
            score: {
                number: float(np.mean([numbers[score][number] for numbers, _ in parts]))
                for number in parts[0][0][score]
            }
            for score in SCORE_NAMES
        }
        return mean, parts[0][1]

    def _examine_one(self, name: str) -> tuple[Numbers, str]:
        # A folder's images are cut to size as those of the run were, so that only they differ.
        size = self.image_size if name.startswith("folder:") else None
        others = load_dataset(name, data_dir=self.data_dir, seed=self.seed, image_size=size)
        if np.array_equal(others.test.images, self.data.test.images):
            raise ParameterError(
                f"The test images of {name!r} are the ones the run was tested on, so they cannot "
                "be its outliers. Hint: name another data set."
            )
        resize = self.settings["resize"]
        chosen = self._thinned(others.test)
        images = convert_images(chosen.images, self.data.image_shape, resize=resize)
        outlier_scores = self._scores(Split(images, chosen.labels))
        numbers = {
            score: _numbers(self.inlier_scores[score], outlier_scores[score], self.settings)
            for score in SCORE_NAMES
        }
        return numbers, describe_conversion(
            others.image_shape, self.data.image_shape, resize=resize
        )

    def _thinned(self, split: Split) -> Split:
        most = self.settings["max_images"]
        if most is None or most >= len(split):
            return split
        return split.take(np.linspace(0, len(split) - 1, most).astype(np.int64))

    def _scores(self, split: Split) -> dict[str, FloatArray]:
        """Every confidence of every image of a split."""
        # In double precision: at temperature 1000 single precision makes ties of near equals.
        logits = self._logits(split, self.network)
        perturbed = (
            self._logits(split, self._perturbed_logits) if self.settings["epsilon"] else logits
        )
        return {
            "msp": max_softmax_confidence(logits),
            "odin": tempered_softmax_confidence(logits, temperature=self.temperature),
            "odin_perturbed": tempered_softmax_confidence(
                perturbed, temperature=self.settings["odin_temperature"]
            ),
            "maxlogit": max_logit_confidence(logits),
            "energy": energy_confidence(logits),
        }

    def _logits(self, split: Split, function: Callable[[Tensor], Tensor]) -> FloatArray:
        import torch  # here, so that tables, which read what was saved, do without

        from expertload.lab.runs.network import apply_network

        with torch.no_grad():
            logits = apply_network(
                self.network, split, self.data.normalisation, function, batch_size=self.batch_size
            )
        return logits.astype(np.float64)

    def _perturbed_logits(self, images: Tensor) -> Tensor:
        from expertload.lab.results.odin import perturb

        nudged = perturb(
            self.network,
            images,
            epsilon=_normalised_step(self.settings["epsilon"], self.data.normalisation, images),
            temperature=self.settings["odin_temperature"],
        )
        logits: Tensor = self.network(nudged)
        return logits


def _normalised_step(epsilon: float, normalisation: Normalisation, images: Tensor) -> Tensor:
    """The step in the numbers that the network sees, where bytes are divided by 255 std."""
    import torch

    return epsilon / torch.tensor(normalisation.std).view(-1, 1, 1).to(images)


def _numbers(
    inliers: FloatArray, outliers: FloatArray, settings: dict[str, Any]
) -> dict[str, float]:
    is_outlier = np.repeat([False, True], [len(inliers), len(outliers)])
    score = -np.concatenate([inliers, outliers])
    positive = settings["positive"]
    return {
        "auroc": outlier_auroc_score(is_outlier, score),
        "aupr": outlier_aupr_score(is_outlier, score, positive=positive),
        "fpr95": fpr_at_tpr_error(is_outlier, score, positive=positive),
    }


def _parts(name: str) -> list[str]:
    """The data sets that a name stands for: all corruptions, or itself."""
    base, _, argument = name.partition(":")
    kind, _, severity = argument.partition(":")
    if (base, kind) != ("cifar100-c", "all"):
        return [name]
    suffix = f":{severity}" if severity else ""
    return [f"{base}:{corruption}{suffix}" for corruption in corruption_names()]


def _save(run: FinishedRun, evaluation: OutlierEvaluation) -> None:
    """Add to what the folder has: numbers under other settings are other results, kept apart."""
    new = evaluation.to_dict()
    kept = []
    for old in read_outliers(run.folder):
        if old.get("settings") == new["settings"]:
            new = {**new, **{key: {**old[key], **new[key]} for key in ("results", "conversions")}}
        else:
            kept.append(old)
    run.folder.write_json(OUTLIERS_FILE, {"evaluations": [*kept, new]})


def read_outliers(folder: RunFolder) -> list[dict[str, Any]]:
    """The outlier evaluations of a run, one for each choice of settings."""
    if not (folder.path / OUTLIERS_FILE).exists():
        return []
    content = folder.read_json(OUTLIERS_FILE)
    found: list[dict[str, Any]] = content.get("evaluations", [content])  # there used to be one
    return found


def describe_settings(settings: Mapping[str, Any]) -> str:
    """Say in brackets how settings differ from the usual ones; nothing where they do not.

    Examples
    --------
    >>> from expertload.lab.results.ood import describe_settings
    >>> describe_settings({"epsilon": 0.0014, "max_images": 2500})
    ' (max_images 2500)'
    """
    unusual = [
        f"{key} {settings[key]}" for key in USUAL if settings.get(key, USUAL[key]) != USUAL[key]
    ]
    return f" ({', '.join(unusual)})" if unusual else ""
