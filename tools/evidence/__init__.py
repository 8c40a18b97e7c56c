"""The evidence: from finished runs to CSV in `results/`, and on to tables and figures."""
