"""Whether tasks may be started at all beside what this controller keeps to itself."""

import os
import stat

from iris_fed.backends.local.accounts import NoAccount, find_account
from iris_fed.config import Settings
from iris_fed.config.sections import LocalBackendSettings
from iris_fed.errors import ConfigError

BACKENDS_FOLDER = "backends"


def check_task_accounts(settings: Settings) -> None:
    """Raises ConfigError where `run_as` cannot be kept, and where tasks of several people would run as
    the controller without the operator's word."""
    for backend in settings.backends:
        if backend.run_as is not None:
            _check_run_as(backend)
        elif backend.shared_uid != "accept" and (who := _others(settings)):
            raise ConfigError(
                f"backends.{backend.id}: {who}, whose tasks would run as the controller itself and could read its "
                "keys and state: set run_as, or accept that with `shared_uid: accept`"
            )


def show_the_way(settings: Settings) -> None:
    """Tasks under other accounts pass through the state directory to their own place; all else in it is closed
    to them. Raises ConfigError when they could not even get there."""
    if all(backend.run_as is None for backend in settings.backends):
        return
    state_dir = settings.state_dir.absolute()
    for folder in state_dir.parents:
        if not folder.stat().st_mode & stat.S_IXOTH:
            raise ConfigError(
                f"backends.run_as: {folder}, which holds the state directory, is closed to other accounts; "
                "put state_dir elsewhere"
            )
    way = state_dir / BACKENDS_FOLDER
    way.mkdir(mode=0o700, exist_ok=True)
    for entry in os.scandir(state_dir):
        if not entry.is_symlink():
            os.chmod(entry.path, entry.stat().st_mode & 0o700)
    way.chmod(0o711)
    state_dir.chmod(0o711)


def _check_run_as(backend: LocalBackendSettings) -> None:
    if os.geteuid() != 0:
        raise ConfigError(
            f"backends.{backend.id}.run_as: only a controller that runs as root can start tasks as others"
        )
    names = [backend.run_as] if isinstance(backend.run_as, str) else list((backend.run_as or {}).values())
    for name in names:
        try:
            find_account(name)
        except NoAccount as error:
            raise ConfigError(f"backends.{backend.id}.run_as: {error}") from None


def _others(settings: Settings) -> str:
    """Who besides one person may submit; '' = nobody."""
    auth = settings.auth
    if auth.federation_peers:
        return "auth.federation_peers lets other clusters submit"
    if auth.iap.signed_header_audience is not None:
        return "auth.iap lets several people in"
    if auth.trusted_cidrs and auth.trusted_network_role == "user":
        return "auth.trusted_cidrs lets a network submit"
    people = {*auth.users, *auth.admin_users}
    if len(people) > 1 or any(person.startswith("*") for person in people):
        return "auth.users and auth.admin_users let several people submit"
    return ""
