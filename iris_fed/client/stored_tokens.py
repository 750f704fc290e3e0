"""Tokens that `iris-fed login` keeps for a person, each in a file of its own beside the contexts file."""

import os
import re
import tempfile
from pathlib import Path

from iris_fed.errors import InvalidArgument

MAX_TOKEN_BYTES = 16_384
_FOLDER = "tokens"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def check_context_name(name: str) -> str:
    """Raises InvalidArgument for what cannot be the name of a file."""
    if not _NAME.fullmatch(name):
        raise InvalidArgument(f"{name[:80]!r} cannot be a context's name: letters, digits and inner '.', '_', '-'")
    return name


def as_token(text: str) -> str:
    """The token in what was typed or read. Raises InvalidArgument, never repeating it."""
    token = text.strip()
    if not token or len(token) > MAX_TOKEN_BYTES or not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidArgument("that is no token: it is one word, as `iris-fed token create` prints it")
    return token


def store_token(contexts: Path, name: str, token: str) -> Path:
    """Write the token of the context `name`, readable by its owner only (0600), in one step; its path.

    `contexts` is the contexts file. Raises InvalidArgument when that fails.
    """
    path = _path(contexts, name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Made with 0600, whatever the mask.
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="ascii") as file:
            file.write(token + "\n")
        os.replace(file.name, path)
    except OSError as error:
        raise InvalidArgument(f"cannot write {path}: {error.strerror}") from error
    return path


def forget_token(contexts: Path, token_file: str) -> bool:
    """Remove the file if `store_token` made it; whether it did."""
    path = Path(token_file)
    if not token_file or path.parent != contexts.parent / _FOLDER:
        return False
    path.unlink(missing_ok=True)
    return True


def _path(contexts: Path, name: str) -> Path:
    return contexts.parent / _FOLDER / check_context_name(name)
