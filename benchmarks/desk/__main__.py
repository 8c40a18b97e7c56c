"""`python -m benchmarks.desk`."""

import sys

from benchmarks.desk.run import main

main(sys.argv[1:])
