"""Under which account a job's tasks run."""

import getpass

import pytest

from iris_fed.backends.posix.accounts import NoAccount, account_of

RUN_AS = {"alice": "nobody", "*": "daemon", "hub/alice": "games", "moon/*": "games"}


@pytest.mark.parametrize(
    ("owner", "account"),
    [("alice", "nobody"), ("bob", "daemon"), ("hub/alice", "games"), ("moon/bob", "games"), ("moon/alice", "games")],
)
def test_the_exact_owner_counts_before_everybody_of_its_cluster(owner: str, account: str) -> None:
    assert account_of(owner, RUN_AS) == account_of("x", account)


@pytest.mark.parametrize("owner", ["hub/bob", "sun/alice"])
def test_somebody_elsewhere_is_never_the_user_of_the_same_name_here(owner: str) -> None:
    with pytest.raises(NoAccount, match=owner):
        account_of(owner, RUN_AS)


def test_nobody_says_so_nothing_changes() -> None:
    assert account_of("alice", None) is None


@pytest.mark.parametrize("name", ["root", "no-such-account"])
def test_root_and_accounts_that_are_not_here_run_nothing(name: str) -> None:
    with pytest.raises(NoAccount, match=name):
        account_of(getpass.getuser(), name)
