"""Which controller to speak to, and with which token.

In this order: an explicit URL or context, `IRIS_FED_CONTROLLER`, `IRIS_FED_CONTEXT`, inside a task its
`IRIS_CONTROLLER_URL` with its own token (a task may run where somebody's contexts file lies, and what
it submits is to be its child), the current context of the contexts file. A context's own token goes
only to that context's controller; `IRIS_FED_TOKEN` and `IRIS_FED_TOKEN_FILE` serve the others. The same holds of
the edge token, for a proxy in front of the controller: `IRIS_FED_EDGE_TOKEN` says where it comes from.
"""

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from iris_fed.errors import InvalidArgument
from iris_fed.rpc.connect_client import is_private_url

MAX_FILE_BYTES = 1024 * 1024
MAX_TOKEN_BYTES = 64 * 1024
NO_CONTROLLER = (
    "no controller is known: give --controller URL, set IRIS_FED_CONTROLLER, "
    "or add a context with `iris-fed context add NAME --state-dir DIR`"
)


@dataclass(frozen=True, slots=True)
class Context:
    """One controller under a name of the user's own. `token_file` "" = no token; `edge_token` says where the
    token for a proxy in front of it comes from, "" = there is none."""

    controller: str
    token_file: str = ""
    edge_token: str = ""


@dataclass(frozen=True, slots=True)
class Contexts:
    """The contexts file. `current` "" = none chosen."""

    current: str = ""
    contexts: Mapping[str, Context] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Target:
    """A controller's URL and where its token is: itself, in a file, or nowhere; and its edge token's source."""

    address: str
    token: str = ""
    token_file: str = ""
    edge_token: str = ""

    def read_token(self) -> str | None:
        """Raises InvalidArgument when the file cannot be read."""
        if self.token:
            return self.token
        if not self.token_file:
            return None
        try:
            with open(os.path.expanduser(self.token_file), encoding="ascii") as file:
                return file.read(MAX_TOKEN_BYTES).strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not a token"
            raise InvalidArgument(f"cannot read the token file {self.token_file}: {reason}") from error


def contexts_path(environ: Mapping[str, str] = os.environ) -> Path:
    base = environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(base) / "iris-fed" / "contexts.yaml"


def find_target(
    *, controller: str | None = None, context: str | None = None, environ: Mapping[str, str] = os.environ
) -> Target:
    """Raises InvalidArgument when no controller is known, or what names it is wrong."""
    return choose_target(controller, context, environ, read_contexts(contexts_path(environ)))


def choose_target(controller: str | None, context: str | None, environ: Mapping[str, str], known: Contexts) -> Target:
    """The rule in the module's docstring, over what was given."""
    if controller and context:
        raise InvalidArgument("give --controller or --context, not both")
    if not controller and not context:
        controller = environ.get("IRIS_FED_CONTROLLER")
    if controller:
        return _target_of_url(controller, environ, known)
    name = context or environ.get("IRIS_FED_CONTEXT")
    if not name and environ.get("IRIS_CONTROLLER_URL"):
        return Target(check_url(environ["IRIS_CONTROLLER_URL"]), token=environ.get("IRIS_TASK_TOKEN", ""))
    if name := name or known.current:
        return _target_of_context(name, environ, known)
    if known.contexts:
        names = ", ".join(sorted(known.contexts))
        raise InvalidArgument(f"no context is current: choose one with `iris-fed context use NAME` (known: {names})")
    raise InvalidArgument(NO_CONTROLLER)


