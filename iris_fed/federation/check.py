"""Tests the way to a peer step by step, for the operator: `iris-fed peer check`."""

import asyncio
import socket
from urllib.parse import urlsplit

import anyio

from iris_fed.federation.peer_link import PeerLink
from iris_fed.model.federation import CheckStep
from iris_fed.model.ports import PeerRefused, PeerUnreachable

STEP_TIMEOUT_S = 5.0


async def check_peer(link: PeerLink, submitter: str) -> tuple[CheckStep, ...]:
    """In order: dns, tls or reach, token, trust, admission; ends at the first step that fails."""
    steps = [await _check_dns(link.address)]
    if steps[-1].ok:
        steps += await _check_call(link)
    if steps[-1].ok:
        steps.append(await _check_admission(link, submitter))
    return tuple(steps)


async def _check_dns(address: str) -> CheckStep:
    host = urlsplit(address).hostname or ""
    try:
        with anyio.fail_after(STEP_TIMEOUT_S):
            found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except TimeoutError:
        return CheckStep("dns", False, f"{host}: no answer from the resolver in {STEP_TIMEOUT_S:g} s")
    except OSError as error:
        return CheckStep("dns", False, f"{host}: {error.strerror or error}; is the address in `peers:` right?")
    addresses = sorted({str(entry[4][0]) for entry in found})
    return CheckStep("dns", True, f"{host} is {', '.join(addresses[:4])}")


async def _check_call(link: PeerLink) -> list[CheckStep]:
    """One real call tells three things: the connection, the token, and whether the peer trusts us."""
    transport = "tls" if link.address.startswith("https:") else "reach"
    try:
        with anyio.fail_after(STEP_TIMEOUT_S):
            backends = await link.client.list_backends()
    except TimeoutError:
        return [CheckStep(transport, False, f"{link.address}: no answer in {STEP_TIMEOUT_S:g} s")]
    except PeerUnreachable as error:
        return [CheckStep(transport, False, f"{link.address}: {error.message}")]
    except PeerRefused as refusal:
        reached = CheckStep(transport, True, f"a controller answers at {link.address}")
        step = "trust" if refusal.code == "permission_denied" or "no key" in refusal.message else "token"
        return [reached, CheckStep(step, False, f"{link.peer} answered {refusal.code}: {refusal.message}")]
    shown = ", ".join(backend.name or backend.backend_id for backend in backends) or "none"
    return [
        CheckStep(transport, True, f"a controller answers at {link.address}"),
        CheckStep("token", True, "this cluster's federation token is accepted"),
        CheckStep("trust", True, f"{link.peer} knows this cluster; its backends: {shown}"),
    ]


async def _check_admission(link: PeerLink, submitter: str) -> CheckStep:
    try:
        with anyio.fail_after(STEP_TIMEOUT_S):
            answer = await link.client.check_admission(submitter)
    except (TimeoutError, PeerUnreachable, PeerRefused):
        return CheckStep("admission", True, f"{link.peer} does not tell whom it admits (an Iris controller does not)")
    if answer.cluster != link.peer:
        detail = f"the controller there calls itself {answer.cluster!r}; name it so in `peers:`"
        return CheckStep("admission", False, detail)
    if not answer.admitted:
        return CheckStep("admission", False, f"{link.peer} does not take jobs of {submitter}: {answer.reason}")
    return CheckStep("admission", True, f"{link.peer} takes jobs of {submitter}")
