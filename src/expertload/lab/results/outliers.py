"""Measures how well a network's confidence separates outliers from its own test images.

The paper uses four scores: the maximum softmax probability (MSP), ODIN, the maximum logit and the
energy. Its ODIN is the softmax at the temperature that calibration fitted, without ODIN's input
perturbation; that is ``odin`` here, and ``odin_perturbed`` is ODIN as its authors published it.
Inliers are the run's own test images. Outliers are the test images of any other data set,
normalised like the run's own, or the run's own test images, corrupted (``corrupted:fog:3``). With
``all``, or several corruptions joined by a plus, numbers are means over these corruptions.

Outliers must differ in what they show, not in how they are stored. Grey images become colour images
by repeating their channel. Colour images become grey with the usual weights (0.299, 0.587, 0.114).
The size is changed by interpolation, with smoothing if images shrink.

ODIN's input perturbation changes each image so that its predicted class becomes more likely.
Inliers gain more confidence from this than outliers, which separates the two better.

References
----------
Liang et al., "Enhancing the reliability of out-of-distribution image detection in neural
networks", ICLR 2018.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from expertload._check import check_count
from expertload._names import Objective
from expertload._typing import FloatArray
from expertload.calibrators import TemperatureScaling
from expertload.exceptions import ParameterError
from expertload.lab.data import Dataset, Normalisation, Split, corruption_names, load_dataset
from expertload.lab.data.corruptions import corrupt_split, parse_corruption
from expertload.lab.data.dataset import LUMINANCE, ImageArray
from expertload.lab.runs.finished import FinishedRun
from expertload.lab.runs.folder import RunFolder
from expertload.metrics import fpr_at_tpr_error, outlier_aupr_score, outlier_auroc_score
from expertload.scores import (
    energy_confidence,
    max_logit_confidence,
    max_softmax_confidence,
    tempered_softmax_confidence,
)

if TYPE_CHECKING:
    from torch import Tensor, nn

OUTLIERS_FILE = "outliers.json"
SCORE_NAMES = ("msp", "odin", "odin_perturbed", "maxlogit", "energy")
Numbers = dict[str, dict[str, float]]
OWN = "corrupted"
EPSILON = 0.0014  # the step of ODIN's perturbation, as a share of the range from black to white
ODIN_TEMPERATURE = 1000.0
CHUNK = 4096  # images per batch, so that memory is never needed for all of them as floats


@dataclass(frozen=True, kw_only=True)
class OutlierEvaluation:
    """How well each score detects outliers.

    Attributes
    ----------
    results : dict
        By name, then score (`SCORE_NAMES`): ``auroc``, ``aupr`` and ``fpr95``.
    conversions : dict
        By data set: how its images were converted for the network.
    settings : dict
        What else affects the numbers: ``objective``, ``max_images``, and the ``temperature`` found.
    """

    results: dict[str, Numbers]
    conversions: dict[str, str]
    settings: dict[str, Any]


def evaluate_outliers(
    folder: str | Path,
    against: Sequence[str],
    *,
    objective: Objective = "nll",
    max_images: int | None = None,
    save: bool = False,
    **access: Any,
) -> OutlierEvaluation:
    """Measure how well a run's scores separate outliers from its own test images.

    Parameters
    ----------
    folder : path
        The folder of a finished run; its selected weights are used. An ensemble has probabilities
        but no logits, so ``msp`` is its only score.
    against : sequence of str
        Data sets by name, ``"svhn"`` or ``"cifar100-c:gaussian_noise"`` for example; their classes
        do not matter, only their test images. ``"corrupted:fog:3"`` is the run's own test images
        under a corruption of severity 3. ``"corrupted:all:3"`` and ``"cifar100-c:all:3"`` are means
        of the numbers over the fifteen corruptions, ``"corrupted:fog+snow:3"`` over two; without a
        severity, all five together.
    objective : {"nll", "ece"}, default="nll"
        The objective for fitting the temperature of ``odin`` on the validation split; the paper
        used ECE.
    max_images : int, optional
        Use at most this many inliers and outliers, evenly spread over the split.
    save : bool, default=False
        Add the results to ``outliers.json`` in the run's folder, which tables read. Results with
        other settings are kept.
    **access
        ``data_dir``, ``allow`` and ``device``, as in `FinishedRun`.

    Returns
    -------
    OutlierEvaluation

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from expertload.lab.results.outliers import evaluate_outliers
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
    if max_images is not None:
        check_count(max_images, "max_images")
    names = [against] if isinstance(against, str) else list(against)
    if not names:
        raise ParameterError("Outliers need at least one data set to compare with. Got none.")
    run = FinishedRun(folder, **access)
    logits, labels = run.validation
    scaling = TemperatureScaling(objective=objective)
    temperature = scaling.fit(logits, labels, labels=np.arange(logits.shape[1])).temperature_
    data, network = run.load_data_and_network()
    scorer = OutlierScorer(
        network,
        data.normalisation,
        temperature,
        names=("msp",) if run.folder.is_ensemble else SCORE_NAMES,
    )
    sets = OutlierSets(run, data, max_images)
    inside = scorer.scores(sets.inliers)
    results: dict[str, Numbers] = {}
    conversions: dict[str, str] = {}
    for name in names:
        parts = []
        for images, conversion in sets.find(name):
            conversions[name] = conversion
            parts.append(outlier_numbers(inside, scorer.scores(images)))
        results[name] = mean_numbers(parts)
    evaluation = OutlierEvaluation(
        results=results,
        conversions=conversions,
        settings={"objective": objective, "max_images": max_images, "temperature": temperature},
    )
    if save:
        _save(run, evaluation)
    return evaluation


