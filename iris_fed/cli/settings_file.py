"""Finding and reading the configuration of a controller, for the commands that run beside one."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from iris_fed.errors import ConfigError

if TYPE_CHECKING:
    from iris_fed.config.settings import Settings

DEFAULT_FILE = Path("iris-fed.yaml")
OWN_VARIABLES = frozenset({"IRIS_FED_DEBUG"})
"""Read by the command itself; no setting of a controller."""

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="FILE", help="Default: $IRIS_FED_CONFIG, else iris-fed.yaml here.", show_default=False
    ),
]


def pick_config(given: Path | None) -> Path:
    """Raises ConfigError when none is given and none lies here."""
    if given is not None:
        return given
    named = os.environ.get("IRIS_FED_CONFIG")
    if named:
        return Path(named)
    if not DEFAULT_FILE.exists():
        raise ConfigError(f"there is no {DEFAULT_FILE} here: give --config FILE, or make one with `iris-fed init`")
    return DEFAULT_FILE


def load(path: Path) -> "Settings":
    """The checked configuration, this process's variables included. Raises ConfigError."""
    from iris_fed.config.load import load_settings

    return load_settings(path, {name: value for name, value in os.environ.items() if name not in OWN_VARIABLES})
