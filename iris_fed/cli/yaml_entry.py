"""One more entry in a list of a YAML file, the rest of the text kept as it is, comments included. Pure."""

import json
from typing import Any

import yaml


def with_entry(text: str, path: tuple[str, str], entry: str) -> str | None:
    """The text with `entry` first in the list at `path`, a section and its field; as it is when it is in the list.

    None when that cannot be done with certainty.
    """
    section, field = path
    before = yaml.safe_load(text)
    if not isinstance(before, dict) or not isinstance(before.get(section), dict):
        return None
    present = before[section].get(field) or []
    if entry in present:
        return text
    edited = _edited(text, section, field, entry)
    wanted = {**before, section: {**before[section], field: [entry, *present]}}
    return edited if edited is not None and _loads_as(edited, wanted) else None


def _edited(text: str, section: str, field: str, entry: str) -> str | None:
    inside = _value(yaml.compose(text, Loader=yaml.SafeLoader), section)
    if inside is None:
        return None
    listed, quoted = _value(inside, field), json.dumps(entry)
    if listed is None:
        return _before(text, inside, f"{field}: [{quoted}]", f'"{field}": [{quoted}]', opening="{")
    if isinstance(listed, yaml.SequenceNode):
        return _before(text, listed, f"- {quoted}", quoted, opening="[")
    return None


def _before(text: str, node: Any, block: str, flow: str, opening: str) -> str:
    """As a line above the first of a block, or as the first within brackets."""
    at: int = node.start_mark.index
    if node.flow_style:
        added = opening + flow + (", " if node.value else "")
        return text[:at] + added + text[at + 1 :]
    added = block + "\n" + " " * int(node.start_mark.column)
    return text[:at] + added + text[at:]


def _value(node: Any, key: str) -> Any:
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    return next((value for name, value in pairs if name.value == key), None)


def _loads_as(text: str, wanted: Any) -> bool:
    try:
        return bool(yaml.safe_load(text) == wanted)
    except yaml.YAMLError:
        return False
