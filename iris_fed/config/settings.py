"""The whole configuration as one typed tree, and what its parts demand of each other."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, Discriminator, Field, Tag, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from iris_fed.config.auth import AuthSettings
from iris_fed.config.listen import ListenSettings
from iris_fed.config.sections import (
    ClusterSettings,
    FederationSettings,
    LimitSettings,
    LocalBackendSettings,
    LogSettings,
    PeerSettings,
    RetentionSettings,
    SchedulingSettings,
    Seconds,
)
from iris_fed.config.slurm import SlurmBackendSettings


def _kind_of(backend: Any) -> str:
    """A backend that does not say its kind is a local one; what it says wrongly is left to the choice."""
    kind = backend.get("kind", "local") if isinstance(backend, dict) else getattr(backend, "kind", "local")
    return str(kind)


BackendSettings = Annotated[
    Annotated[LocalBackendSettings, Tag("local")] | Annotated[SlurmBackendSettings, Tag("slurm")],
    Discriminator(
        _kind_of, custom_error_type="unknown_kind", custom_error_message="kind: no engine has this name: local or slurm"
    ),
]


KINDS = ("local", "slurm")


def models_of(annotation: Any) -> tuple[type[BaseModel], ...]:
    """The sections that a setting of this type may be: several where there is a choice of kinds."""
    if isinstance(annotation, type):
        return (annotation,) if issubclass(annotation, BaseModel) else ()
    if get_origin(annotation) is Annotated or get_origin(annotation) in (Union, UnionType):
        return tuple(model for part in get_args(annotation) for model in models_of(part))
    return ()


class Settings(BaseSettings):
    """Frozen. Built by `load_settings`; constructed directly it reads neither file nor environment."""

    model_config = SettingsConfigDict(
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        hide_input_in_errors=True,
        env_prefix="IRIS_FED_",
        env_nested_delimiter="__",
    )

    cluster: ClusterSettings = Field(description="Who this cluster is.")
    state_dir: Path = Field(
        default=Path("state"),
        description="Directory of the database, bundles and outputs; made with mode 0700. Relative to this file.",
    )
    listen: ListenSettings = Field(default=ListenSettings(), description="Where the controller is reached.")
    shutdown_grace_s: Annotated[Seconds, Field(le=600)] = Field(
        default=10.0, description="A stopping controller is gone after this long, in seconds."
    )
    stuck_after_s: Seconds = Field(
        default=30.0,
        description="A background loop that is this much later than it said is restarted, and `/readyz` says so; "
        "in seconds.",
    )
    log: LogSettings = Field(default=LogSettings(), description="The controller's own log.")
    limits: LimitSettings = Field(default=LimitSettings(), description="Bounds of what a request may hold.")
    scheduling: SchedulingSettings = Field(default=SchedulingSettings(), description="The control loop.")
    retention: RetentionSettings = Field(default=RetentionSettings(), description="How long what is over is kept.")
    backends: list[BackendSettings] = Field(
        default=[LocalBackendSettings()],
        max_length=64,
        description="What this controller drives; absent = one local backend, `[]` = nothing runs here.",
    )
    peers: list[PeerSettings] = Field(
        default=[], max_length=256, description="Clusters that this one may hand jobs to; none = federation is inert."
    )
    auth: AuthSettings = Field(default=AuthSettings(), description="Keys and trust.")
    federation: FederationSettings = Field(default=FederationSettings(), description="Times and bounds of handing off.")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)

    @model_validator(mode="after")
    def _parts_agree(self) -> "Settings":
        for problem in self._problems():
            raise ValueError(problem)
        return self

    def _problems(self) -> Iterable[str]:
        for name in _repeated(peer.name for peer in self.peers):
            yield f"peers: {name!r} is declared twice"
        for name in _repeated(peer.address for peer in self.peers):
            yield f"peers: two peers share the address {name}"
        for name in _repeated(backend.id for backend in self.backends):
            yield f"backends: the id {name!r} is used twice"
        for path in _repeated(str(one.shared_dir) for one in self.backends if isinstance(one, SlurmBackendSettings)):
            yield f"backends: two backends share the directory {path}"
        own = self.cluster.name
        if any(peer.name == own for peer in self.peers):
            yield f"peers: {own!r} is this cluster itself"
        if own in self.auth.federation_peers:
            yield f"auth.federation_peers: {own!r} is this cluster itself"
        if self.peers and self.auth.signing_key is None:
            yield "auth.signing_key: needed because peers are declared; `iris-fed init` makes one"
        if self.peers and self.auth.nonce_key is None:
            yield "auth.nonce_key: needed because peers are declared; `iris-fed init` makes one"
        if self.listen.is_exposed and not self.auth.tells_callers_apart:
            yield (
                f"listen.host: {self.listen.host!r} is not a loopback address: other machines could reach a controller "
                "that has no way to tell who asks; configure auth.iap, auth.signing_key, auth.trusted_cidrs or "
                "auth.federation_peers, or use 127.0.0.1"
            )
        if self.auth.nonce_key is not None and self.auth.nonce_key == self.auth.signing_key:
            yield "auth.nonce_key: must not be the signing key, which is rotated"


def _repeated(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]
