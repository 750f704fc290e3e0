"""`python -m iris_fed.config` writes docs/configuration.md to standard output."""

import sys

from iris_fed.config.show import describe

sys.stdout.write(describe())
