"""Logs: one line an event, with its ids, and nothing that a terminal would obey."""

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from iris_fed.telemetry import MAX_VALUE_CHARS, bound, configure_logging, get_logger


@pytest.fixture
def out() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    stream = io.StringIO()
    yield stream
    root.handlers[:], root.level = before, level
    structlog.reset_defaults()


def lines(out: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_a_line_carries_its_level_time_and_the_ids_of_its_surroundings(out: io.StringIO) -> None:
    configure_logging("info", "json", out)
    with bound(peer="gpu-lab", job="/a/b"):
        get_logger("link").info("peer.lost", seconds=3)
    get_logger("link").info("after")
    first, second = lines(out)
    assert (first["event"], first["level"], first["module"], first["seconds"]) == ("peer.lost", "info", "link", 3)
    assert (first["peer"], first["job"], "timestamp" in first) == ("gpu-lab", "/a/b", True)
    assert "peer" not in second


def test_what_is_below_the_level_is_not_written(out: io.StringIO) -> None:
    configure_logging("warning", "json", out)
    get_logger("x").info("quiet")
    get_logger("x").warning("loud")
    assert [line["event"] for line in lines(out)] == ["loud"]


@pytest.mark.parametrize("style", ["json", "console"])
def test_terminal_controls_in_a_value_are_dropped(out: io.StringIO, style: str) -> None:
    configure_logging("info", style, out)
    get_logger("x").info("told", error="a\x1b[31mred\x07\x9b31m\nnext\rline")
    written = out.getvalue()
    assert not set(written.replace("\n", "")) & {chr(code) for code in (*range(0x20), *range(0x7F, 0xA0))}
    assert written.count("\n") == 1
    assert "a[31mred31m" in written


def test_a_very_long_value_is_cut(out: io.StringIO) -> None:
    configure_logging("info", "json", out)
    get_logger("x").info("told", error="e" * 10**6)
    assert lines(out)[0]["error"] == "e" * MAX_VALUE_CHARS


def test_a_traceback_is_kept_with_its_event(out: io.StringIO) -> None:
    configure_logging("info", "json", out)
    try:
        raise RuntimeError("boom")
    except RuntimeError:
        get_logger("x").exception("loop.crashed")
    line = lines(out)[0]
    assert line["event"] == "loop.crashed"
    assert "RuntimeError: boom" in str(line["exception"])


def test_what_a_library_warns_of_comes_out_the_same_way(out: io.StringIO) -> None:
    configure_logging("info", "json", out)
    logging.getLogger("uvicorn").warning("odd %s", "request")
    logging.getLogger("uvicorn").info("routine")
    assert [(line["event"], line["level"]) for line in lines(out)] == [("odd request", "warning")]


def test_no_token_and_no_turn_of_direction_gets_into_a_line(out: io.StringIO) -> None:
    configure_logging("info", "json", out)
    token = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.c2ln"
    try:
        raise ValueError(f"refused Bearer s3cret and {token}")
    except ValueError as error:
        get_logger("web").error("x", value=f"authorization: bearer s3cret, {token}\u202e\u2028", exc_info=error)
    (line,) = lines(out)
    assert line["value"] == "authorization: bearer <token>, <token>"
    assert "refused Bearer <token> and <token>" in str(line["exception"])
    assert "s3cret" not in out.getvalue()