@dataclass(frozen=True, eq=False)
class OutlierScorer:
    """Computes the confidences of a network for images.

    Parameters
    ----------
    network : Module
    normalisation : Normalisation
        Of the data it was trained on.
    temperature : float
        The temperature of ``odin``.
    names : sequence of str
        Some of `SCORE_NAMES`. The mean of several networks has probabilities but no logits, so only
        MSP applies to it.
    """

    network: nn.Module
    normalisation: Normalisation
    temperature: float
    names: Sequence[str] = SCORE_NAMES

    def scores(self, split: Split) -> dict[str, FloatArray]:
        """Return all confidences for the images of a split."""
        # In double precision: at temperature 1000, single precision would create ties.
        logits = self._logits(split, self.network)
        scores: dict[str, Callable[[FloatArray], FloatArray]] = {
            "msp": max_softmax_confidence,
            "odin": partial(tempered_softmax_confidence, temperature=self.temperature),
            "odin_perturbed": lambda _: tempered_softmax_confidence(
                self._logits(split, self._perturbed), temperature=ODIN_TEMPERATURE
            ),
            "maxlogit": max_logit_confidence,
            "energy": energy_confidence,
        }
        return {name: scores[name](logits) for name in self.names}

    def _logits(self, split: Split, function: Callable[[Tensor], Tensor]) -> FloatArray:
        # Imported here, because it needs torch, and tables read saved results without it.
        from expertload.lab.runs.network import apply_network

        return apply_network(self.network, split, self.normalisation, function).astype(np.float64)

    def _perturbed(self, images: Tensor) -> Tensor:
        # The step is in normalised units, in which bytes are divided by 255 std.
        std = images.new_tensor(self.normalisation.std).view(-1, 1, 1)
        logits: Tensor = self.network(perturb(self.network, images, epsilon=EPSILON / std))
        return logits


def perturb(
    network: nn.Module,
    images: Tensor,
    *,
    epsilon: float | Tensor,
    temperature: float = ODIN_TEMPERATURE,
) -> Tensor:
    """Move images a step up the log-probability of their predicted class.

    Parameters
    ----------
    network : Module
        From images to logits, in evaluation mode.
    images : Tensor of shape (n, channels, height, width)
        Normalised, as the input of the network.
    epsilon : float or Tensor that broadcasts to the images
        The size of the step; a tensor of shape (channels, 1, 1) if channels are scaled differently.
    temperature : float, default=1000
        The divisor of the logits; ODIN uses 1000.

    Returns
    -------
    Tensor
        Of the shape of the images.

    Examples
    --------
    >>> import torch
    >>> from expertload.lab.results.outliers import perturb
    >>> network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(1, 2, bias=False))
    >>> network[1].weight.data = torch.tensor([[1.0], [-1.0]])
    >>> perturb(network, torch.tensor([0.5, -0.5]).view(2, 1, 1, 1), epsilon=0.1).flatten()
    tensor([ 0.6000, -0.6000])
    """
    import torch  # here, because tables read saved results without it

    with torch.enable_grad():
        moving = images.detach().clone().requires_grad_()
        log_proba = torch.log_softmax(network(moving) / temperature, dim=1)
        # In evaluation mode rows do not affect each other, so one backward pass is enough for all.
        (slope,) = torch.autograd.grad(log_proba.max(dim=1).values.sum(), moving)
    return images + epsilon * slope.sign()


