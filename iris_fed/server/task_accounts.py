"""Whether tasks may be started at all beside what this controller keeps to itself."""

import os
import stat
from getpass import getuser

from iris_fed.auth.identity import Role
from iris_fed.backends.posix.accounts import NoAccount, find_account
from iris_fed.config.sections import LocalBackendSettings
from iris_fed.config.settings import Settings
from iris_fed.config.slurm import SlurmBackendSettings
from iris_fed.controller.tokens import MAX_TOKENS
from iris_fed.errors import ConfigError
from iris_fed.store.runtime import Runtime
from iris_fed.store.user_tokens import list_tokens

BACKENDS_FOLDER = "backends"


def check_task_accounts(settings: Settings) -> None:
    """Raises ConfigError where `run_as` cannot be kept, and where tasks of several people would run as
    the controller without the operator's word."""
    check_admitted(settings)
    for backend in settings.backends:
        if backend.run_as is not None:
            _check_run_as(backend)


def check_admitted(settings: Settings) -> None:
    """The part of `check_task_accounts` that is the same on every machine. Raises ConfigError."""
    shared, who = tasks_as_controller(settings), _others(settings)
    if shared and who:
        raise ConfigError(f"{who}, but {shared}")


async def check_token_holders(settings: Settings, runtime: Runtime) -> None:
    """People who were let in by a token before tasks became the controller's own. Raises ConfigError."""
    shared = tasks_as_controller(settings)
    if not shared:
        return
    now_ms = runtime.clock.now_ms()
    for token in await runtime.db.read(lambda tx: list_tokens(tx, "", now_ms, MAX_TOKENS)):
        is_other = token.role != Role.DASHBOARD.value and token.principal.partition("@")[0] != getuser()
        if is_other and token.revoked_ms is None:
            raise ConfigError(f"{token.principal} has a user token, which lets it submit, but {shared}")


def tasks_as_controller(settings: Settings) -> str:
    """Whose tasks would run as the controller itself without its operator's word, and what to do; "" = nobody's."""
    for backend in settings.backends:
        if backend.run_as is None and backend.shared_uid != "accept":
            return (
                f"tasks of backends.{backend.id} would run as the controller itself and could read its keys and "
                "state: set run_as, or accept that with `shared_uid: accept`"
            )
    return ""


def show_the_way(settings: Settings) -> None:
    """Tasks under other accounts pass through the state directory to their own place; all else in it is closed
    to them. Raises ConfigError when they could not even get there."""
    if all(backend.run_as is None for backend in settings.backends if backend.kind == "local"):
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


def _check_run_as(backend: LocalBackendSettings | SlurmBackendSettings) -> None:
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
