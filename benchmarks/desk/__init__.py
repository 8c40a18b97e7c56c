"""The desk against the bare database on the same disk; at 1,000 against a million waiting.

`python -m benchmarks desk`, or `python -m benchmarks.desk --quick` with small sizes;
`--only sqlite` or `--only postgresql` for one of the databases, `--parts intake,queue` for some.
"""

from benchmarks.desk.run import main

__all__ = ["main"]
