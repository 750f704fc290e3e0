"""Who is believed, and what they may see and do."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from iris_fed.config.listen import MAX_NETWORKS, CidrText
from iris_fed.config.persons import check_domain, check_people
from iris_fed.config.sections import ClusterName, Days, PublicKey, Secret, Section, check_address

MAX_LISTED = 10_000
GOOGLE_KEYS = "https://www.gstatic.com/iap/verify/public_key-jwk"


def _check_submitter(pattern: str) -> str:
    if pattern == "*":
        return pattern
    if any(letter in pattern.removeprefix("*@") for letter in "*?[]") or not pattern.strip():
        raise ValueError(f"{pattern[:80]!r} is no submitter: write alice@lab.org, *@lab.org or * for everybody")
    return pattern


Person = Annotated[str, AfterValidator(check_people)]


class TrustedRequester(Section):
    """A cluster that may hand jobs to this one."""

    public_keys: list[PublicKey] = Field(
        min_length=1, max_length=8, description="Its Ed25519 public keys: PEM text or `file:PATH`."
    )
    allow_missing_dst: bool = Field(
        default=False, description="Accept tokens that do not name this cluster (`dst`), as an Iris parent sends them."
    )
    strongest_band: Literal["system", "production", "interactive", "batch"] = Field(
        default="production", description="The strongest priority band that its jobs may use here."
    )
    allowed_submitters: list[Annotated[str, AfterValidator(_check_submitter)]] = Field(
        default=[],
        max_length=1_000,
        description="Submitters whose jobs it may send: exact, `*@lab.org`, or `*`. Empty admits nobody.",
    )


class IapSettings(Section):
    """Google's Identity-Aware Proxy in front of this controller."""

    signed_header_audience: str | None = Field(
        default=None,
        min_length=1,
        max_length=512,
        description="The audience of the proxy's signed header, `/projects/NUMBER/global/backendServices/ID`; "
        "absent = no proxy vouches for anybody.",
    )
    keys_url: Annotated[str, AfterValidator(check_address)] = Field(
        default=GOOGLE_KEYS, description="Where the proxy's public keys are published, as a JWK set."
    )


class AuthSettings(Section):
    signing_key: Secret | None = Field(
        default=None,
        description="Reference to this cluster's Ed25519 private key (PEM), which signs user tokens and federation "
        "tokens; needed with `peers`.",
    )
    previous_signing_keys: list[PublicKey] = Field(
        default=[],
        max_length=8,
        description="Public halves of earlier signing keys, PEM text or `file:PATH`: user tokens that they signed "
        "count until they expire.",
    )
    nonce_key: Secret | None = Field(
        default=None,
        description="Reference to the secret that marks this cluster's handoffs as its own; needed with `peers`. "
        "Unlike the signing key it is never rotated: keep a copy with the database's backups.",
    )
    user_token_days: Annotated[Days, Field(le=366)] = Field(
        default=30.0, description="Longest life of a user token, in days; older ones do not count either."
    )
    iap: IapSettings = Field(default=IapSettings(), description="Google's Identity-Aware Proxy.")
    admin_users: list[Person] = Field(
        default=[],
        max_length=MAX_LISTED,
        description="Who is an administrator: an e-mail address, `*@lab.org` or a bare user name; in any case.",
    )
    users: list[Person] = Field(
        default=[],
        max_length=MAX_LISTED,
        description="Who is a user, written likewise. With IAP, or once one of the two lists has an entry, everybody "
        "else is `dashboard`, user tokens included.",
    )
    user_domain: Annotated[str, AfterValidator(check_domain)] | None = Field(
        default=None,
        description="Domain whose people are known by the local part of their address (`/alice/train`); everybody "
        "else by the whole (`/bob@other.org/train`). Do not change it later: jobs keep their names.",
    )
    users_see_all: bool = Field(
        default=True, description="Users and dashboards see everybody's jobs; else users their own, dashboards none."
    )
    dashboard_reads_content: bool = Field(
        default=False, description="Dashboards also see environments, command lines, set-up and logs."
    )
    trusted_cidrs: list[CidrText] = Field(
        default=[],
        max_length=MAX_NETWORKS,
        description="Networks whose callers need no credential, on direct connections only. They share one user, "
        "`network`. This machine's own addresses never count while a local backend runs tasks on it.",
    )
    trusted_network_role: Literal["user", "dashboard"] = Field(
        default="user", description="What callers of `trusted_cidrs` are."
    )
    federation_peers: dict[ClusterName, TrustedRequester] = Field(
        default={}, description="Clusters that may hand jobs to this one, by their `cluster.name`."
    )

    @model_validator(mode="after")
    def _some_networks_are_everybody(self) -> "AuthSettings":
        if any(network.endswith("/0") for network in self.trusted_cidrs):
            raise ValueError("trusted_cidrs: a network of /0 is everybody; name the networks that you trust")
        return self

    @property
    def lists_bind(self) -> bool:
        """Whether nobody is more than `admin_users` and `users` say."""
        return self.iap.signed_header_audience is not None or bool(self.admin_users or self.users)

    @property
    def tells_callers_apart(self) -> bool:
        """Whether anybody but the holder of the admin token can get in."""
        return bool(self.iap.signed_header_audience or self.signing_key or self.trusted_cidrs or self.federation_peers)
