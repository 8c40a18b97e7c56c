"""The memory that a loss keeps of each training case.

Some losses follow each case through training, so they need its index. Such a loss has an attribute
``needs_cases = True``, and is called with the indices of the cases::

    loss(logits, target, cases=numbers)

`CombinedLoss` and the lab pass the indices on to the part that needs them. The memory of a loss is
part of its ``state_dict``.
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
    """Return whether a loss must be called with the indices of the cases."""
    return bool(getattr(loss, "needs_cases", False))


def call_loss(loss: object, logits: Tensor, target: Tensor, cases: Tensor | None) -> Tensor:
    """Call a loss, with the indices of the cases if it needs them."""
    named = {"cases": cases} if needs_cases(loss) else {}
    value: Tensor = loss(logits, target, **named)  # type: ignore[operator]
    return value


class Followed(NamedTuple):
    """The rows of a batch that count, each with the memory of its case."""

    logits: Tensor  # (n, C), at least float32
    target: Tensor  # (n,)
    known: Tensor  # (n,) or (n, C)


def follow(
    logits: Tensor, target: Tensor, known: Tensor, *, name: str, ignore_index: int
) -> Followed:
    """Return the rows that are not ignored, each with its entry of `known`."""
    check_inputs(logits, target)
    n_classes = logits.shape[1]
    _check_per_case(tuple(known.shape), tuple(target.shape), n_classes, name)
    keep = labelled(target, n_classes, ignore_index=ignore_index)
    rows = slice(None) if keep is None else keep.reshape(-1)
    scores = _in_rows(logits.to(working_dtype(logits)))
    known = known.reshape(-1) if known.shape == target.shape else _in_rows(known)
    return Followed(scores[rows], target.reshape(-1).long()[rows], known[rows])


def _in_rows(values: Tensor) -> Tensor:
    """Turn (N, C, d1, ...) into one row of C per position."""
    return values.movedim(1, -1).reshape(-1, values.shape[1])


def checked_numbers(cases: Tensor | None) -> Tensor:
    """Return the indices of the cases; raise if there are none."""
    if cases is None:
        raise _missing_cases_error()
    _check_case_numbers(str(cases.dtype))
    if cases.device.type == "cpu" and cases.numel() and int(cases.min()) < 0:
        raise _negative_case_error(int(cases.min()))
    return cases.long()


def distinct(cases: Tensor) -> tuple[Tensor, Tensor]:
    """Return the distinct cases of a batch, and the position of every row among them."""
    found, place = cases.unique(return_inverse=True)  # type: ignore[no-untyped-call]
    return found, place


class PerCase(nn.Module):
    """A row of numbers for each case, zeros at first.

    Rows are added when cases first occur, so their number need not be known in advance.
    """

    def __init__(self) -> None:
        super().__init__()
        # Not a buffer: half precision and broadcasts of data-parallel training must not change it.
        self.rows = torch.zeros(0, 0)

    def get_extra_state(self) -> Tensor:
        """Return the state for ``state_dict``."""
        return self.rows

    def set_extra_state(self, state: Tensor) -> None:
        """Restore the state from ``state_dict``."""
        self.rows = state.detach().clone()

    def of(self, cases: Tensor, width: int, like: Tensor) -> Tensor:
        """Return the rows of some cases, of a width, on the device and in the dtype of `like`."""
        if not len(cases):
            return like.new_zeros(0, width)
        highest = int(cases.max())
        if self.rows.shape[1] == 0:
            self.rows = self.rows.new_zeros(0, width)
        self.rows = self.rows.to(like)
        if highest >= len(self.rows):
            # An eighth more than needed now, so that cases in order do not need a copy each.
            more = highest + 1 + highest // 8 - len(self.rows)
            self.rows = torch.cat((self.rows, self.rows.new_zeros(more, width)))
        return self.rows[cases]

    def set(self, cases: Tensor, values: Tensor) -> None:
        """Set the rows of distinct cases that `of` has returned before."""
        self.rows[cases] = values


def _missing_cases_error() -> ParameterError:
    """Return the error for a loss that needs cases but was called without them."""
    return ParameterError(
        "This loss follows each case through training and needs the indices of the cases. Hint: "
        "pass cases=..., the indices of the cases in the training data; for other data, use "
        "cross-entropy."
    )


def _check_case_numbers(dtype: str) -> None:
    """Raise unless the indices of cases are whole numbers."""
    if "int" not in dtype:
        hint = "one index per case, its position in the training data"
        got = f"a {dtype} tensor"
        raise DataTypeError(message("cases", "must hold whole numbers", got, hint))


def _negative_case_error(lowest: int) -> ParameterError:
    """Return the error for a negative case index."""
    hint = "the index of a case is its position in the training data, starting at 0"
    return ParameterError(message("cases", "must hold 0 or more", lowest, hint))


def _check_per_case(
    shape: tuple[int, ...], target_shape: tuple[int, ...], n_classes: int, name: str
) -> None:
    """Raise unless there is one number per case, or, as `soft_target`, one per class."""
    per_class = (*target_shape[:1], n_classes, *target_shape[1:])
    wanted = per_class if name == "soft_target" else target_shape
    if shape != wanted:
        text = f"must have shape {wanted} for target of shape {target_shape}"
        raise ShapeError(message(name, text, f"shape {shape}"))
