"""Published keys: fetched when needed, at a bounded rate, and kept while their publisher is away; under the
clock that jumps (JumpingLoop)."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import given
from hypothesis import strategies as st

from iris_fed.auth.jwks import KeysUnavailable, KeyTimes, PublishedKeys, read_jwks
from iris_fed.errors import Unauthenticated, Unavailable
from iris_fed.supervise import Loops
from tests.google import Google
from tests.unit.test_supervise import run

TIMES = KeyTimes()


class Publisher:
    """Answers at once, not at all (`slow`), or with a failure (`down`)."""

    def __init__(self) -> None:
        self.google = Google()
        self.down = False
        self.slow = False
        self.at: list[float] = []

    async def __call__(self) -> bytes:
        self.at.append(anyio.current_time())
        if self.slow:
            await anyio.sleep_forever()
        if self.down:
            raise KeysUnavailable("down")
        return self.google.jwks()


def with_keys(test: Callable[[Publisher, PublishedKeys], Awaitable[None]]) -> None:
    """Under a clock that jumps, beside the loop that fetches."""

    async def main() -> None:
        publisher = Publisher()
        keys = PublishedKeys(publisher)
        async with anyio.create_task_group() as group:
            group.start_soon(Loops().supervise, "keys", keys.run)
            await test(publisher, keys)
            group.cancel_scope.cancel()

    run(main())


async def refused(keys: PublishedKeys, key_id: str) -> None:
    with pytest.raises(Unauthenticated, match="does not publish"):
        await keys.key(key_id)


def test_the_first_who_asks_waits_for_the_first_fetch_and_no_further_fetch_is_needed() -> None:
    async def test(publisher: Publisher, keys: PublishedKeys) -> None:
        expected = publisher.google.keys["key-1"].public_key().public_numbers()
        for _ in range(3):
            assert (await keys.key("key-1")).public_numbers() == expected
        assert len(publisher.at) == 1

    with_keys(test)


def test_a_key_that_appears_is_fetched_for_the_first_token_that_names_it() -> None:
    async def test(publisher: Publisher, keys: PublishedKeys) -> None:
        await keys.key("key-1")
        await anyio.sleep(TIMES.cooldown_s)
        publisher.google.rotate("key-2", drop="key-1")
        asked_s = anyio.current_time()
        await keys.key("key-2")
        assert anyio.current_time() == asked_s
        assert not keys.knows("key-1")

    with_keys(test)


def test_unknown_keys_cause_one_fetch_in_ten_seconds_however_many_ask() -> None:
    async def test(publisher: Publisher, keys: PublishedKeys) -> None:
        await keys.key("key-1")
        for _ in range(300):
            async with anyio.create_task_group() as group:
                for number in range(5):
                    group.start_soon(refused, keys, f"unknown-{number}")
            await anyio.sleep(0.1)
        pauses = [later - earlier for earlier, later in zip(publisher.at, publisher.at[1:], strict=False)]
        assert 3 <= len(publisher.at) <= 4
        assert min(pauses) >= TIMES.cooldown_s

    with_keys(test)


def test_keys_are_fetched_anew_without_being_asked() -> None:
    async def test(publisher: Publisher, keys: PublishedKeys) -> None:
        await anyio.sleep(TIMES.refresh_s * 2.5)
        assert publisher.at == [0.0, TIMES.refresh_s, 2 * TIMES.refresh_s]

    with_keys(test)


def test_known_keys_go_on_counting_for_a_day_while_the_publisher_is_away_and_come_back_with_it() -> None:
    async def test(publisher: Publisher, keys: PublishedKeys) -> None:
        await keys.key("key-1")
        publisher.down = True
        await anyio.sleep(TIMES.stale_s - 1)
        await keys.key("key-1")
        await refused(keys, "key-2")
        await anyio.sleep(2)
        with pytest.raises(Unavailable, match="cannot be fetched"):
            await keys.key("key-1")
        publisher.down = False
        await anyio.sleep(TIMES.cooldown_s)
        await keys.key("key-1")

    with_keys(test)


def test_a_publisher_that_hangs_holds_nobody_up_for_long_and_is_asked_again() -> None:
    async def test(publisher: Publisher, keys: PublishedKeys) -> None:
        publisher.slow = True
        with pytest.raises(Unavailable):
            await keys.key("key-1")
        assert anyio.current_time() <= TIMES.wait_s
        publisher.slow = False
        await anyio.sleep(TIMES.cooldown_s)
        await keys.key("key-1")

    with_keys(test)


def test_a_caller_who_gives_up_waiting_spoils_it_for_nobody_else() -> None:
    async def test(publisher: Publisher, keys: PublishedKeys) -> None:
        publisher.slow = True
        with anyio.move_on_after(1.0) as gave_up:
            await keys.key("key-1")
        assert gave_up.cancelled_caught
        assert publisher.at == [0.0]
        with pytest.raises(Unavailable):
            await keys.key("key-1")
        assert publisher.at == [0.0]

    with_keys(test)


# --- What is published ---


def entry(key: Any = None, **changes: Any) -> dict[str, Any]:
    public = (key or ec.generate_private_key(ec.SECP256R1())).public_key()
    if isinstance(public, rsa.RSAPublicKey):
        found = jwt.algorithms.RSAAlgorithm.to_jwk(public, as_dict=True)
    else:
        found = jwt.algorithms.ECAlgorithm.to_jwk(public, as_dict=True)
    found |= {"kid": "k", **changes}
    return {name: value for name, value in found.items() if value is not None}


@pytest.mark.parametrize(
    "bad",
    [
        entry(ec.generate_private_key(ec.SECP384R1())),
        entry(rsa.generate_private_key(65537, 2048)),
        entry(kid=None),
        entry(kid=""),
        entry(kid=7),
        entry(kid="k" * 300),
        entry(crv="P-384"),
        entry(x=None),
        entry(x="AAAA"),
        entry(x=entry()["x"]),
        entry(x=7),
        {"kty": "oct", "k": "AAAA", "kid": "k"},
        "key",
        None,
        7,
    ],
)
def test_what_is_no_p256_key_with_a_name_is_passed_over(bad: object) -> None:
    assert set(read_jwks(json.dumps({"keys": [bad, entry(kid="good")]}).encode())) == {"good"}
    with pytest.raises(KeysUnavailable, match="holds no P-256 key"):
        read_jwks(json.dumps({"keys": [bad]}).encode())


@pytest.mark.parametrize(
    "body",
    [b"", b"\xff", b"<html>", b"[]", b"7", b"{}", b'{"keys": 7}', b'{"keys": {}}', b'{"keys": null}', b"[" * 100_000],
)
def test_what_is_no_jwk_set_is_refused(body: bytes) -> None:
    with pytest.raises(KeysUnavailable):
        read_jwks(body)


@given(st.binary(max_size=300))
def test_no_answer_breaks_the_reader(body: bytes) -> None:
    with pytest.raises(KeysUnavailable):
        read_jwks(body)
