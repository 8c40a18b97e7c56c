"""Results of runs: measures, comparisons, ensembles, outliers, and tables.

Reading results does not load torch; only new predictions do.
"""
