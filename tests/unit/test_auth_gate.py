"""What of a request's headers reaches the question who asks."""

import pytest

from iris_fed.errors import Unauthenticated
from iris_fed.rpc.gate import joined
from tests.unit.test_authenticator import GATE, TOKEN, user_token


def test_header_names_are_told_apart_without_case() -> None:
    assert joined([("X-A", "1"), ("x-a", "2"), ("b", "3")]) == {"x-a": "1, 2", "b": "3"}


async def test_two_credentials_are_none_in_whichever_order_they_come() -> None:
    good, other = f"Bearer {TOKEN}", f"Bearer {user_token()}"
    assert (await GATE.authenticate(joined([("Authorization", good)]))).principal == "root"
    for first, second in ((good, other), (other, good), (good, good), (good, "")):
        with pytest.raises(Unauthenticated):
            await GATE.authenticate(joined([("authorization", first), ("Authorization", second)]))
