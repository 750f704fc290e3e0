"""Wires together who is believed: keys, lists and networks of the configuration."""

import os
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from getpass import getuser

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from starlette.requests import Request

from iris_fed.auth.authenticator import Authenticator, Sources, TaskOwner
from iris_fed.auth.federation_tokens import FederationVerifier, TrustedRequester
from iris_fed.auth.iap import IapVerifier
from iris_fed.auth.identity import Role
from iris_fed.auth.jwks import PublishedKeys
from iris_fed.auth.key_endpoint import KeyEndpoint
from iris_fed.auth.keys import private_key_from_pem, public_key_from_pem
from iris_fed.auth.network import NetworkTrust, is_local
from iris_fed.auth.people import NETWORK_USER, Listed, People
from iris_fed.auth.policy import check_allowed
from iris_fed.auth.task_tokens import TaskTokens
from iris_fed.auth.user_tokens import UserTokenSigner, UserTokenVerifier
from iris_fed.config.listen import networks
from iris_fed.config.references import read_public_key, read_secret
from iris_fed.config.settings import Settings
from iris_fed.controller.tokens import TokenDesk
from iris_fed.errors import IrisFedError
from iris_fed.model.limits import DAY_MS
from iris_fed.model.tokens import UserToken
from iris_fed.rpc.gate import joined
from iris_fed.store.db import Database
from iris_fed.store.jobs import job_of_live_attempt
from iris_fed.store.runtime import Runtime
from iris_fed.store.user_tokens import token_by_id

_HEALTH = "iris.cluster.ControllerService/ListPeers"
"""Whoever may call this may know how the controller is."""


@dataclass(frozen=True, slots=True)
class Identities:
    """`keys` None = there are none to keep fresh."""

    authenticator: Authenticator
    people: People
    tokens: TokenDesk
    keys: PublishedKeys | None


def build_identities(
    settings: Settings, runtime: Runtime, admin_token: str, tasks: TaskTokens, stack: AsyncExitStack, only_one: str
) -> Identities:
    """`only_one`: as `TokenDesk` has it. Raises ConfigError for keys that cannot be read."""
    people = _build_people(settings)
    signing_key = read_signing_key(settings)
    max_lifetime_s = settings.auth.user_token_days * DAY_MS / 1000
    keys, iap = _build_iap(settings, runtime, stack)
    sources = Sources(
        people=people,
        federation=FederationVerifier(_trusted_keys(settings), settings.cluster.name, runtime.clock),
        user_tokens=_build_verifier(settings, runtime, people, signing_key, max_lifetime_s),
        iap=iap,
        network=_build_network(settings),
        clock=runtime.clock,
    )
    desk = TokenDesk(runtime, UserTokenSigner(signing_key, settings.cluster.name), people, max_lifetime_s, only_one)
    return Identities(Authenticator(admin_token, tasks, _job_of_task(runtime.db), sources), people, desk, keys)


def may_read_health(authenticator: Authenticator) -> Callable[[Request], Awaitable[bool]]:
    """Who learns more from `/readyz` than ok or not: this machine itself, and whoever may see the peers."""

    async def may_read(request: Request) -> bool:
        headers = joined(request.headers.items())
        peer = f"{request.client.host}:{request.client.port}" if request.client else ""
        if is_local(peer, headers):
            return True
        try:
            check_allowed(await authenticator.authenticate(headers, peer), _HEALTH)
        except IrisFedError:
            return False
        return True

    return may_read


def read_signing_key(settings: Settings) -> Ed25519PrivateKey | None:
    """Raises ConfigError."""
    if settings.auth.signing_key is None:
        return None
    what = "auth.signing_key"
    return private_key_from_pem(read_secret(settings.auth.signing_key, os.environ, what), what)


def _build_people(settings: Settings) -> People:
    auth = settings.auth
    listed = Listed(tuple(auth.admin_users), tuple(auth.users), binding=auth.lists_bind)
    reserved = {NETWORK_USER} if auth.trusted_cidrs else frozenset[str]()
    return People(getuser(), auth.user_domain or "", listed, reserved)


def _build_iap(
    settings: Settings, runtime: Runtime, stack: AsyncExitStack
) -> tuple[PublishedKeys | None, IapVerifier | None]:
    iap = settings.auth.iap
    if iap.signed_header_audience is None:
        return None, None
    endpoint = KeyEndpoint(iap.keys_url)
    stack.push_async_callback(endpoint.close)
    keys = PublishedKeys(endpoint)
    return keys, IapVerifier(keys, iap.signed_header_audience, runtime.clock)


def _build_verifier(
    settings: Settings, runtime: Runtime, people: People, key: Ed25519PrivateKey | None, max_lifetime_s: float
) -> UserTokenVerifier:
    where = "auth.previous_signing_keys"
    previous = [
        public_key_from_pem(read_public_key(reference, where), where)
        for reference in settings.auth.previous_signing_keys
    ]
    own = [] if key is None else [key.public_key()]

    async def by_id(token_id: str) -> UserToken | None:
        return await runtime.db.read(lambda tx: token_by_id(tx, token_id))

    return UserTokenVerifier(settings.cluster.name, own + previous, people, by_id, runtime.clock, max_lifetime_s)


def _build_network(settings: Settings) -> NetworkTrust:
    auth = settings.auth
    return NetworkTrust(
        networks(auth.trusted_cidrs),
        networks(settings.listen.trusted_proxies),
        Role(auth.trusted_network_role),
        runs_tasks=any(backend.kind == "local" for backend in settings.backends),
    )


def _trusted_keys(settings: Settings) -> dict[str, TrustedRequester]:
    return {
        name: TrustedRequester(
            tuple(
                public_key_from_pem(read_public_key(key, where), where)
                for where in [f"auth.federation_peers.{name}.public_keys"]
                for key in trust.public_keys
            ),
            trust.allow_missing_dst,
        )
        for name, trust in settings.auth.federation_peers.items()
    }


def _job_of_task(db: Database) -> Callable[[str], Awaitable[TaskOwner | None]]:
    async def look_up(attempt_uid: str) -> TaskOwner | None:
        job = await db.read(lambda tx: job_of_live_attempt(tx, attempt_uid))
        return None if job is None else TaskOwner(job.job_id, job.user, job.submitting_user)

    return look_up
