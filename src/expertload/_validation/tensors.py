"""Tensors: the layouts that losses and training metrics take."""

from __future__ import annotations

from collections.abc import Mapping

from expertload._validation.wording import message
from expertload.exceptions import (
    DataTypeError,
    LabelError,
    NonFiniteError,
    ParameterError,
    ProbabilityError,
    ShapeError,
)


def check_logits_layout(
    logits: tuple[tuple[int, ...], str],
    target: tuple[tuple[int, ...], str],
    caller: str,
) -> None:
    """Raise unless logits (N, C, d1, ...) and target (N, d1, ...), as (shape, dtype), agree."""
    (shape, dtype), (target_shape, target_dtype) = logits, target
    if "float" not in dtype:
        raise DataTypeError(
            message("logits", caller, "must be a floating point tensor", f"a tensor of {dtype}")
        )
    if len(shape) < 2 or shape[1] == 0:
        wanted = "must have shape (N, C) or (N, C, d1, ...) with at least one class"
        raise ShapeError(message("logits", caller, wanted, f"shape {shape}"))
    if "int" not in target_dtype:
        hint = "for one-hot or soft labels, pass target.argmax(dim=1); for class numbers, .long()"
        raise DataTypeError(
            message("target", caller, "must hold class numbers", f"a {target_dtype} tensor", hint)
        )
    if target_shape != shape[:1] + shape[2:]:
        wanted = f"must have shape {shape[:1] + shape[2:]} for logits of shape {shape}"
        hint = "one class number a position; classes are the second axis of logits"
        raise ShapeError(message("target", caller, wanted, f"shape {target_shape}", hint))


def check_update_layout(
    shapes: Mapping[str, tuple[int, ...]], dtypes: Mapping[str, str], caller: str
) -> None:
    """Raise unless `preds`, `target` and, where given, `valid` and `indices` fit together."""
    if "float" not in dtypes["preds"]:
        hint = "pass probabilities, not predicted classes"
        raise DataTypeError(
            message("preds", caller, "must hold probabilities", f"{dtypes['preds']} values", hint)
        )
    if len(shapes["preds"]) not in (1, 2):
        wanted = "must have shape (n, classes, ...), or (n,) for the probability of class 1"
        hint = f"target, of shape {shapes['target']}, must have the same without the second axis"
        raise ShapeError(message("preds", caller, wanted, f"shape {shapes['preds']}", hint))
    kinds = {"target": ("int", "bool"), "valid": ("bool",), "indices": ("int",)}
    for name, allowed in kinds.items():
        if name in shapes and shapes[name] != shapes["preds"][:1]:
            rows = f"must have shape {shapes['preds'][:1]}, one value a row of preds"
            raise ShapeError(message(name, caller, rows, f"shape {shapes[name]}"))
        if name in shapes and not any(kind in dtypes[name] for kind in allowed):
            kind = "booleans" if allowed == ("bool",) else "whole numbers"
            raise DataTypeError(
                message(name, caller, f"must hold {kind}", f"{dtypes[name]} values")
            )


def check_indices_usable(caller: str, *, binned: bool) -> None:
    """Raise if sample indices are given to a metric that keeps no samples."""
    if binned:
        raise ParameterError(
            f"The 'indices' parameter of {caller} needs the exact form: with bins, samples are "
            "counted and forgotten, so repeats cannot be found. Hint: mark the padding of a "
            "distributed sampler with valid=..., see expertload.torch_metrics.not_padding."
        )


def check_indices_of_rows(caller: str, *, has_indices: bool) -> None:
    """Raise if sample indices are given for dense predictions, which have several cases each."""
    if has_indices:
        raise ParameterError(
            f"The 'indices' parameter of {caller} needs one prediction a sample: these are dense, "
            "with a case at every position. Hint: mark repeated samples with valid=..., see "
            "expertload.torch_metrics.not_padding."
        )


def check_all_or_none_indexed(n_indices: int, n_cases: int, caller: str) -> None:
    """Raise if only some of the updates came with sample indices."""
    if n_indices not in (0, n_cases):
        raise ParameterError(
            message(
                "indices",
                caller,
                "must be given in every update or in none",
                f"{n_indices} indices for {n_cases} cases",
            )
        )


def label_range_error(
    low: int,
    high: int,
    n_classes: int,
    caller: str,
    hint: str = "pass ignore_index=... for the number that marks positions without a label",
) -> LabelError:
    """Word the error for class numbers that no column of the logits stands for."""
    wanted = f"must hold class numbers from 0 to {n_classes - 1}"
    return LabelError(message("target", caller, wanted, f"numbers from {low} to {high}", hint))


def soft_target_error(
    low: float, high: float, least_sum: float, most_sum: float, caller: str
) -> ProbabilityError:
    """Word the error for soft targets that are not probabilities of the classes."""
    wanted = "must hold class numbers, or probabilities in [0, 1] that sum to one over the classes"
    got = f"values from {low:g} to {high:g} with sums from {least_sum:g} to {most_sum:g}"
    return ProbabilityError(message("target", caller, wanted, got))


def non_finite_logits_error(caller: str) -> NonFiniteError:
    """Word the error for logits that are NaN or infinite."""
    hint = "lower the learning rate, clip gradients, or look for a division by zero in the model"
    return NonFiniteError(message("logits", caller, "must be finite", "NaN or infinity", hint))


def missing_cases_error(caller: str) -> ParameterError:
    """Word the error for a loss that follows cases and is not told which they are."""
    return ParameterError(
        f"{caller} follows each case through training and needs to know which they are. Hint: pass "
        "cases=..., the numbers of the cases in the training data; for data that are not trained "
        "on, use cross-entropy."
    )


def check_case_numbers(dtype: str, caller: str) -> None:
    """Raise unless the numbers of cases are whole."""
    if "int" not in dtype:
        hint = "one number a case, its place in the training data"
        got = f"a {dtype} tensor"
        raise DataTypeError(message("cases", caller, "must hold whole numbers", got, hint))


def negative_case_error(lowest: int, caller: str) -> ParameterError:
    """Word the error for the number of a case that is below zero."""
    hint = "a case's number is its place in the training data, from 0 on"
    return ParameterError(message("cases", caller, "must hold 0 or more", lowest, hint))


def check_per_case(
    shape: tuple[int, ...], target_shape: tuple[int, ...], n_classes: int, name: str, caller: str
) -> None:
    """Raise unless there is one number per case, or, as `soft_target`, one per class."""
    per_class = (*target_shape[:1], n_classes, *target_shape[1:])
    wanted = per_class if name == "soft_target" else target_shape
    if shape != wanted:
        text = f"must have shape {wanted} for target of shape {target_shape}"
        raise ShapeError(message(name, caller, text, f"shape {shape}"))
