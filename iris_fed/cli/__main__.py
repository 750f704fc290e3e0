"""`python -m iris_fed.cli`: the command where its script is not installed."""

from iris_fed.cli import main

main()
