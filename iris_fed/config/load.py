"""From file and environment to Settings; every mistake becomes one sentence that says where."""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_settings import EnvSettingsSource, SettingsError

from iris_fed.config.references import resolved
from iris_fed.config.settings import KINDS, Settings, models_of
from iris_fed.config.yaml_file import Location, read_yaml
from iris_fed.errors import ConfigError

ENV_PREFIX = "IRIS_FED_"
CLIENT_VARIABLES = frozenset(
    {"IRIS_FED_CONFIG", "IRIS_FED_CONTEXT", "IRIS_FED_CONTROLLER", "IRIS_FED_EDGE_TOKEN"}
    | {"IRIS_FED_TOKEN", "IRIS_FED_TOKEN_FILE"}
)
"""Variables with our prefix that the command line reads; no settings of a controller."""
_MAX_SHOWN = 5


class _Environment(EnvSettingsSource):
    """pydantic-settings' own rules for names and nesting, over a mapping that is handed in."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = {name.lower(): value for name, value in environ.items()}
        super().__init__(Settings)

    def _load_env_vars(self) -> Mapping[str, str | None]:
        return self._environ


def load_settings(path: Path, environ: Mapping[str, str]) -> Settings:
    """Read `path`, lay the `IRIS_FED_...` variables of `environ` over it, and check the result.

    Relative paths, those of variables included, start at the file's folder. Raises ConfigError: the
    file is missing or no YAML, a key or variable is unknown, a value is illegal.
    """
    document = read_yaml(path)
    ours = {name: value for name, value in environ.items() if name.upper().startswith(ENV_PREFIX)}
    _refuse_unknown_variables(ours)
    try:
        overlay = _Environment(ours)()
        settings = Settings(**_merged(document.data, overlay))
    except SettingsError as error:
        raise ConfigError(f"the environment: {error}") from error
    except ValidationError as error:
        raise ConfigError("; ".join(_sentences(error, path, document.lines, ours))) from None
    return _with_absolute_paths(settings, path.resolve().parent)


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    both = dict(below)
    for key, value in above.items():
        under = both.get(key)
        both[key] = _merged(under, value) if isinstance(under, dict) and isinstance(value, dict) else value
    return both


def _refuse_unknown_variables(names: Iterable[str]) -> None:
    for name in sorted(names):
        parts = name.upper().removeprefix(ENV_PREFIX).lower().split("__")
        if name.upper() not in CLIENT_VARIABLES and not _names_a_setting(Settings, parts):
            raise ConfigError(
                f"{name}: no setting has this name; write {ENV_PREFIX}<SECTION>__<FIELD>, like {ENV_PREFIX}LISTEN__PORT"
            )


def _names_a_setting(kind: Any, parts: list[str]) -> bool:
    if not parts:
        return True
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        field = kind.model_fields.get(parts[0])
        return field is not None and _names_a_setting(field.annotation, parts[1:])
    if get_origin(kind) is dict:
        return bool(parts[0]) and _names_a_setting(get_args(kind)[1], parts[1:])
    return False


def _sentences(
    error: ValidationError, path: Path, lines: Mapping[Location, int], environ: Mapping[str, str]
) -> Iterator[str]:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    for item in found[:_MAX_SHOWN]:
        where = _without_kind(tuple(part for part in item["loc"] if part != "[key]"))
        subject = f"{'.'.join(map(str, where))}: " if where else ""
        yield f"{_source(where, path, lines, environ)}: {subject}{_words(item['type'], item['msg'], where)}"
    if len(found) > _MAX_SHOWN:
        yield f"and {len(found) - _MAX_SHOWN} more"


def _without_kind(where: Location) -> Location:
    """The library names the kind of a backend that it checked by, which is no key of the file."""
    if len(where) > 2 and where[0] == "backends" and where[2] in KINDS:
        return (*where[:2], *where[3:])
    return where


def _source(where: Location, path: Path, lines: Mapping[Location, int], environ: Mapping[str, str]) -> str:
    """The variable that set this, or the file with the line of the nearest thing that it holds."""
    by_upper_name = {name.upper(): name for name in environ}
    for end in range(len(where), 0, -1):
        name = ENV_PREFIX + "__".join(str(part).upper() for part in where[:end])
        if name in by_upper_name:
            return by_upper_name[name]
        if where[:end] in lines:
            return f"{path}:{lines[where[:end]]}"
    return str(path)


def _words(kind: str, message: str, where: Location) -> str:
    if kind == "extra_forbidden":
        close = difflib.get_close_matches(str(where[-1]), _siblings(where), n=1)
        return "unknown key" + (f", did you mean {close[0]!r}?" if close else "")
    if kind == "missing":
        return "this setting is required"
    if kind == "value_error":
        return message.removeprefix("Value error, ")
    return message[:1].lower() + message[1:]


def _siblings(where: Location) -> list[str]:
    kind: Any = Settings
    for part in where[:-1]:
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            field = kind.model_fields.get(str(part))
            kind = None if field is None else field.annotation
        else:
            arguments = get_args(kind)
            kind = arguments[-1] if arguments else None
    return [name for model in models_of(kind) for name in model.model_fields]


def _with_absolute_paths(settings: Settings, base: Path) -> Settings:
    auth = settings.auth
    trusted = {
        name: peer.model_copy(update={"public_keys": [resolved(key, base) for key in peer.public_keys]})
        for name, peer in auth.federation_peers.items()
    }
    keys = {
        "signing_key": auth.signing_key and resolved(auth.signing_key, base),
        "previous_signing_keys": [resolved(key, base) for key in auth.previous_signing_keys],
        "nonce_key": auth.nonce_key and resolved(auth.nonce_key, base),
        "federation_peers": trusted,
    }
    peers = [
        peer.model_copy(update={"edge_token": peer.edge_token and resolved(peer.edge_token, base)})
        for peer in settings.peers
    ]
    state_dir = base / settings.state_dir.expanduser()
    return settings.model_copy(update={"state_dir": state_dir, "auth": auth.model_copy(update=keys), "peers": peers})
