"""Who may submit in which priority band."""

import pytest

from iris_fed.decide.bands import check_band, check_received_band
from iris_fed.errors import PermissionDenied
from iris_fed.model.states import Band

USERS = {Band.PRODUCTION: ["*@lab.org", "root"], Band.SYSTEM: []}


@pytest.mark.parametrize("band", [Band.INTERACTIVE, Band.BATCH])
def test_a_band_that_nobody_restricts_is_everybodys(band: Band) -> None:
    check_band(band, "guest@elsewhere", is_admin=False, users=USERS)


def test_a_restricted_band_is_for_those_listed_and_for_admins() -> None:
    check_band(Band.PRODUCTION, "Ada@lab.org", is_admin=False, users=USERS)
    check_band(Band.PRODUCTION, "root", is_admin=False, users=USERS)
    check_band(Band.SYSTEM, "anybody", is_admin=True, users=USERS)


@pytest.mark.parametrize(("band", "setting"), [(Band.PRODUCTION, "production_users"), (Band.SYSTEM, "system_users")])
def test_everybody_else_is_told_which_setting_decides(band: Band, setting: str) -> None:
    with pytest.raises(PermissionDenied, match=f"priority_band: guest@elsewhere .*scheduling.{setting}"):
        check_band(band, "guest@elsewhere", is_admin=False, users=USERS)


def test_a_requesters_jobs_use_no_stronger_band_than_it_is_allowed() -> None:
    for band in (Band.INTERACTIVE, Band.BATCH):
        check_received_band(band, Band.INTERACTIVE, "hub")
    for band in (Band.PRODUCTION, Band.SYSTEM):
        with pytest.raises(PermissionDenied, match="jobs of hub may use interactive at most"):
            check_received_band(band, Band.INTERACTIVE, "hub")
