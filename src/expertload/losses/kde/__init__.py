"""Sums over Gaussian kernels, and the smoothed area under the COC curve that uses them.

``kernel_sums`` defines the sums; ``dense`` computes them pair by pair, ``lowrank`` and ``grid`` in
time proportional to the number of samples; ``choice`` selects one of these; ``bandwidth`` is the
width of the kernel; ``area`` is the paper's formula for the area and its gradient.
"""

__all__: list[str] = []
