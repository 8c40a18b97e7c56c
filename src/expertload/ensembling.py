"""Averages predictions: of several networks, or of one network over several views of an image.

The mean of probabilities is a better classifier than most of its members, and its confidence is a
better guide to what should be delegated. The cost is reported as passes through a network for each
image.

Averaging over views is test-time augmentation. A view is a change that keeps the class: a mirror
image, a quarter turn, a small shift. Validation data choose the views; "none" is one of the
choices, and of equal choices the cheapest is taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from expertload._check import check_count, check_option, message, needs_extra
from expertload._labels import listed
from expertload._typing import FloatArray, IntArray
from expertload.curve import aucoc_score
from expertload.exceptions import LabelError, ParameterError, ShapeError

with needs_extra("torch", "expertload.ensembling"):
    import torch
    from torch import Tensor, nn
    from torch.nn import functional as F  # noqa: N812 - the customary name

    from expertload.losses.base import check_tensor

__all__ = [
    "Ensemble",
    "ViewChoice",
    "ViewEnsemble",
    "choose_views",
    "make_views",
    "view_names",
]

View = Callable[[Tensor], Tensor]
Score = Callable[[IntArray, FloatArray], float]


# ------------------------------------------------------------------ several networks


class Ensemble(nn.Module):
    """A network that predicts the mean probability of several networks.

    Parameters
    ----------
    networks : iterable of Module
        Each maps the same input to logits of shape (n, classes), or to the single logit of a
        binary task, of shape (n, 1) or (n,).

    Examples
    --------
    >>> import torch
    >>> from expertload.ensembling import Ensemble
    >>> torch.manual_seed(0) and None
    >>> networks = [torch.nn.Linear(4, 3) for _ in range(2)]
    >>> images = torch.randn(5, 4)
    >>> mean = (networks[0](images).softmax(1) + networks[1](images).softmax(1)) / 2
    >>> torch.allclose(Ensemble(networks)(images).softmax(1), mean)
    True
    """

    def __init__(self, networks: Iterable[nn.Module]) -> None:
        super().__init__()
        given: object = networks
        if isinstance(given, nn.Module) and not isinstance(given, nn.ModuleList):
            raise ParameterError(
                "'networks' must be a list of networks. Got one network, "
                f"a {type(given).__name__}, instead. Hint: pass [network]."
            )
        self.networks = nn.ModuleList(networks)
        if not len(self.networks):
            raise ParameterError("'networks' must not be empty.")

    @property
    def passes(self) -> int:
        """The cost: passes through a network for each image."""
        return sum(_passes(network) for network in self.networks)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits whose softmax (or sigmoid) is the mean probability."""
        return _log_mean_probability(network(images) for network in self.networks)


def _passes(network: nn.Module) -> int:
    return network.passes if isinstance(network, Ensemble | ViewEnsemble) else 1


def _log_mean_probability(logits: Iterable[Tensor]) -> Tensor:
    """Return the logarithm of the mean of softmax probabilities.

    These are logits: their softmax is the mean probability. Even probabilities as small as
    exp(-1000) are kept. Of the single logits of a binary task, it is the log-odds of the mean
    probability, whose sigmoid is the mean of their sigmoids.
    """
    members = list(logits)
    if _is_single_logit(members[0]):
        stacked = torch.stack(members)
        return F.logsigmoid(stacked).logsumexp(dim=0) - F.logsigmoid(-stacked).logsumexp(dim=0)
    log_proba = torch.stack([member.log_softmax(dim=1) for member in members])
    return log_proba.logsumexp(dim=0) - math.log(len(members))


def _is_single_logit(logits: Tensor) -> bool:
    """Whether each case has a single logit, the log-odds of the second of two classes."""
    return logits.ndim == 1 or logits.shape[1] == 1


# ------------------------------------------------------------------ several views


def _turned(images: Tensor, *, turns: int = 0, mirrored: bool = False) -> Tensor:
    turned = torch.rot90(images, turns, dims=(-2, -1)) if turns else images
    return turned.flip(-1) if mirrored else turned


