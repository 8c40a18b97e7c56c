"""Certified thresholds, and how each promise is tested.

`spending` is the default procedure with its proof, `starts` the former one; `methods` lists all of
them. `verdict` turns their tests into a `CertifiedPoint`, and `advice` what would have been
enough.
"""

__all__: list[str] = []
