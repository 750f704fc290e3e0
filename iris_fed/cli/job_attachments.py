"""What a job brings along from here: secrets, single files, a workspace."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from iris_fed.cli import formats
from iris_fed.cli.parse import ENV_NAME, UsageError
from iris_fed.errors import InvalidArgument
from iris_fed.model.files import is_secret_file_name, split_path

if TYPE_CHECKING:
    from iris_fed.client.workspace import Survey

MAX_SECRET_BYTES = 64 * 1024
MAX_FILES_BYTES = 3 * 1024 * 1024
"""Of all single files together; more belongs into a workspace."""


@dataclass(frozen=True, slots=True)
class Attachments:
    """`secrets` by variable, `files` by path below the work directory, `workspace` as an archive,
    `secret_files` by name."""

    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    workspace: bytes | None = field(default=None, repr=False)
    secret_files: Mapping[str, str] = field(default_factory=dict, repr=False)


NOTHING = Attachments()


@dataclass(frozen=True, slots=True)
class SecretKind:
    """What one flag makes of a secret. `made_of`: in words, what its legal names are made of."""

    flag: str
    is_name: Callable[[str], object]
    made_of: str
    keeps_newline: bool


VARIABLES = SecretKind("--secret", ENV_NAME.fullmatch, "letters, digits and '_'", keeps_newline=False)
FILES = SecretKind("--secret-file", is_secret_file_name, "letters, digits, '.', '_' and '-'", keeps_newline=True)


def gather(
    secrets: Sequence[str],
    secret_files: Sequence[str],
    files: Sequence[str],
    workspace: str,
    environ: Mapping[str, str],
) -> Attachments:
    """All that was asked for; what a workspace sends is said. Raises UsageError, InvalidArgument."""
    packed = _pack(workspace) if workspace else None
    variables, hidden = read_secrets(secrets, environ, VARIABLES), read_secrets(secret_files, environ, FILES)
    return Attachments(variables, read_files(files), packed, hidden)


def read_secrets(references: Sequence[str], environ: Mapping[str, str], kind: SecretKind = VARIABLES) -> dict[str, str]:
    """`NAME=env:VAR` or `NAME=file:PATH`; for a variable a file's closing newline is dropped.

    Raises UsageError, in words that hold no value, not even one that was typed by mistake.
    """
    secrets: dict[str, str] = {}
    for reference in references:
        name, separator, source = reference.partition("=")
        origin, _, place = source.partition(":")
        if not separator or not kind.is_name(name):
            raise UsageError(f"{kind.flag}: write NAME=env:VARIABLE or NAME=file:PATH, NAME of {kind.made_of}")
        what = f"{kind.flag} {name}"
        if origin not in ("env", "file") or not place:
            raise UsageError(f"{what}: write {name}=env:VARIABLE or {name}=file:PATH, never the value itself")
        if origin == "env":
            secrets[name] = _from_variable(what, place, environ)
        else:
            secrets[name] = _from_file(what, place, kind.keeps_newline)
    return secrets


def read_files(arguments: Sequence[str]) -> dict[str, bytes]:
    """`LOCAL` or `LOCAL:NAME`, NAME being a path below the work directory. Raises UsageError."""
    files: dict[str, bytes] = {}
    left = MAX_FILES_BYTES
    for argument in arguments:
        local, name = _local_and_name(argument)
        try:
            split_path(name)
        except InvalidArgument as error:
            raise UsageError(f"--file {argument!r}: {error.message}") from error
        files[name] = _read(local, left, f"--file {argument!r}", "all of them together; send a --workspace instead")
        left -= len(files[name])
    return files


def workspace_summary(found: "Survey", packed_bytes: int) -> str:
    """One sentence on what is sent."""
    count = formats.plural(found.file_count, "file")
    total, packed = formats.size(found.total_bytes), formats.size(packed_bytes)
    return f"sends {count}, {total} ({packed} packed), of {found.directory} as the workspace"


def _pack(directory: str) -> bytes:
    from iris_fed.cli.terminal import say
    from iris_fed.client.workspace import pack, survey

    found = survey(Path(directory).expanduser())
    packed = pack(found)
    say(workspace_summary(found, len(packed)))
    return packed


def _from_variable(what: str, variable: str, environ: Mapping[str, str]) -> str:
    if variable not in environ:
        raise UsageError(f"{what}: the variable {variable} is not set here")
    return _checked(what, environ[variable])


def _from_file(what: str, path: str, keeps_newline: bool) -> str:
    data = _read(Path(path).expanduser(), MAX_SECRET_BYTES, what, "a secret")
    try:
        return _checked(what, data.decode() if keeps_newline else data.decode().removesuffix("\n"))
    except UnicodeDecodeError:
        raise UsageError(f"{what}: {path} is no UTF-8 text") from None


def _checked(what: str, value: str) -> str:
    if "\0" in value or len(value.encode("utf-8", "surrogateescape")) > MAX_SECRET_BYTES:
        raise UsageError(f"{what}: its value holds a NUL byte or more than {MAX_SECRET_BYTES} bytes")
    return value


def _local_and_name(argument: str) -> tuple[Path, str]:
    """A colon that belongs to an existing file's name is no separator."""
    head, colon, tail = argument.rpartition(":")
    if not colon or Path(argument).is_file():
        return Path(argument).expanduser(), Path(argument).name
    return Path(head).expanduser(), tail


def _read(path: Path, max_bytes: int, what: str, bound_of: str) -> bytes:
    try:
        if not path.is_file():
            raise UsageError(f"{what}: there is no file {path}")
        with path.open("rb") as file:
            data = file.read(max_bytes + 1)
    except OSError as error:
        raise UsageError(f"{what}: cannot read {path}: {error.strerror}") from error
    if len(data) > max_bytes:
        raise UsageError(f"{what}: too large: {max_bytes} bytes are left for {bound_of}")
    return data
