"""The sections of the configuration, each field with its unit and default.

The rule for a cluster's name is the one of the wire's identities; it stands here as well because
a bad name must be refused before anything above is built.
"""

import ipaddress
import re
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from iris_fed.config.edge_tokens import check_edge_token
from iris_fed.config.references import check_public_key, check_reference
from iris_fed.config.units import parse_bytes, parse_millicores

DAY_S = 86_400.0
MAX_HANDOFF_EXPIRY_S = 15 * DAY_S
"""Half the replay window (model.limits): a handle must outlive the handoff it fences."""
_CLUSTER_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")
_VARIANT = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
RESERVED_ATTRIBUTES = frozenset({"device-type", "device-variant", "cluster", "backend"})


def _check_name(name: str) -> str:
    if not _CLUSTER_NAME.fullmatch(name):
        raise ValueError(f"{name[:80]!r} is no name: a-z, 0-9 and inner '-', at most 32 characters")
    return name


def _check_cluster_name(name: str) -> str:
    if name == "local":
        raise ValueError("a cluster cannot be named 'local': that word means this cluster")
    return _check_name(name)


def _no_bool(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("should be a number, not true or false")
    return value


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_address(address: str) -> str:
    """A peer's base URL without a trailing slash; tokens would otherwise travel in the clear."""
    try:
        url = urlsplit(address)
        host, _port = url.hostname, url.port
    except ValueError:
        raise ValueError(f"{address[:200]!r} is no URL") from None
    if url.scheme not in ("http", "https") or not host:
        raise ValueError("an address looks like https://host[:port]")
    if url.username is not None or url.password is not None or url.query or url.fragment:
        raise ValueError("an address holds no user, password, query or fragment")
    if url.scheme == "http" and not is_loopback(host):
        raise ValueError(f"http:// is for loopback only; use https://{host}, tokens must not travel in the clear")
    return address.rstrip("/")


def _as_values(value: Any) -> Any:
    items = value if isinstance(value, list | tuple) else [value]
    if not items or not all(isinstance(item, str | int | float) for item in items):
        raise ValueError("an attribute is a text or a list of texts")
    return tuple(str(item).lower() if isinstance(item, bool) else str(item) for item in items)


def _check_variant(variant: str) -> str:
    if not _VARIANT.fullmatch(variant):
        raise ValueError(f"{variant[:80]!r} is no device variant: lower case, like h100")
    return variant


def _check_attribute(key: str) -> str:
    if key in RESERVED_ATTRIBUTES or not key.isprintable() or not key.strip() or len(key) > 128:
        raise ValueError(f"{key[:80]!r} cannot be an attribute: it is empty, too long or follows from other settings")
    return key


ClusterName = Annotated[str, AfterValidator(_check_cluster_name)]
Name = Annotated[str, AfterValidator(_check_name)]
Secret = Annotated[str, AfterValidator(check_reference)]
PublicKey = Annotated[str, AfterValidator(check_public_key)]
AccountName = Annotated[str, Field(min_length=1, max_length=64)]
Variant = Annotated[str, AfterValidator(_check_variant)]
Attributes = dict[
    Annotated[str, AfterValidator(_check_attribute)], Annotated[tuple[str, ...], BeforeValidator(_as_values)]
]
Whole = Annotated[int, BeforeValidator(_no_bool)]
Seconds = Annotated[float, BeforeValidator(_no_bool), Field(gt=0, le=30 * DAY_S)]
Days = Annotated[float, BeforeValidator(_no_bool), Field(gt=0, le=3_650)]
Bytes = Annotated[int, BeforeValidator(parse_bytes), Field(ge=0, le=2**60)]
Millicores = Annotated[int, BeforeValidator(parse_millicores), Field(ge=1, le=2**31 - 1)]


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, hide_input_in_errors=True)


class ClusterSettings(Section):
    name: ClusterName = Field(
        description="Identity of this cluster: a-z, 0-9 and inner '-', at most 32 characters, never `local`. "
        "Its database keeps it: it cannot be changed later."
    )


