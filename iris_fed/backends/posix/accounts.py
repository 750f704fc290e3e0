"""Under which account of this machine a job's tasks run."""

import os
import pwd
from collections.abc import Mapping

from iris_fed.backends.posix.spawn import Account

ANYBODY = "*"


class NoAccount(Exception):
    """Nobody said, or this machine does not know, whom these tasks run as; the text is for their owner."""


def find_account(name: str) -> Account:
    """Raises NoAccount for one that does not exist here, and for root."""
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise NoAccount(f"this machine has no account {name!r}") from None
    if entry.pw_uid == 0:
        raise NoAccount(f"tasks do not run as root, which {name!r} is")
    return Account(entry.pw_uid, entry.pw_gid, os.getgrouplist(name, entry.pw_gid))


def account_of(owner: str, run_as: str | Mapping[str, str] | None) -> Account | None:
    """`owner` is a user, or `<requester>/<user>` where another cluster handed the job over. A name in
    `run_as` is for all; in a map, first the exact owner counts, then `*` (our own users) or
    `<requester>/*`: someone elsewhere is never the user of the same name here. None = as we are.
    Raises NoAccount."""
    if run_as is None:
        return None
    if isinstance(run_as, str):
        return find_account(run_as)
    requester, slash, _ = owner.rpartition("/")
    name = run_as.get(owner) or run_as.get(f"{requester}{slash}{ANYBODY}")
    if name is None:
        raise NoAccount(f"the operator of this cluster names no account for the tasks of {owner} (run_as)")
    return find_account(name)
