"""Sums over Gaussian kernels, and the smoothed area under the COC curve that rests on them.

``kernel_sums`` says what is summed; ``dense`` does it pair by pair, ``lowrank`` and ``grid`` in
time proportional to the number of samples; ``choice`` picks among them; ``bandwidth`` is the width
of the kernel; ``area`` is the paper's formula for the area and its gradient.
"""

__all__: list[str] = []
