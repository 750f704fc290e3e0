"""See `run`."""

import sys

from tests.simulation.addresses import WORKER, fix_addresses

if sys.argv[1:] == [WORKER]:
    # Before anything else is imported: a new process begins here.
    fix_addresses()

from tests.simulation.run import main

sys.exit(main(sys.argv[1:]))
