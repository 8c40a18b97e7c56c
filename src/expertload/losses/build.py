"""Two losses trained together, and the losses of the paper's tables by name.

Calibration losses and AUCOCLoss train the order or the spread of confidences. A primary loss
(cross-entropy or focal loss) trains the classes: `CombinedLoss` adds them.

A name is one loss, or a primary and a secondary one joined by a plus sign: ``"focal"``,
``"ce+aucoc"``. `LOSS_NAMES` are the eleven rows of the tables; any other pair of a primary and a
secondary part works as well, and either part may be a user's own, by its import path.
"""

from __future__ import annotations

import difflib
import inspect
import sys
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor, nn

from expertload._check import check_option, check_positive, message
from expertload.exceptions import MissingExtraError, ParameterError
from expertload.losses.aucoc import AUCOCLoss, AUCOCUpperBoundLoss
from expertload.losses.base import Loss, call_loss
from expertload.losses.calibration import ConfidencePenalty, MMCELoss, SoftAvUCLoss, SoftECELoss
from expertload.losses.focal import AdaptiveFocalLoss, FocalLoss, GeneralisedCrossEntropyLoss

Factory = Callable[..., nn.Module]

PRIMARY: Mapping[str, Factory] = {
    "ce": nn.CrossEntropyLoss,
    "focal": FocalLoss,
    "adafocal53": AdaptiveFocalLoss,
    "gce": GeneralisedCrossEntropyLoss,
}
SECONDARY: Mapping[str, Factory] = {
    "mmce": MMCELoss,
    "savuc": SoftAvUCLoss,
    "sece": SoftECELoss,
    "aucoc": AUCOCLoss,
    "aucoc_upper_bound": AUCOCUpperBoundLoss,
    "confidence_penalty": ConfidencePenalty,
}

# The rows of the paper's tables.
_SECOND = ("mmce", "savuc", "sece", "aucoc")
_ROWS = tuple(f"{first}+{second}" for second in _SECOND for first in ("ce", "focal"))
LOSS_NAMES = ("ce", "focal", "adafocal53", *_ROWS)

_PAIRS = tuple(f"{first}+{second}" for first in PRIMARY for second in SECONDARY)
_ALL_NAMES = (*PRIMARY, *SECONDARY, *_PAIRS)
_OWN = "module:callable"
_IGNORE_INDEX = -100  # PyTorch's own default


class LossParts(NamedTuple):
    """The result of `CombinedLoss.parts`; `secondary` is before multiplication by the weight."""

    total: Tensor
    primary: Tensor
    secondary: Tensor


