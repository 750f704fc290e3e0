"""Who may submit in which priority band."""

from collections.abc import Mapping, Sequence

from iris_fed.decide.admission import submitter_allowed
from iris_fed.errors import PermissionDenied
from iris_fed.model.states import Band


def check_band(band: Band, principal: str, *, is_admin: bool, users: Mapping[Band, Sequence[str]]) -> None:
    """`users` lists who besides admins may use a band; a band that is not in it is everybody's.

    Raises PermissionDenied, naming the setting.
    """
    patterns = users.get(band)
    if is_admin or patterns is None or submitter_allowed(principal, patterns):
        return
    name = band.name.lower()
    raise PermissionDenied(f"priority_band: {principal} may not use {name}; scheduling.{name}_users lists who may")


def check_received_band(band: Band, strongest: Band, requester: str) -> None:
    """Raises PermissionDenied when a requester's job asks for more than it is allowed here."""
    if band < strongest:
        raise PermissionDenied(
            f"priority_band: jobs of {requester} may use {strongest.name.lower()} at most on this cluster, "
            f"not {band.name.lower()}"
        )
