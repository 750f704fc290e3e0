"""Keys and secrets by reference: the configuration names where they lie and never holds them."""

import re
from collections.abc import Mapping
from pathlib import Path

from iris_fed.errors import ConfigError

MAX_SECRET_BYTES = 65_536
FILE = "file:"
ENV = "env:"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PUBLIC_PEM = "-----BEGIN PUBLIC KEY-----"


def check_reference(reference: str) -> str:
    """The reference itself. Raises ValueError, never repeating what was written: it may be a secret."""
    if reference.startswith(FILE) and len(reference) > len(FILE) and "\0" not in reference:
        return reference
    if reference.startswith(ENV) and _VARIABLE.fullmatch(reference[len(ENV) :]):
        return reference
    raise ValueError("a secret is given by reference, file:PATH or env:NAME, never inline")


def check_public_key(reference: str) -> str:
    """A PEM public key, or `file:PATH` of one. Raises ValueError."""
    if reference.lstrip().startswith(_PUBLIC_PEM):
        return reference.strip()
    if reference.startswith(FILE) and len(reference) > len(FILE) and "\0" not in reference:
        return reference
    raise ValueError(f"a public key is PEM text ({_PUBLIC_PEM} ...) or file:PATH")


def resolved(reference: str, base: Path) -> str:
    """A `file:` reference with its path taken from `base` when it is relative."""
    if not reference.startswith(FILE):
        return reference
    return FILE + str(base / Path(reference[len(FILE) :]).expanduser())


def read_secret(reference: str, environ: Mapping[str, str], what: str) -> str:
    """The secret that `reference` names, stripped of white space around it.

    `what` is the setting's path, for messages. Raises ConfigError when it is absent, empty, over
    64 KiB or not text.
    """
    if reference.startswith(ENV):
        name = reference[len(ENV) :]
        value = environ.get(name, "")
        source = f"the variable {name}"
    else:
        value = _read_file(Path(reference[len(FILE) :]), what)
        source = reference[len(FILE) :]
    if not value.strip():
        raise ConfigError(f"{what}: {source} is empty or not set")
    return value.strip()


def read_public_key(reference: str, what: str) -> str:
    """The PEM text. Raises ConfigError when its file cannot be read."""
    return read_secret(reference, {}, what) if reference.startswith(FILE) else reference


def _read_file(path: Path, what: str) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_SECRET_BYTES + 1)
        if len(content) > MAX_SECRET_BYTES:
            raise ConfigError(f"{what}: {path} is over {MAX_SECRET_BYTES} bytes, so it is no key")
        return content.decode()
    except OSError as error:
        raise ConfigError(f"{what}: cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{what}: {path} is not text") from error
