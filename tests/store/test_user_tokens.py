"""Rows of user tokens: what stands, what is revoked, what is gone."""

import sqlite3
from typing import Any

import pytest

from iris_fed.model.tokens import UserToken
from iris_fed.store.db import Database, Tx
from iris_fed.store.user_tokens import (
    count_tokens,
    insert_token,
    list_tokens,
    prune_tokens,
    remove_revoked,
    revoke_tokens,
    token_by_id,
)


def token(token_id: str, principal: str = "alice@lab.org", created_ms: int = 1_000, **changes: Any) -> UserToken:
    sound: dict[str, Any] = {"role": "user", "note": "ci", "created_by": "root", "expires_ms": created_ms + 1_000}
    return UserToken(token_id=token_id, principal=principal, created_ms=created_ms, **(sound | changes))


async def put(db: Database, *tokens: UserToken) -> None:
    def insert(tx: Tx) -> None:
        for one in tokens:
            insert_token(tx, one)

    await db.write(insert)


async def test_a_token_is_read_as_it_was_written(db: Database) -> None:
    await put(db, token("t1"))
    assert await db.read(lambda tx: token_by_id(tx, "t1")) == token("t1")
    assert await db.read(lambda tx: token_by_id(tx, "t2")) is None


async def test_a_listing_holds_what_has_not_expired_newest_first_and_no_more_than_asked_for(db: Database) -> None:
    await put(db, token("t1"), token("t2", created_ms=2_000), token("t3", "bob@lab.org", 3_000))
    everybody = await db.read(lambda tx: list_tokens(tx, "", 0, 10))
    assert [one.token_id for one in everybody] == ["t3", "t2", "t1"]
    assert [one.token_id for one in await db.read(lambda tx: list_tokens(tx, "", 2_000, 10))] == ["t3", "t2"]
    assert [one.token_id for one in await db.read(lambda tx: list_tokens(tx, "alice@lab.org", 0, 1))] == ["t2"]


async def test_what_is_revoked_stays_so_as_it_was_first_said(db: Database) -> None:
    await put(db, token("t1"), token("t2"))
    await db.write(lambda tx: revoke_tokens(tx, ["t1"], "root", 1_500))
    await db.write(lambda tx: revoke_tokens(tx, ["t1", "t2"], "eve", 1_600))
    found = await db.read(lambda tx: list_tokens(tx, "", 0, 10))
    assert [(one.revoked_ms, one.revoked_by) for one in found] == [(1_500, "root"), (1_600, "eve")]
    await db.write(lambda tx: remove_revoked(tx, "alice@lab.org"))
    assert await db.read(count_tokens) == 0


async def test_rows_go_once_their_token_has_expired(db: Database) -> None:
    await put(db, token("t1"), token("t2", created_ms=2_000))
    await db.write(lambda tx: prune_tokens(tx, 2_000))
    assert await db.read(count_tokens) == 2
    await db.write(lambda tx: prune_tokens(tx, 2_001))
    assert [one.token_id for one in await db.read(lambda tx: list_tokens(tx, "", 0, 10))] == ["t2"]


@pytest.mark.parametrize(
    "bad", [{"role": "job"}, {"role": "federation-peer"}, {"expires_ms": 1_000}, {"principal": ""}, {"token_id": ""}]
)
async def test_rows_that_cannot_be_are_refused(db: Database, bad: dict[str, Any]) -> None:
    sound: dict[str, Any] = {"token_id": "t1", "principal": "alice", "created_ms": 1_000}
    with pytest.raises(sqlite3.IntegrityError):
        await put(db, token(**(sound | bad)))
