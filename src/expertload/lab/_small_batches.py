"""Batches that are too small to train on, said in words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from expertload.exceptions import ParameterError
from expertload.lab.recipe import TrainingConfig

__all__ = ["explaining_lone_images", "refuse_no_batches"]


def refuse_no_batches(n_images: int, training: TrainingConfig) -> None:
    """Raise if leaving out the small last batch leaves nothing."""
    if training.drop_last and n_images < training.batch_size:
        raise ParameterError(
            f"There is nothing to train on: {n_images} images make no whole batch of "
            f"{training.batch_size}, and training.drop_last leaves out any other. Hint: choose a "
            f"training.batch_size of {n_images} at most."
        )


@contextmanager
def explaining_lone_images(n_images: int) -> Iterator[None]:
    """Say what to do where batch normalisation refuses a single image.

    It takes one gladly while its feature map has several pixels, so only the network can tell.
    """
    try:
        yield
    except ValueError as error:
        if n_images > 1 or "more than 1 value per channel" not in str(error):
            raise
        raise ParameterError(
            "A batch came down to a single image, and the batch normalisation of this network "
            "needs more than one value a channel. Hint: training.drop_last=true leaves out a last "
            "batch that is smaller than the others; or choose another training.batch_size."
        ) from error
