"""Results of runs: measures, comparisons, ensembles, outliers, and tables.

Reading results does not load torch; only new predictions do.
"""

from expertload.lab.results.compare import RunComparison, compare_runs
from expertload.lab.results.ensembles import collect_ensembles, make_ensemble
from expertload.lab.results.evaluate import RunEvaluation, evaluate_runs
from expertload.lab.results.outliers import OutlierEvaluation, evaluate_outliers
from expertload.lab.results.predict import predict_images
from expertload.lab.results.rows import ResultRow, collect, read_rows, write_rows
from expertload.lab.results.tables import make_table

__all__ = [
    "OutlierEvaluation",
    "ResultRow",
    "RunComparison",
    "RunEvaluation",
    "collect",
    "collect_ensembles",
    "compare_runs",
    "evaluate_outliers",
    "evaluate_runs",
    "make_ensemble",
    "make_table",
    "predict_images",
    "read_rows",
    "write_rows",
]