class CombinedLoss(nn.Module):
    """Add a weighted secondary loss to a primary one.

    Parameters
    ----------
    primary, secondary : Module or callable
        Each is called with logits and target and returns a scalar.
    weight : float, default=1.0
        The factor of the secondary loss. Both losses should be means over the batch, as with
        ``reduction="mean"``, so that the weight has the same effect at every batch size.

    Examples
    --------
    >>> import torch
    >>> from expertload.losses import CombinedLoss, MMCELoss
    >>> loss = CombinedLoss(torch.nn.CrossEntropyLoss(), MMCELoss(), weight=2.0)
    >>> logits, target = torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0])
    >>> print(f"{loss(logits, target):.4f}")
    2.0297

    For a log, take the parts in place of the sum; nothing is computed twice:

    >>> parts = loss.parts(logits, target)
    >>> print(f"{parts.total:.4f} = {parts.primary:.4f} + 2 * {parts.secondary:.4f}")
    2.0297 = 0.7201 + 2 * 0.6548
    """

    def __init__(self, primary: Loss, secondary: Loss, weight: float = 1.0) -> None:
        super().__init__()
        self.primary = primary
        self.secondary = secondary
        self.weight = check_positive(weight, "weight", zero=True)
        ignored = {getattr(part, "ignore_index", None) for part in (primary, secondary)} - {None}
        if len(ignored) > 1:
            numbers = " and ".join(sorted(map(str, ignored)))
            warnings.warn(
                f"The two losses ignore different class numbers, {numbers}: what one of them "
                "ignores is a class for the other. Hint: pass both the same ignore_index.",
                stacklevel=2,
            )

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Compute the sum for a batch."""
        return self.parts(logits, target).total

    def parts(self, logits: Tensor, target: Tensor) -> LossParts:
        """Return the sum and both parts, each with its graph, as `LossParts`."""
        primary = call_loss(self.primary, logits, target, "primary")
        secondary = call_loss(self.secondary, logits, target, "secondary")
        return LossParts(primary + self.weight * secondary, primary, secondary)

    def extra_repr(self) -> str:
        """Show the weight when printed."""
        return f"weight={self.weight}"


def build_loss(
    name: str,
    *,
    weight: float | None = None,
    ignore_index: int = _IGNORE_INDEX,
    primary_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> nn.Module:
    """Build a loss from its name.

    Parameters
    ----------
    name : str
        One of ``LOSS_NAMES``, another ``"primary+secondary"``, or a single part. Primary parts
        are ``ce`` (PyTorch's own), ``focal`` (gamma 3) and ``adafocal53``; secondary ones
        ``mmce``, ``savuc``, ``sece`` and ``aucoc``. Beyond the tables there are the primary
        ``gce`` (`GeneralisedCrossEntropyLoss`), and the secondary ``aucoc_upper_bound`` and
        ``confidence_penalty``. Any part may be ``"module:callable"`` for a loss of your own:
        ``"mypackage.losses:build"``, ``"ce+mypackage.losses:build"``. That callable gets the
        options and returns a torch module.
    weight : float, optional
        The factor of the secondary part, 1 by default. Only for a pair.
    ignore_index : int, default=-100
        Passed to every part that has no other in its options; to your own only if it is not the
        default.
    primary_options : mapping, optional
        Options of the primary part, such as ``{"gamma": 2.0}``. Only for a pair.
    **options
        Options of the secondary part, or of a single loss.

    Returns
    -------
    Module
        Called with logits and target, like ``torch.nn.CrossEntropyLoss``. A `CombinedLoss` for a
        pair.

    Notes
    -----
    Finite logits of any size have finite gradients. The values of ``ce``, ``focal`` and
    ``adafocal53`` grow without limit, as cross-entropy does; they are infinite where their
    precision has no number of that size.

    Examples
    --------
    >>> import torch
    >>> from expertload.losses import build_loss
    >>> loss = build_loss("ce+sece", weight=2.0, temperature=0.1)
    >>> print(f"{loss(torch.zeros(1, 2), torch.tensor([0])):.4f}")
    1.6931
    """
    first, second = _parts(name)
    if not second:
        _check_unused(name, weight=weight, primary_options=primary_options)
        return _build(first, ignore_index, options)
    return CombinedLoss(
        _build(first, ignore_index, primary_options or {}),
        _build(second, ignore_index, options),
        weight=1.0 if weight is None else weight,
    )


def _parts(name: str) -> tuple[str, str]:
    """Return both parts of a name, the second empty for a single loss; raise if unknown."""
    if not isinstance(name, str) or (":" not in name and name not in _ALL_NAMES):
        raise _unknown_name(name)
    first, plus, second = name.partition("+")
    for part, known in ((first, PRIMARY), (second, SECONDARY)) if plus else ():
        if ":" not in part:
            check_option(part, (*known, _OWN), "name")
    return first, second


def _unknown_name(name: object) -> ParameterError:
    """Return the error for a name that is neither a loss nor a pair; parts are listed once."""
    tables, primary, secondary = (
        ", ".join(map(repr, names)) for names in (LOSS_NAMES, PRIMARY, SECONDARY)
    )
    wanted = (
        f"must be one of {tables}; another pair of a primary part ({primary}) and a secondary one "
        f"({secondary}), or a single part; or {_OWN!r}"
    )
    plain = str(name).lower().replace(" ", "")
    near = difflib.get_close_matches(plain, _ALL_NAMES, n=1)
    text = message("name", wanted, repr(name))
    return ParameterError(f"{text} Hint: did you mean {near[0]!r}?" if near else text)


def _build(part: str, ignore_index: int, options: Mapping[str, Any]) -> nn.Module:
    # A loss by import path gets the index only if it was changed.
    common = {} if ignore_index == _IGNORE_INDEX else {"ignore_index": ignore_index}
    known = {**PRIMARY, **SECONDARY}
    builder = known[part] if part in known else import_callable(part, "loss")
    return call_builder(builder, {**common, **options}, name=part, what="loss")


def _check_unused(name: str, **options: Any) -> None:
    """Raise if an option for pairs is given with a single loss."""
    for option, value in options.items():
        if value is not None:
            raise ParameterError(
                f"'{option}' is only for a 'primary+secondary' pair. Got "
                f"it with {name!r}, a single loss. Hint: leave it out."
            )


# ------------------------------------------------------------------ by import path


def import_callable(path: str, what: str) -> Callable[..., Any]:
    """Return the callable of a ``"module:callable"`` path; raise if it cannot be imported."""
    module_name, _, attribute = path.partition(":")
    if not all(part.isidentifier() for part in [*module_name.split("."), attribute]):
        raise ParameterError(
            f"The import path of a {what} must be of the form module:callable. Got {path!r} "
            "instead."
        )
    # A script's path lacks the working folder, in which people have their own modules. It comes
    # last, so that no file there replaces an installed module.
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        module = import_module(module_name)
    except ImportError as error:
        raise MissingExtraError(
            f"The {what} {path!r} needs the module {module_name!r}, which cannot be imported: "
            f"{error}. Hint: install it, or run in the folder that has it."
        ) from error
    builder = getattr(module, attribute, None)
    if not callable(builder):
        raise ParameterError(f"The module {module_name!r} has nothing to call named {attribute!r}.")
    return builder  # type: ignore[no-any-return]


def call_builder(
    builder: Callable[..., Any], arguments: Mapping[str, Any], *, name: str, what: str
) -> nn.Module:
    """Call a builder, and check that it returns a torch module."""
    try:
        built = builder(**arguments)
    except TypeError as error:
        given = ", ".join(arguments) or "none"
        known = ", ".join(inspect.signature(builder).parameters)
        raise ParameterError(
            f"The {what} {name!r} does not take the options it was given ({given}): {error}. Hint: "
            f"its options are {known}."
        ) from error
    if not isinstance(built, nn.Module):
        raise ParameterError(
            f"The {what} {name!r} must be a torch module. Got {type(built).__name__} instead."
        )
    return built
