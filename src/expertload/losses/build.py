"""The losses of the paper's tables, by name.

A name is one loss, or a primary and a secondary one joined by a plus sign: ``"focal"``,
``"ce+aucoc"``. `LOSS_NAMES` are the eleven rows of the tables; any other pair of a primary and a
secondary part works as well.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from torch import nn

from expertload._validation import check_known_options, check_option, check_unused
from expertload.losses.adaptive_focal import AdaptiveFocalLoss
from expertload.losses.aucoc import AUCOCLoss
from expertload.losses.combined import CombinedLoss
from expertload.losses.focal import FocalLoss
from expertload.losses.mmce import MMCELoss
from expertload.losses.soft_avuc import SoftAvUCLoss
from expertload.losses.soft_ece import SoftECELoss

__all__ = ["LOSS_NAMES", "build_loss"]

Factory = Callable[..., nn.Module]

PRIMARY: Mapping[str, Factory] = MappingProxyType(
    {"ce": nn.CrossEntropyLoss, "focal": FocalLoss, "adafocal53": AdaptiveFocalLoss}
)
SECONDARY: Mapping[str, Factory] = MappingProxyType(
    {"mmce": MMCELoss, "savuc": SoftAvUCLoss, "sece": SoftECELoss, "aucoc": AUCOCLoss}
)

LOSS_NAMES = (
    "ce",
    "focal",
    "adafocal53",
    "ce+mmce",
    "focal+mmce",
    "ce+savuc",
    "focal+savuc",
    "ce+sece",
    "focal+sece",
    "ce+aucoc",
    "focal+aucoc",
)

# Every part, then every pair; the eleven of the tables come first in messages.
_PAIRS = tuple(f"{first}+{second}" for first in PRIMARY for second in SECONDARY)
_ALL_NAMES = tuple(dict.fromkeys([*LOSS_NAMES, *_PAIRS, *SECONDARY]))


def build_loss(
    name: str,
    *,
    weight: float | None = None,
    ignore_index: int = -100,
    primary_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> nn.Module:
    """Build a loss from its name.

    Parameters
    ----------
    name : str
        One of ``LOSS_NAMES``, another ``"primary+secondary"``, or a single part. Primary parts
        are ``ce`` (PyTorch's own), ``focal`` (gamma 3) and ``adafocal53``; secondary ones
        ``mmce``, ``savuc``, ``sece`` and ``aucoc``.
    weight : float, optional
        What the secondary part is multiplied by, 1 by default. Only for a pair.
    ignore_index : int, default=-100
        Handed to every part.
    primary_options : mapping, optional
        Options of the primary part, such as ``{"gamma": 2.0}``. Only for a pair.
    **options
        Options of the secondary part, or of a loss that stands alone.

    Returns
    -------
    Module
        Called with logits and target, like ``torch.nn.CrossEntropyLoss``. A `CombinedLoss` for a
        pair.

    Examples
    --------
    >>> import torch
    >>> from expertload.losses import build_loss
    >>> loss = build_loss("ce+sece", weight=2.0, temperature=0.1)
    >>> print(f"{loss(torch.zeros(1, 2), torch.tensor([0])):.4f}")
    1.6931
    """
    check_option(name, _ALL_NAMES, "name", "build_loss")
    first, _, second = name.partition("+")
    if not second:
        check_unused("build_loss", name, weight=weight, primary_options=primary_options)
        return _build(first, ignore_index, options)
    return CombinedLoss(
        _build(first, ignore_index, primary_options or {}),
        _build(second, ignore_index, options),
        weight=1.0 if weight is None else weight,
    )


def _build(part: str, ignore_index: int, options: Mapping[str, Any]) -> nn.Module:
    factory = {**PRIMARY, **SECONDARY}[part]
    check_known_options(options, inspect.signature(factory).parameters, part, "build_loss")
    return factory(ignore_index=ignore_index, **options)