class LimitSettings(Section):
    request_bytes: Bytes = Field(default=4_194_304, ge=65_536, description="Largest request body, in bytes.")
    page_size: Whole = Field(default=1_000, ge=1, le=10_000, description="Most rows in one answer.")
    replicas: Whole = Field(default=10_000, ge=1, le=100_000, description="Most tasks of one job.")
    argv_bytes: Bytes = Field(default=131_072, ge=1, description="Size of a command with its arguments, in bytes.")
    env_bytes: Bytes = Field(default=131_072, ge=1, description="Size of a job's environment, in bytes.")
    bundle_bytes: Bytes = Field(
        default=67_108_864, ge=0, le=2**30, description="Largest workspace that a job may bring along, in bytes."
    )
    log_page_bytes: Bytes = Field(default=1_048_576, ge=4_096, description="Log output in one message, in bytes.")
    calls_per_caller: Whole = Field(
        default=512, ge=4, le=65_536, description="Calls of one caller under way; one more is RESOURCE_EXHAUSTED."
    )
    connections_per_address: Whole = Field(
        default=512,
        ge=4,
        le=65_536,
        description="Open connections of one address that is not in `listen.trusted_proxies`; one more is closed with "
        "a 503.",
    )
    connections: Whole = Field(
        default=4_096, ge=16, le=65_536, description="Open connections in all, at most half of the files it may open."
    )


EDGE_LIMITS = ("calls_per_caller", "connections_per_address", "connections")
"""What of `limits` bounds the edge; the rest bounds what requests hold."""


class LogSettings(Section):
    level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="Least severe level shown.")
    format: Literal["console", "json"] = Field(
        default="console", description="For a person (`console`) or one JSON object a line (`json`); to stderr."
    )


class SchedulingSettings(Section):
    safety_interval_s: Seconds = Field(
        default=30.0, description="The control pass runs on every event, and at least this often; in seconds."
    )
    hold_after_s: Seconds = Field(
        default=300.0,
        description="After a job has waited this long at the head, freed capacity is held for it; in seconds.",
    )
    production_users: list[str] = Field(
        default=["*"],
        max_length=1_000,
        description="Who besides admins may submit in the production band: exact, `*@lab.org`, or `*`.",
    )
    system_users: list[str] = Field(
        default=[],
        max_length=1_000,
        description="Who besides admins may submit in the system band: exact, `*@lab.org`, or `*`.",
    )


class RetentionSettings(Section):
    jobs_days: Annotated[Days, Field(ge=0.001)] = Field(
        default=30.0, description="Finished jobs are kept this long, in days; received ones at least 7."
    )
    outputs_days: Annotated[Days, Field(ge=0.001)] = Field(
        default=14.0, description="Output and work directories of ended attempts are kept this long, in days."
    )
    bundles_days: Annotated[Days, Field(ge=0.001)] = Field(
        default=1.0, description="Workspaces that no job uses any more are kept this long, in days."
    )
    interval_s: Seconds = Field(default=60.0, description="Time between two rounds of removing, in seconds.")
    min_free: Bytes = Field(
        default=536_870_912, description="With less space free in state_dir nothing is started, in bytes."
    )


