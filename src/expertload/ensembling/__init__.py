"""Averages predictions: of several networks, or of one network over several views.

The mean of probabilities is a better classifier than most of its members, and its confidence is a
better guide to what should be delegated. The cost is reported as passes through a network for each
image.
"""

from expertload._validation import needs_extra

with needs_extra("torch", "expertload.ensembling"):
    from expertload.ensembling.networks import Ensemble
    from expertload.ensembling.views import (
        ViewChoice,
        ViewEnsemble,
        choose_views,
        make_views,
        view_names,
    )

__all__ = [
    "Ensemble",
    "ViewChoice",
    "ViewEnsemble",
    "choose_views",
    "make_views",
    "view_names",
]