def outlier_numbers(
    inliers: Mapping[str, FloatArray], outliers: Mapping[str, FloatArray]
) -> Numbers:
    """Return how well each confidence separates outliers from inliers.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload.lab.results.outliers import outlier_numbers
    >>> inside, outside = {"msp": np.array([0.9, 0.8, 0.6])}, {"msp": np.array([0.7, 0.5])}
    >>> round(outlier_numbers(inside, outside)["msp"]["auroc"], 3)
    0.833
    """
    numbers: Numbers = {}
    for name, inside in inliers.items():
        is_outlier = np.repeat([False, True], [len(inside), len(outliers[name])])
        score = -np.concatenate([inside, outliers[name]])
        numbers[name] = {
            "auroc": outlier_auroc_score(is_outlier, score),
            "aupr": outlier_aupr_score(is_outlier, score),
            "fpr95": fpr_at_tpr_error(is_outlier, score),
        }
    return numbers


def mean_numbers(parts: Sequence[Numbers]) -> Numbers:
    """Return the mean of numbers over several sets of outliers."""
    return {
        score: {number: float(np.mean([part[score][number] for part in parts])) for number in own}
        for score, own in parts[0].items()
    }


def _save(run: FinishedRun, evaluation: OutlierEvaluation) -> None:
    """Add results to the folder; results with other settings are kept separately."""
    new = asdict(evaluation)
    kept = []
    for old in read_outliers(run.folder):
        if old.get("settings") == new["settings"]:
            new = {**new, **{key: {**old[key], **new[key]} for key in ("results", "conversions")}}
        else:
            kept.append(old)
    run.folder.write_json(OUTLIERS_FILE, {"evaluations": [*kept, new]})


def read_outliers(folder: RunFolder) -> list[dict[str, Any]]:
    """Return the outlier evaluations of a run, one for each choice of settings."""
    if not (folder.path / OUTLIERS_FILE).exists():
        return []
    evaluations: list[dict[str, Any]] = folder.read_json(OUTLIERS_FILE).get("evaluations", [])
    return evaluations


def describe_settings(settings: Mapping[str, Any]) -> str:
    """Return, in brackets, the settings that differ from the defaults; empty if none do.

    Examples
    --------
    >>> from expertload.lab.results.outliers import describe_settings
    >>> describe_settings({"objective": "nll", "max_images": 2500})
    ' (max_images 2500)'
    """
    usual = {"objective": "nll", "max_images": None}
    unusual = [f"{key} {settings[key]}" for key in usual if settings[key] != usual[key]]
    return f" ({', '.join(unusual)})" if unusual else ""


# ------------------------------------------------------------------ images


Outliers = tuple[Split, str]  # converted for the network, and a description of the conversion