class LocalBackendSettings(Section):
    """Runs tasks as processes of this machine."""

    id: Name = Field(default="local", description="Name of the backend within this cluster.")
    kind: Literal["local"] = Field(default="local", description="Engine: processes of this machine.")
    cpu: Millicores | None = Field(
        default=None, description="Cores to hand out: `4`, `0.5` or `500m`; absent = all that this process may use."
    )
    memory: Bytes | None = Field(
        default=None, ge=1, description="Memory to hand out: bytes, `16GB` or `16GiB`; absent = what the machine has."
    )
    device_type: Literal["cpu", "gpu", "tpu"] | None = Field(
        default=None, description="Advertised `device-type`; absent = `gpu` where devices are declared, else `cpu`."
    )
    devices: dict[Variant, Annotated[Whole, Field(ge=1, le=1_024)]] = Field(
        default={}, description="Chips per device variant, lower case: `{h100: 8}`."
    )
    attributes: Attributes = Field(
        default={}, description="What constraints may ask for: `{region: eu, zone: [a, b]}`."
    )
    kill_grace_s: Seconds = Field(default=10.0, le=3_600, description="From SIGTERM to SIGKILL, in seconds.")
    output_bytes: Bytes = Field(
        default=67_108_864, ge=65_536, description="Output kept per attempt, in bytes; the middle is dropped."
    )
    advertise_host: str = Field(
        default="127.0.0.1", min_length=1, max_length=253, description="Host under which tasks are reached."
    )
    run_as: AccountName | dict[Annotated[str, Field(min_length=1, max_length=320)], AccountName] | None = Field(
        default=None,
        description="Account of this machine that tasks run as, when the controller runs as root: one for all, or "
        "`{alice: alice, '*': nobody, hub/alice: guest, hub/*: guest}`, by user or by requester and user; `*` is our "
        "own users', never a requester's. Whom no entry fits runs nothing.",
    )
    shared_uid: Literal["refuse", "accept"] = Field(
        default="refuse",
        description="`accept`: tasks run as the controller itself though several people or other clusters may submit; "
        "each of their tasks can then read its keys and act as it. Without this, or `run_as`, `serve` refuses.",
    )

    @model_validator(mode="after")
    def _devices_need_a_type(self) -> "LocalBackendSettings":
        if self.device_type == "cpu" and self.devices:
            raise ValueError("device_type is cpu, but devices are declared")
        return self


class PeerSettings(Section):
    """Identity, reachability and trust. What a peer can do is learned from itself, never declared."""

    name: ClusterName = Field(description="The peer's own `cluster.name`.")
    address: Annotated[str, AfterValidator(check_address)] = Field(
        description="Base URL of its controller: https, or http to a loopback address."
    )
    edge_token: Annotated[str, AfterValidator(check_edge_token)] | None = Field(
        default=None,
        description="Where the token for a proxy in front of it (Google IAP) comes from, sent in "
        "`Proxy-Authorization`: `file:PATH`, `env:NAME`, `command:PROGRAM ARGUMENTS` (run without a shell) or "
        "`google:AUDIENCE` (needs the extra `google`).",
    )


class FederationSettings(Section):
    heartbeat_interval_s: Seconds = Field(default=5.0, description="Time between heartbeats of a peer, in seconds.")
    heartbeat_timeout_s: Seconds = Field(
        default=3.0, description="Deadline of one heartbeat, in seconds; below the interval."
    )
    first_heartbeat_wait_s: Seconds = Field(
        default=2.0, le=60, description="A submit waits this long for a peer never heard of yet, in seconds."
    )
    call_timeout_s: Seconds = Field(default=5.0, le=300, description="Deadline of a delivery or cancel, in seconds.")
    poll_interval_s: Seconds = Field(
        default=3.0, description="Time between polls of a peer that cannot hold an answer, in seconds."
    )
    long_poll_ms: Whole = Field(
        default=20_000, ge=0, le=120_000, description="A peer is asked to hold its answer this long, in milliseconds."
    )
    handoff_expiry_s: Seconds = Field(
        default=DAY_S, le=MAX_HANDOFF_EXPIRY_S, description="A job not delivered by then has failed, in seconds."
    )
    lost_after_s: Seconds = Field(
        default=600.0, description="A job missing at its peer for this long has ended as lost, in seconds."
    )
    max_backoff_s: Seconds = Field(default=60.0, description="Longest pause between attempts to deliver, in seconds.")
    outbox_concurrency: Whole = Field(
        default=8, ge=1, le=256, description="Deliveries and cancels under way to one peer at a time."
    )

    @model_validator(mode="after")
    def _heartbeats_do_not_overlap(self) -> "FederationSettings":
        if self.heartbeat_timeout_s >= self.heartbeat_interval_s:
            raise ValueError("heartbeat_timeout_s must be below heartbeat_interval_s")
        return self
