"""The figures published in the paper, for comparison.

They come with the package, in percent, by experiment, loss and number. The paper's table for
TissueMNIST has AUCOC and accuracy exchanged; here they are corrected.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import NamedTuple

__all__ = ["Published", "find_published", "find_published_outliers", "published_losses"]

# The names of networks in the published figures, if they differ from ours.
NETWORKS = {"wide-resnet-28-10": "wrn-28-10"}
OUTLIERS = {
    "cifar100-c:gaussian_noise": "cifar100-vs-cifar100c-gaussian",
    "cifar100-c:all": "cifar100-vs-cifar100c-all",
    "svhn": "cifar100-vs-svhn",
}


class Published(NamedTuple):
    """Figures of one experiment.

    Attributes
    ----------
    source : str
        The network, and the batch size if it was varied.
    figures : mapping
        By loss, then number; per cent.
    """

    source: str
    figures: Mapping[str, Mapping[str, float]]


@cache
def _all_figures() -> dict[str, dict[str, dict[str, float]]]:
    text = (files("expertload.lab.results") / "published_results.json").read_text("utf-8")
    figures: dict[str, dict[str, dict[str, float]]] = json.loads(text)
    return figures


def published_losses() -> tuple[str, ...]:
    """Return the losses of the paper's tables, in their order.

    Examples
    --------
    >>> from expertload.lab.results.published import published_losses
    >>> published_losses()[:3]
    ('ce', 'focal', 'adafocal53')
    """
    return tuple(next(iter(_all_figures().values())))


def find_published(data: str, model: str, *, batch_size: int | None = None) -> Published | None:
    """Return the paper's figures for a data set, with the network nearest to ours.

    Parameters
    ----------
    data, model : str
        As in a recipe. If the paper has no figures for this network, those of its main table are
        used, and `source` names their network.
    batch_size : int, optional
        If the paper has figures for this batch size, they are used.

    Examples
    --------
    >>> from expertload.lab.results.published import find_published
    >>> find_published("cifar100", "wide-resnet-28-10").figures["ce+aucoc"]["aucoc"]
    94.49
    >>> find_published("retinamnist", "small-cnn").source
    'resnet50'
    """
    figures = _all_figures()
    network = NETWORKS.get(model, model)
    varied = f"{data}/{network}/batch-{batch_size}"
    if varied in figures:
        return Published(f"{network}, batch size {batch_size}", figures[varied])
    if f"{data}/{network}" in figures:
        return Published(network, figures[f"{data}/{network}"])
    # The main tables come before those of the appendix.
    others = [name for name in figures if name.startswith(f"{data}/") and name.count("/") == 1]
    if not others:
        return None
    return Published(others[0].partition("/")[2], figures[others[0]])


def find_published_outliers(data: str, against: str) -> Published | None:
    """Return the paper's AUROC by loss and score for a network trained on CIFAR-100.

    Examples
    --------
    >>> from expertload.lab.results.published import find_published_outliers
    >>> find_published_outliers("cifar100", "svhn").figures["ce+aucoc"]["odin"]
    83.5
    """
    if data != "cifar100" or against not in OUTLIERS:
        return None
    return Published("wrn-28-10", _all_figures()[OUTLIERS[against]])
