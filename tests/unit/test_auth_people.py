"""Persons: one way of writing each, one user name for each, and what the lists make of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iris_fed.auth.identity import Role, Source
from iris_fed.auth.people import NETWORK_USER, Listed, People
from iris_fed.errors import PermissionDenied
from iris_fed.model.ids import check_component

LISTED = Listed(("root@lab.org", "*@ops.lab.org"), ("*@lab.org", "bob@other.org"), binding=True)
PEOPLE = People("admin", "lab.org", LISTED, {NETWORK_USER})
NAMES = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,8}", fullmatch=True)
PERSONS = NAMES | st.builds("{}@{}".format, NAMES, st.sampled_from(["lab.org", "LAB.org", "other.org", "x.lab.org"]))


@pytest.mark.parametrize(
    ("written", "principal", "user"),
    [
        ("alice@lab.org", "alice@lab.org", "alice"),
        ("Alice@LAB.org", "alice@lab.org", "alice"),
        ("alice", "alice@lab.org", "alice"),
        ("alice@other.org", "alice@other.org", "alice@other.org"),
        ("alice@x.lab.org", "alice@x.lab.org", "alice@x.lab.org"),
        ("a.b+c@lab.org", "a.b+c@lab.org", "a.b+c"),
    ],
)
def test_an_address_of_the_own_domain_is_shortened_and_case_never_matters(
    written: str, principal: str, user: str
) -> None:
    assert PEOPLE.canonical(written) == principal
    assert PEOPLE.user_of(principal) == user


def test_without_a_domain_of_its_own_everybody_is_known_by_the_whole_name() -> None:
    people = People("admin")
    assert [people.user_of(people.canonical(name) or "") for name in ("Alice@lab.org", "Bob")] == [
        "alice@lab.org",
        "bob",
    ]


@pytest.mark.parametrize(
    "name",
    [
        "",
        "@lab.org",
        "alice@",
        "alice@lab",
        "a/b@lab.org",
        "..@lab.org",
        ".",
        "al ice@lab.org",
        "alice@lab.org ",
        "alice@lab.org\n",
        "a@b@lab.org",
        "*@lab.org",
        "\u212aate@lab.org",
        "ålice@lab.org",
        "alice@lab..org",
        "a" * 65 + "@lab.org",
        "a@" + "b" * 130 + ".org",
    ],
)
def test_what_is_no_ascii_name_or_address_names_nobody(name: str) -> None:
    assert PEOPLE.canonical(name) is None


@given(PERSONS, PERSONS, st.sampled_from(["", "lab.org"]))
def test_two_people_never_share_a_user_name(one: str, other: str, domain: str) -> None:
    people = People("admin", domain)
    first, second = people.canonical(one), people.canonical(other)
    assert first is not None
    assert second is not None
    assert (people.user_of(first) == people.user_of(second)) == (first == second)


@given(PERSONS)
def test_a_user_name_is_a_legal_part_of_a_job_id(name: str) -> None:
    check_component(PEOPLE.user_of(PEOPLE.canonical(name) or ""), "user")


@pytest.mark.parametrize(
    ("principal", "role"),
    [
        ("root@lab.org", Role.ADMIN),
        ("eve@ops.lab.org", Role.ADMIN),
        ("alice@lab.org", Role.USER),
        ("bob@other.org", Role.USER),
        ("eve@other.org", Role.DASHBOARD),
        ("eve@notlab.org", Role.DASHBOARD),
        ("eve@x.ops.lab.org", Role.DASHBOARD),
        ("eve@lab.org.evil.com", Role.DASHBOARD),
    ],
)
def test_lists_decide_by_the_exact_name_or_the_exact_domain(principal: str, role: Role) -> None:
    assert PEOPLE.role_of(principal) is role


def test_where_lists_bind_no_credential_makes_anybody_more_than_they_say() -> None:
    assert PEOPLE.limited("alice@lab.org", Role.ADMIN) is Role.USER
    assert PEOPLE.limited("eve@other.org", Role.USER) is Role.DASHBOARD
    assert PEOPLE.limited("root@lab.org", Role.DASHBOARD) is Role.DASHBOARD
    assert People("admin").limited("eve@other.org", Role.USER) is Role.USER


def test_a_user_name_that_is_the_administrators_or_the_networks_is_nobody_elses() -> None:
    for principal in ("admin@lab.org", "network@lab.org"):
        with pytest.raises(PermissionDenied, match="kept for another"):
            PEOPLE.identity(principal, Role.USER, Source.IAP)
    assert PEOPLE.identity("admin@lab.org", Role.ADMIN, Source.IAP).user == "admin"
    with pytest.raises(PermissionDenied, match="kept for another"):
        PEOPLE.identity("network@lab.org", Role.ADMIN, Source.IAP)


def test_a_dashboard_owns_no_user_name() -> None:
    identity = PEOPLE.identity("admin@lab.org", Role.DASHBOARD, Source.IAP)
    assert (identity.principal, identity.user) == ("admin@lab.org", "")


def test_a_user_name_is_shown_with_the_role_of_its_person() -> None:
    shown = [PEOPLE.role_of_user(user) for user in ("admin", "root", "alice", "eve@other.org", "no/body")]
    assert shown == [Role.ADMIN, Role.ADMIN, Role.USER, Role.DASHBOARD, Role.USER]
    assert People("admin").role_of_user("alice") is Role.USER
