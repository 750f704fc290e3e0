import pytest
from connectrpc.code import Code
from connectrpc.errors import ConnectError

from iris_fed import errors
from iris_fed.client.failures import passes, translate
from iris_fed.rpc.foreign import ForeignAnswer

URL = "http://127.0.0.1:1"


def _failed(code: Code, message: str, cause: Exception | None = None) -> ConnectError:
    error = ConnectError(code, message)
    error.__cause__ = cause
    return error


@pytest.mark.parametrize("code", list(errors.Code))
def test_a_controllers_refusal_keeps_its_code_and_its_words(code: errors.Code) -> None:
    translated = translate(_failed(Code(code.value), "its own words"), URL)
    assert translated.code is code
    if code is not errors.Code.DEADLINE_EXCEEDED:
        assert translated.message == "its own words"


def test_a_controller_that_breaks_is_unavailable_not_a_traceback() -> None:
    translated = translate(_failed(Code.INTERNAL, "internal error"), URL)
    assert isinstance(translated, errors.Unavailable)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("error sending request: client error (Connect): tcp connect error: Connection refused", "is it running"),
        ("client error (Connect): dns error: error resolving DNS", "host name"),
        ("client error (Connect): received corrupt message of type InvalidContentType", "TLS"),
        ("layer: layer: something new", "something new"),
    ],
)
def test_an_unreachable_controller_is_named_with_a_short_reason(message: str, reason: str) -> None:
    translated = translate(_failed(Code.UNAVAILABLE, message, ConnectionError()), URL)
    assert URL in translated.message
    assert reason in translated.message


def test_a_proxys_403_is_no_refusal_of_the_controller() -> None:
    error = _failed(Code.UNAVAILABLE, "HTTP 403 with text/html", ForeignAnswer(403, "text/html", "go away"))
    assert isinstance(translate(error, URL), errors.Unavailable)
    assert "something in front of the controller refused: HTTP 403: go away" in translate(error, URL).message
    assert not passes(error)


def test_a_controller_that_does_not_know_a_call_is_told_from_one_that_is_away() -> None:
    error = _failed(Code.UNAVAILABLE, "HTTP 404", ForeignAnswer(404, ""))
    assert isinstance(translate(error, URL), errors.Unimplemented)


def test_only_what_may_go_better_is_asked_again() -> None:
    assert passes(_failed(Code.UNAVAILABLE, "shutting down"))
    assert passes(_failed(Code.CANCELED, "Request was cancelled"))
    assert passes(_failed(Code.INTERNAL, "protocol error: unexpected EOF"))
    assert not passes(_failed(Code.INTERNAL, "internal error"))
    assert not passes(_failed(Code.NOT_FOUND, "no such job"))