@dataclass(frozen=True)
class OutlierSets:
    """Finds the inliers of a network and its outliers by name.

    Attributes
    ----------
    run : FinishedRun
        Its settings are those of splits, of corruptions and of images in a folder.
    data : Dataset
        The data of the run; its test images are the inliers.
    max_images : int or None
        Use at most this many inliers and outliers, evenly spread over the split.
    """

    run: FinishedRun
    data: Dataset
    max_images: int | None

    @property
    def inliers(self) -> Split:
        """The network's own test images."""
        return self._thinned(self.data.test)

    def find(self, name: str) -> Iterator[Outliers]:
        """Yield the sets of a name one by one, because all may not fit in memory."""
        for part in _parts(name):
            base, _, argument = part.partition(":")
            yield self._corrupted(argument) if base == OWN else self._others(part)

    def _corrupted(self, argument: str) -> Outliers:
        corruption, severities = parse_corruption(argument, OWN)
        seed = self.run.config.data.split_seed
        every = corrupt_split(self.inliers, corruption, severities, seed=seed)
        return self._thinned(every), "as they are"

    def _others(self, name: str) -> Outliers:
        # Images of a folder are resized like those of the run, so that only their content differs.
        config, data_dir = self.run.config.data, self.run.access["data_dir"]
        size = config.image_size if name.startswith("folder:") else None
        others = load_dataset(name, data_dir=data_dir, seed=config.split_seed, image_size=size)
        if np.array_equal(others.test.images, self.data.test.images):
            raise ParameterError(
                f"The outliers must differ from the run's own test images. Got {name!r} for both. "
                "Hint: name another data set."
            )
        chosen, shape = self._thinned(others.test), self.data.image_shape
        images = convert_images(chosen.images, shape)
        return Split(images, chosen.labels), describe_conversion(others.image_shape, shape)

    def _thinned(self, split: Split) -> Split:
        if self.max_images is None or self.max_images >= len(split):
            return split
        return split.take(np.linspace(0, len(split) - 1, self.max_images).astype(np.int64))


def _parts(name: str) -> list[str]:
    """Return the parts of a name: each of several corruptions, or the name itself."""
    base, _, argument = name.partition(":")
    if base not in (OWN, "cifar100-c"):
        return [name]
    kinds, colon, severity = argument.partition(":")
    corruptions = corruption_names() if kinds == "all" else kinds.split("+")
    return [f"{base}:{kind}{colon}{severity}" for kind in corruptions]


# ------------------------------------------------------------------ conversion


def convert_images(images: ImageArray, shape: tuple[int, int, int]) -> ImageArray:
    """Convert images to a height, a width and a number of channels.

    Parameters
    ----------
    images : ndarray of uint8, shape (n, height, width, channels)
    shape : (height, width, channels)
        The shape of the network's training images.

    Returns
    -------
    ndarray of uint8, shape (n, *shape)

    Examples
    --------
    >>> import numpy as np
    >>> from expertload.lab.results.outliers import convert_images
    >>> convert_images(np.full((2, 28, 28, 1), 7, np.uint8), (32, 32, 3)).shape
    (2, 32, 32, 3)
    """
    parts = [
        _resized(_with_channels(images[start : start + CHUNK], shape[2]), shape[:2])
        for start in range(0, len(images), CHUNK)
    ]
    return np.concatenate(parts)


def describe_conversion(given: tuple[int, int, int], wanted: tuple[int, int, int]) -> str:
    """Return a description of what `convert_images` does to images of a shape.

    Examples
    --------
    >>> from expertload.lab.results.outliers import describe_conversion
    >>> describe_conversion((28, 28, 1), (32, 32, 3))
    'grey to colour, 28 x 28 resized to 32 x 32 (bilinear)'
    """
    steps = []
    if given[2] != wanted[2]:
        steps.append("grey to colour" if given[2] == 1 else "colour to grey")
    if given[:2] != wanted[:2]:
        steps.append(f"{given[0]} x {given[1]} resized to {wanted[0]} x {wanted[1]} (bilinear)")
    return ", ".join(steps) or "as they are"


def _with_channels(images: ImageArray, channels: int) -> ImageArray:
    have = images.shape[-1]
    if have == channels:
        return images
    if have == 1:
        return np.repeat(images, channels, axis=-1)
    if have == 3 and channels == 1:
        grey: ImageArray = np.rint(images @ np.array(LUMINANCE)).astype(np.uint8)
        return grey[..., None]
    raise ParameterError(
        f"Images with {have} channels cannot be converted for a network with {channels}: only "
        "grey and colour images can be converted into each other."
    )


def _resized(images: ImageArray, size: tuple[int, int]) -> ImageArray:
    if images.shape[1:3] == size:
        return images
    import torch  # imported here, because only images of another size need torch

    floats = torch.from_numpy(np.ascontiguousarray(images)).permute(0, 3, 1, 2).float()
    changed = torch.nn.functional.interpolate(floats, size=size, mode="bilinear", antialias=True)
    rounded = changed.round_().clamp_(0, 255).to(torch.uint8)
    return rounded.permute(0, 2, 3, 1).contiguous().numpy()
