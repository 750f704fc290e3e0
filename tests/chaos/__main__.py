"""`python -m tests.chaos`: as many rounds as you like. Ends with 1 when something was wrong."""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.chaos.chaos import Chaos


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="chaos-") as root:
        wrong = Chaos(Path(root), options.seed, print).run(options.rounds)
        if wrong:
            keep = Path(tempfile.mkdtemp(prefix="chaos-logs-"))
            for log in Path(root).glob("*/controller.log"):
                (keep / f"{log.parent.name}.log").write_bytes(log.read_bytes())
            sys.stdout.write("\n".join([*wrong, f"the controllers' logs are in {keep}"]) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