def check_url(url: str) -> str:
    """The URL without a trailing slash. Raises InvalidArgument unless it is http(s) with a host and no secret."""
    parts = urlsplit(url.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidArgument(f"a controller's URL looks like https://host:port, not {url[:80]!r}")
    if parts.username or parts.password:
        raise InvalidArgument("a controller's URL holds no user name or password; use a token")
    return url.strip().rstrip("/")


def read_contexts(path: Path) -> Contexts:
    """An absent file is an empty one. Raises InvalidArgument, naming the file, when it is malformed."""
    try:
        with path.open(encoding="utf-8") as file:
            data = yaml.safe_load(file.read(MAX_FILE_BYTES))
    except FileNotFoundError:
        return Contexts()
    except OSError as error:
        raise InvalidArgument(f"cannot read {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"{path} is not valid YAML: {str(error).splitlines()[0]}") from error
    return _parse_contexts({} if data is None else data, path)


def write_contexts(path: Path, known: Contexts) -> None:
    """Replace the file in one step. Raises InvalidArgument when that fails."""
    data = {
        "current": known.current,
        "contexts": {
            name: {"controller": context.controller}
            | ({"token_file": context.token_file} if context.token_file else {})
            | ({"edge_token": context.edge_token} if context.edge_token else {})
            for name, context in sorted(known.contexts.items())
        },
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
            yaml.safe_dump(data, file, sort_keys=False)
        os.replace(file.name, path)
    except OSError as error:
        raise InvalidArgument(f"cannot write {path}: {error.strerror}") from error


def _target_of_url(url: str, environ: Mapping[str, str], known: Contexts) -> Target:
    target = _target_of_environment(check_url(url), environ)
    named = [context for context in known.contexts.values() if context.controller == target.address]
    if not target.token and not target.token_file:
        target = replace(target, token_file=next((c.token_file for c in named if c.token_file), ""))
    if not target.edge_token:
        target = replace(target, edge_token=next((c.edge_token for c in named if c.edge_token), ""))
    return guarded(target)


def _target_of_environment(address: str, environ: Mapping[str, str]) -> Target:
    return Target(
        address,
        environ.get("IRIS_FED_TOKEN", ""),
        environ.get("IRIS_FED_TOKEN_FILE", ""),
        environ.get("IRIS_FED_EDGE_TOKEN", ""),
    )


def _target_of_context(name: str, environ: Mapping[str, str], known: Contexts) -> Target:
    context = known.contexts.get(name)
    if context is None:
        names = ", ".join(sorted(known.contexts)) or "none; add one with `iris-fed context add`"
        raise InvalidArgument(f"there is no context {name!r} (known: {names})")
    target = _target_of_environment(context.controller, environ)
    if context.token_file:
        target = replace(target, token="", token_file=context.token_file)
    if context.token_file or context.edge_token:
        target = replace(target, edge_token=context.edge_token)
    return guarded(target)


def guarded(target: Target) -> Target:
    """A token is never sent in the clear over a network. Raises InvalidArgument."""
    has_token = bool(target.token or target.token_file or target.edge_token)
    if has_token and not is_private_url(target.address):
        raise InvalidArgument(f"a token is not sent over plain http to {target.address}; use https, or a tunnel")
    return target


def _parse_contexts(data: Any, path: Path) -> Contexts:
    if not isinstance(data, dict) or not isinstance(data.get("contexts") or {}, dict):
        raise InvalidArgument(f"{path} must hold `current:` and `contexts:`")
    contexts = {
        str(name): _parse_context(str(name), entry, path) for name, entry in (data.get("contexts") or {}).items()
    }
    return Contexts(current=str(data.get("current") or ""), contexts=contexts)


def _parse_context(name: str, entry: Any, path: Path) -> Context:
    if not isinstance(entry, dict) or not isinstance(entry.get("controller"), str):
        raise InvalidArgument(f"{path}: contexts.{name} needs `controller: URL`")
    unknown = sorted(set(map(str, entry)) - {"controller", "token_file", "edge_token"})
    if unknown:
        raise InvalidArgument(f"{path}: contexts.{name}.{unknown[0]} is not known")
    token_file, edge_token = (str(entry.get(key) or "") for key in ("token_file", "edge_token"))
    return Context(check_url(entry["controller"]), token_file, edge_token)
