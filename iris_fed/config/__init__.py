"""The configuration of one controller: one YAML file, overlaid by `IRIS_FED_...` variables."""

from iris_fed.config.auth import AuthSettings, IapSettings, TrustedRequester
from iris_fed.config.listen import ListenSettings, networks
from iris_fed.config.load import CLIENT_VARIABLES, ENV_PREFIX, load_settings
from iris_fed.config.references import read_public_key, read_secret
from iris_fed.config.sections import (
    ClusterSettings,
    FederationSettings,
    LimitSettings,
    LocalBackendSettings,
    LogSettings,
    PeerSettings,
    SchedulingSettings,
)
from iris_fed.config.settings import Settings
from iris_fed.config.show import describe, effective_yaml
from iris_fed.config.units import parse_bytes, parse_millicores

__all__ = [
    "CLIENT_VARIABLES",
    "ENV_PREFIX",
    "AuthSettings",
    "ClusterSettings",
    "FederationSettings",
    "IapSettings",
    "LimitSettings",
    "ListenSettings",
    "LocalBackendSettings",
    "LogSettings",
    "PeerSettings",
    "SchedulingSettings",
    "Settings",
    "TrustedRequester",
    "describe",
    "effective_yaml",
    "load_settings",
    "networks",
    "parse_bytes",
    "parse_millicores",
    "read_public_key",
    "read_secret",
]