def _shifted(images: Tensor, *, down: int, across: int) -> Tensor:
    """Move images by a sixteenth of their side, a pixel at least; the edge fills the gap."""
    height, width = images.shape[-2:]
    rows, columns = down * max(1, height // 16), across * max(1, width // 16)
    reach = max(abs(rows), abs(columns))
    framed = F.pad(images, (reach,) * 4, mode="replicate")
    top, left = reach - rows, reach - columns
    return framed[..., top : top + height, left : left + width]


_STEPS = ((1, 0), (-1, 0), (0, 1), (0, -1))
_VIEWS: Mapping[str, tuple[View, ...]] = {
    "none": (_turned,),  # by nothing
    "flip": (_turned, partial(_turned, mirrored=True)),
    "shift": (_turned, *(partial(_shifted, down=d, across=a) for d, a in _STEPS)),
    "symmetries": tuple(
        partial(_turned, turns=turns, mirrored=mirrored)
        for turns in range(4)
        for mirrored in (False, True)
    ),
}


def view_names() -> tuple[str, ...]:
    """Return the names that `make_views` accepts, cheapest first.

    Examples
    --------
    >>> from expertload.ensembling import view_names
    >>> view_names()
    ('none', 'flip', 'shift', 'symmetries')
    """
    return tuple(_VIEWS)


def make_views(name: str) -> tuple[View, ...]:
    """Return the views of a name, each a function from images to images.

    Parameters
    ----------
    name : {"none", "flip", "shift", "symmetries"}
        The image alone; with its mirror image; with four small shifts; in all eight symmetries of
        a square.

    Returns
    -------
    tuple of callable
        On tensors of shape (n, channels, height, width).

    Examples
    --------
    >>> import torch
    >>> from expertload.ensembling import make_views
    >>> image = torch.arange(4.0).view(1, 1, 2, 2)
    >>> [view(image).flatten().tolist() for view in make_views("flip")]
    [[0.0, 1.0, 2.0, 3.0], [1.0, 0.0, 3.0, 2.0]]
    """
    return _VIEWS[check_option(name, view_names(), "name")]


class ViewEnsemble(nn.Module):
    """A network that predicts its mean probability over several views of each image.

    Parameters
    ----------
    network : Module
        Maps images (n, channels, height, width) to logits (n, classes), or to the single logit of
        a binary task, (n, 1) or (n,).
    views : str or sequence of callables, default="flip"
        A name of `make_views`, or your own views.

    Examples
    --------
    >>> import torch
    >>> from expertload.ensembling import ViewEnsemble
    >>> torch.manual_seed(0) and None
    >>> network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 3))
    >>> images = torch.randn(5, 3, 2, 2)
    >>> both = ViewEnsemble(network, "flip")
    >>> torch.allclose(both(images), both(images.flip(-1))), both.passes
    (True, 2)
    """

    def __init__(self, network: nn.Module, views: str | Sequence[View] = "flip") -> None:
        super().__init__()
        self.network = network
        self.views = make_views(views) if isinstance(views, str) else tuple(views)
        if not self.views:
            raise ParameterError("'views' must not be empty.")

    @property
    def passes(self) -> int:
        """The cost: passes through a network for each image."""
        return len(self.views) * _passes(self.network)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits whose softmax (or sigmoid) is the mean probability."""
        members: list[Tensor] = [self.network(view(images)) for view in self.views]
        if len(members) == 1:
            return members[0]
        if members[0].ndim > 2:
            wanted = "must return one row of logits for each image"
            hint = "views move pixels, so a map of classes would have to be moved back first"
            shape = f"outputs of shape {tuple(members[0].shape)}"
            raise ShapeError(message("network", wanted, shape, hint))
        return _log_mean_probability(members)


@dataclass(frozen=True, kw_only=True)
class ViewChoice:
    """The views that are best on validation data.

    Attributes
    ----------
    views : str
        The chosen ones.
    scores : dict
        By name of views, on validation data.
    passes : int
        The cost of the chosen views: passes through the network for each image.
    """

    views: str
    scores: dict[str, float]
    passes: int

    def __str__(self) -> str:
        if self.views == "none":
            return "views: none, one pass for each image; no others are better on validation data"
        gain = self.scores[self.views] - self.scores["none"]
        return (
            f"views: {self.views}, {self.passes} passes for each image; {gain:+.4f} on validation "
            "data"
        )


def choose_views(
    network: nn.Module,
    images: Tensor,
    labels: ArrayLike,
    *,
    candidates: Sequence[str] | None = None,
    score: Score = aucoc_score,
    batch_size: int = 256,
) -> ViewChoice:
    """Choose the views of test-time augmentation on validation data.

    Parameters
    ----------
    network : Module
        Maps images to logits. It is put into evaluation mode, and called without gradients.
    images : Tensor of shape (n, channels, height, width)
        Validation images, in the form that the network needs; a threshold must be certified on
        other images.
    labels : array-like of shape (n,)
        Class numbers.
    candidates : sequence of str, optional
        Names of `make_views`, all by default; ``"none"`` is always among them. The eight symmetries
        are left out if images are not square.
    score : callable, default=expertload.aucoc_score
        Maps labels and probabilities to a number; higher is better.
    batch_size : int, default=256

    Returns
    -------
    ViewChoice
        The choice; of equal ones, the cheapest.

    Examples
    --------
    >>> import torch
    >>> from expertload.ensembling import choose_views
    >>> torch.manual_seed(0) and None
    >>> images = torch.randn(200, 1, 4, 4)
    >>> labels = (images[:, 0, 0, 0] + images[:, 0, 0, 3] > 0).long()  # a mirror image is the same
    >>> network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 2))
    >>> with torch.no_grad():
    ...     _ = network[1].weight.zero_()[1, 0].fill_(1.0)  # which looks at one corner alone
    >>> choose_views(network, images, labels, candidates=["flip"]).views
    'flip'
    """
    check_count(batch_size, "batch_size")
    check_tensor(images, "images")
    truth = np.asarray(labels)
    square = images.shape[-1] == images.shape[-2]
    names = view_names() if candidates is None else candidates
    wanted = {"none", *(check_option(name, view_names(), "candidates") for name in names)}
    tried = [n for n in view_names() if n in wanted and (square or n != "symmetries")]
    proba = {n: _probabilities(ViewEnsemble(network, n), images, batch_size) for n in tried}
    try:
        scores = {name: score(truth, own) for name, own in proba.items()}
    except LabelError as error:
        numbers = "must be the number of each image's class, counted from 0"
        raise LabelError(message("labels", numbers, listed(np.unique(truth).tolist()))) from error
    best = max(scores, key=lambda name: scores[name])  # of equals the first, which is cheapest
    return ViewChoice(views=best, scores=scores, passes=ViewEnsemble(network, best).passes)


@torch.no_grad()
def _probabilities(network: nn.Module, images: Tensor, batch_size: int) -> FloatArray:
    network.eval()
    parts = [network(batch).double().cpu() for batch in torch.split(images, batch_size)]
    logits = torch.cat(parts)
    if _is_single_logit(logits):
        return logits.flatten().sigmoid().numpy()
    return logits.softmax(dim=1).numpy()
