"""Where things lie in the directory that a controller shares with the nodes of its Slurm cluster.

    records/<uid>/attempt.json   the controller's own: whose it is, what it asked for, whose job it belongs to
    records/<uid>/end.json       how it ended, once that is settled
    attempts/<uid>/              its place, see `posix.files`; `attempt.json` there is its keeper's. And:
        launch.json              what to run; read once, then gone
        gang.json                of the first of a gang: the uids of all, in the order of their tasks
        place.json               node, address, ports and devices, there before it runs
        usage.json               what it used when it was last measured
        begun                    made by whoever runs it, once: nobody else does afterwards
        cancelled                made by the controller: who has not begun does not begin
        told                     it was told to end (scancel, preemption, a limit of Slurm's)
        slurm.out                what the job itself printed
    news/<uid>                   something of it has changed; a hint
    keeper/<version>/            the program that runs on the nodes

Standard library only: it runs beside the tasks.
"""

import os

RECORDS = "records"
NEWS = "news"
KEEPER = "keeper"
END = "end.json"
LAUNCH = "launch.json"
GANG = "gang.json"
PLACE = "place.json"
USAGE = "usage.json"
BEGUN = "begun"
CANCELLED = "cancelled"
TOLD = "told"
SLURM_OUT = "slurm.out"


def create(path: str, text: str = "") -> bool:
    """Make the file unless it is there, whole and in one step; whether it was us. Raises OSError."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return False
    with os.fdopen(fd, "wb") as stream:
        stream.write(text.encode())
        stream.flush()
        os.fsync(fd)
    return True
