"""Reading one YAML mapping, remembering on which line each thing stands."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from iris_fed.errors import ConfigError

MAX_FILE_BYTES = 1_048_576
MAX_DEPTH = 16
Location = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """`lines` maps the path of every key and list item to its line, counted from 1."""

    data: dict[str, Any]
    lines: dict[Location, int]


def read_yaml(path: Path) -> Document:
    """Raises ConfigError, with the line where there is one: missing, unreadable, over 1 MiB, no
    YAML, no mapping, a key twice, a key that is no text, nested too deep. An empty file is an empty mapping."""
    text = _read_text(path)
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        if root is None:
            return Document({}, {})
        if not isinstance(root, yaml.MappingNode):
            raise ConfigError(f"{path}: the file must hold keys and values, like 'cluster: {{name: hub}}'")
        lines = dict(_walk(root, (), path))
        return Document(yaml.safe_load(text), lines)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = f":{mark.line + 1}" if mark else ""
        raise ConfigError(f"{path}{line}: not YAML: {error.problem or error.context}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(f"{path}: not YAML: {' '.join(str(error).split())}") from error


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise ConfigError(f"{path}: over {MAX_FILE_BYTES} bytes is no configuration")
        return content.decode()
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: no such file; `iris-fed init` writes one") from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text") from error


def _walk(node: yaml.Node, where: Location, path: Path) -> Iterator[tuple[Location, int]]:
    if len(where) > MAX_DEPTH:
        raise ConfigError(f"{path}:{node.start_mark.line + 1}: nested deeper than {MAX_DEPTH} levels")
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield (*where, index), item.start_mark.line + 1
            yield from _walk(item, (*where, index), path)
    elif isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            name = _key(key, path)
            if name in seen:
                raise ConfigError(f"{path}:{key.start_mark.line + 1}: the key {name!r} stands here twice")
            seen.add(name)
            yield (*where, name), key.start_mark.line + 1
            yield from _walk(value, (*where, name), path)


def _key(node: yaml.Node, path: Path) -> str:
    if isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:str":
        return str(node.value)
    shown = str(node.value)[:40]
    raise ConfigError(f"{path}:{node.start_mark.line + 1}: the key {shown!r} must be text; put it in quotes")
