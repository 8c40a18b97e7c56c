"""The fifteen common corruptions at five severities, on whole batches of images.

Our own implementations of the definitions in Hendrycks and Dietterich, "Benchmarking neural
network robustness to common corruptions and perturbations" (ICLR 2019), with the strengths that
belong to 32 x 32 images. They reproduce the kind and degree of each corruption, not the bytes of
the published files. Two differ in substance, and say so where they are defined: `frost` (a
procedural texture, where the original cuts pieces from photographs) and `zoom_blur` (exactly
centred).
"""

from expertload.lab.data.corruptions.registry import corrupt, corruption_names

__all__ = ["corrupt", "corruption_names"]
