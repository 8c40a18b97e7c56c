"""What a loss remembers of each training case.

Some losses need to know *which* case a row is: they follow each case through training. Such a loss
says so by an attribute ``needs_cases = True``, and is called with the numbers of the cases::

    loss(logits, target, cases=numbers)

`CombinedLoss` passes the numbers on to the part that needs them, and so does the lab. What a loss
remembers is part of its ``state_dict``.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from expertload._validation import message
from expertload.exceptions import DataTypeError, ParameterError, ShapeError
from expertload.losses.inputs import check_inputs, labelled
from expertload.losses.top_label import working_dtype

__all__ = [
    "Followed",
    "PerCase",
    "call_loss",
    "checked_numbers",
    "distinct",
    "follow",
    "needs_cases",
]


def needs_cases(loss: object) -> bool:
    """Return whether a loss is to be called with the numbers of the cases."""
    return bool(getattr(loss, "needs_cases", False))


def call_loss(loss: object, logits: Tensor, target: Tensor, cases: Tensor | None) -> Tensor:
    """Call a loss with the numbers of the cases if it needs them, else without."""
    named = {"cases": cases} if needs_cases(loss) else {}
    value: Tensor = loss(logits, target, **named)  # type: ignore[operator]
    return value


class Followed(NamedTuple):
    """The rows of a batch that count, each with what is known of its case."""

    logits: Tensor  # (n, C), at least float32
    target: Tensor  # (n,)
    known: Tensor  # (n,) or (n, C)


def follow(
    logits: Tensor, target: Tensor, known: Tensor, *, name: str, ignore_index: int, caller: str
) -> Followed:
    """Return the rows that are not ignored, each with the number or the row that `known` has."""
    check_inputs(logits, target, caller=caller)
    n_classes = logits.shape[1]
    _check_per_case(tuple(known.shape), tuple(target.shape), n_classes, name, caller)
    keep = labelled(target, n_classes, ignore_index=ignore_index, caller=caller)
    rows = slice(None) if keep is None else keep.reshape(-1)
    scores = _in_rows(logits.to(working_dtype(logits)))
    known = known.reshape(-1) if known.shape == target.shape else _in_rows(known)
    return Followed(scores[rows], target.reshape(-1).long()[rows], known[rows])


def _in_rows(values: Tensor) -> Tensor:
    """Turn (N, C, d1, ...) into one row of C a position."""
    return values.movedim(1, -1).reshape(-1, values.shape[1])


def checked_numbers(cases: Tensor | None, caller: str) -> Tensor:
    """Return the numbers of the cases, or raise where there are none."""
    if cases is None:
        raise _missing_cases_error(caller)
    _check_case_numbers(str(cases.dtype), caller)
    if cases.device.type == "cpu" and cases.numel() and int(cases.min()) < 0:
        raise _negative_case_error(int(cases.min()), caller)
    return cases.long()


def distinct(cases: Tensor) -> tuple[Tensor, Tensor]:
    """Return the cases of a batch once each, and the place of every row among them."""
    found, place = cases.unique(return_inverse=True)  # type: ignore[no-untyped-call]
    return found, place


class PerCase(nn.Module):
    """A row of numbers for each case, zeros at first.

    Rows are made as cases come up, so nobody has to say how many there are.
    """

    def __init__(self) -> None:
        super().__init__()
        # No buffer: half precision must not change it, nor the broadcast of data-parallel training.
        self.rows = torch.zeros(0, 0)

    def get_extra_state(self) -> Tensor:
        """Return what ``state_dict`` holds."""
        return self.rows

    def set_extra_state(self, state: Tensor) -> None:
        """Take over what ``state_dict`` held."""
        self.rows = state.detach().clone()

    def of(self, cases: Tensor, width: int, like: Tensor) -> Tensor:
        """Return the rows of some cases, so wide, on the device and in the precision of `like`."""
        if not len(cases):
            return like.new_zeros(0, width)
        highest = int(cases.max())
        if self.rows.shape[1] == 0:
            self.rows = self.rows.new_zeros(0, width)
        self.rows = self.rows.to(like)
        if highest >= len(self.rows):
            # An eighth more than is needed now, so that cases in order do not cost a copy each.
            more = highest + 1 + highest // 8 - len(self.rows)
            self.rows = torch.cat((self.rows, self.rows.new_zeros(more, width)))
        return self.rows[cases]

    def set(self, cases: Tensor, values: Tensor) -> None:
        """Set the rows of distinct cases, which `of` has returned before."""
        self.rows[cases] = values


def _missing_cases_error(caller: str) -> ParameterError:
    """Word the error for a loss that follows cases and is not told which they are."""
    return ParameterError(
        f"{caller} follows each case through training and needs to know which they are. Hint: pass "
        "cases=..., the numbers of the cases in the training data; for data that are not trained "
        "on, use cross-entropy."
    )


def _check_case_numbers(dtype: str, caller: str) -> None:
    """Raise unless the numbers of cases are whole."""
    if "int" not in dtype:
        hint = "one number per case, its place in the training data"
        got = f"a {dtype} tensor"
        raise DataTypeError(message("cases", caller, "must hold whole numbers", got, hint))


def _negative_case_error(lowest: int, caller: str) -> ParameterError:
    """Word the error for the number of a case that is below zero."""
    hint = "a case's number is its place in the training data, from 0 on"
    return ParameterError(message("cases", caller, "must hold 0 or more", lowest, hint))


def _check_per_case(
    shape: tuple[int, ...], target_shape: tuple[int, ...], n_classes: int, name: str, caller: str
) -> None:
    """Raise unless there is one number per case, or, as `soft_target`, one per class."""
    per_class = (*target_shape[:1], n_classes, *target_shape[1:])
    wanted = per_class if name == "soft_target" else target_shape
    if shape != wanted:
        text = f"must have shape {wanted} for target of shape {target_shape}"
        raise ShapeError(message(name, caller, text, f"shape {shape}"))
