"""Maximum softmax probability at a temperature: ODIN without its input perturbation."""

from __future__ import annotations

from expertload._typing import ArrayLike, FloatArray
from expertload._validation import check_logits, check_positive
from expertload.scores.max_softmax import top_probability

__all__ = ["tempered_softmax_confidence"]


def tempered_softmax_confidence(logits: ArrayLike, *, temperature: float = 1000.0) -> FloatArray:
    """Compute the probability of the top class after dividing the logits by a temperature.

    Parameters
    ----------
    logits : array-like of shape (n_cases, n_classes)
        Outputs of the model before the softmax.
    temperature : float, default=1000
        Larger values weigh the gaps to all other classes alike. 1000 is ODIN's; the paper ran it
        at the temperature found by temperature scaling.

    Returns
    -------
    ndarray of shape (n_cases,)
        Between 1 / n_classes and 1.

    References
    ----------
    Liang et al., "Enhancing the reliability of out-of-distribution image detection in neural
    networks", ICLR 2018.

    Examples
    --------
    >>> from expertload.scores import tempered_softmax_confidence
    >>> tempered_softmax_confidence([[0.0, 0.0], [3.0, 1.0]], temperature=2.0).round(3)
    array([0.5  , 0.731])
    """
    caller = "tempered_softmax_confidence"
    temperature = check_positive(temperature, "temperature", caller)
    return top_probability(check_logits(logits, caller) / temperature)
