"""The laboratory: data sets, models and training for experiments on expert load.

Everything here needs the ``lab`` extra (``pip install 'expertload[lab]'``). The rest of the
library never imports it.
"""

__all__ = ["data", "models"]
