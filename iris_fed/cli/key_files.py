"""A cluster's keys as files: made, shown, and replaced in two steps, so that peers can follow in between."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from iris_fed.auth.keys import private_key_from_pem, public_key_from_pem
from iris_fed.cli.setup import NONCE_KEY, SIGNING_KEY, new_key_pair, write_new
from iris_fed.cli.yaml_entry import with_entry
from iris_fed.errors import AlreadyExists, ConfigError, FailedPrecondition

NEXT = ".next"
MAX_KEY_BYTES = 65_536
_PUBLIC_MARK = "PUBLIC KEY"


@dataclass(frozen=True, slots=True)
class Activated:
    """`previous` is the file with the old public key. `configured` False = the configuration could not be
    changed: `reference` is what belongs into its `auth.previous_signing_keys`."""

    public_key: str
    previous: Path
    reference: str
    configured: bool


def make_keys(directory: Path, replace: bool) -> str:
    """Write a signing key and a nonce key and return the public key (PEM).

    Raises AlreadyExists unless `replace`, when one of them exists; ConfigError.
    """
    private, public = new_key_pair()
    contents = {directory / SIGNING_KEY: private, directory / NONCE_KEY: os.urandom(32).hex() + "\n"}
    present = [path for path in contents if path.exists()]
    if present and not replace:
        raise AlreadyExists(f"{present[0]} exists and is not overwritten; `keys rotate` follows it with a new one")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for path, content in contents.items():
            _put(path, content, 0o600)
    except OSError as error:
        raise ConfigError(f"cannot write to {directory}: {error.strerror}") from error
    return public


def prepare_next(signing_key: Path) -> str:
    """Write the key that is to follow `signing_key` beside it, unless it lies there; its public half (PEM)."""
    path = _next_of(signing_key)
    if path.exists():
        return public_of(path)
    private, public = new_key_pair()
    try:
        write_new(path, private, 0o600)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from error
    return public


def activate_next(signing_key: Path, config: Path, check: Callable[[Path], object]) -> Activated:
    """Put the prepared key in `signing_key`'s place; what the old one signed goes on counting.

    `check` reads a configuration file and raises ConfigError; nothing is changed then. The same call
    again, after a crash, goes on. Raises FailedPrecondition when no key is prepared.
    """
    prepared = _next_of(signing_key)
    if not prepared.exists():
        raise FailedPrecondition(
            f"there is no {prepared}: `iris-fed keys rotate` prepares it, and tells what to do next"
        )
    public_key, old = public_of(prepared), public_of(signing_key)
    name = fingerprint(old).removeprefix("sha256:")[:12]
    previous = signing_key.with_name(f"{signing_key.stem}.{name}.pub")
    reference = f"file:{_from(config.parent, previous)}"
    try:
        _put(previous, old, 0o644)
        configured = _configure(config, reference, check)
        os.replace(prepared, signing_key)
    except OSError as error:
        raise ConfigError(f"cannot write to {signing_key.parent}: {error.strerror}") from error
    return Activated(public_key, previous, reference, configured)


def public_of(path: Path) -> str:
    """The public key (PEM) of a file with either half. Raises ConfigError."""
    try:
        with path.open(encoding="ascii") as file:
            return public_pem(file.read(MAX_KEY_BYTES), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {getattr(error, 'strerror', None) or 'no key'}") from error


def public_pem(pem: str, what: str) -> str:
    """The public key (PEM) of either half. Raises ConfigError, naming `what`."""
    if _PUBLIC_MARK in pem:
        return _as_pem(public_key_from_pem(pem, what))
    return _as_pem(private_key_from_pem(pem, what).public_key())


def fingerprint(pem: str) -> str:
    """`sha256:` and the hash, in hex, of the key's DER: what `openssl pkey -pubin -outform DER | sha256sum` says."""
    key = public_key_from_pem(pem, "the key")
    der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return "sha256:" + hashlib.sha256(der).hexdigest()


def _as_pem(key: Ed25519PublicKey) -> str:
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo).decode()


def _next_of(signing_key: Path) -> Path:
    return signing_key.with_name(signing_key.name + NEXT)


def _from(base: Path, path: Path) -> str:
    """As it is written in a configuration that lies in `base`."""
    base, path = base.resolve(), path.resolve()
    return str(path.relative_to(base) if path.is_relative_to(base) else path)


def _configure(config: Path, reference: str, check: Callable[[Path], object]) -> bool:
    """Add the reference to the file's list of previous keys; False when that cannot be done by a machine."""
    edited = with_entry(config.read_text(encoding="utf-8"), ("auth", "previous_signing_keys"), reference)
    if edited is None or not os.access(config.resolve().parent, os.W_OK):
        return False
    config = config.resolve()
    with tempfile.NamedTemporaryFile("w", dir=config.parent, suffix=".yaml", delete=False, encoding="utf-8") as file:
        file.write(edited)
    try:
        check(Path(file.name))
        shutil.copymode(config, file.name)
        os.replace(file.name, config)
    finally:
        Path(file.name).unlink(missing_ok=True)
    return True


def _put(path: Path, content: str, mode: int) -> None:
    """Replace `path` in one step."""
    draft = path.with_name(path.name + ".new")
    draft.unlink(missing_ok=True)
    write_new(draft, content, mode)
    os.replace(draft, path)
