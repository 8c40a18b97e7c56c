"""The desk against its bare database on the same disk; 1,000 waiting cases against a million.

`python -m benchmarks desk`, or `python -m benchmarks.desk --quick` with small sizes;
`--only sqlite` or `--only postgresql` runs one database, `--parts intake,queue` some of the parts.
"""

from benchmarks.desk.run import main

__all__ = ["main"]
