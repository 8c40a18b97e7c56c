"""The evidence: turns finished runs into CSV in `results/`, and CSV into tables and figures."""
