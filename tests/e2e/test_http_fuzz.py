"""Anything at all sent to a real controller: it answers or closes, says nothing of its insides, and lives on."""

import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from iris_fed.auth.policy import POLICY
from tests.e2e.clusters import Cluster, end_all

LIMIT_S = 20.0
"""An answer that takes longer is taken for a hang."""
FEW = settings(
    max_examples=120,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
ASCII = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=40).map(str.encode)
LATIN = st.text(st.characters(codec="latin-1", exclude_characters="\r\n\0"), max_size=40).map(
    lambda text: text.encode("latin-1")
)
TEXT = st.one_of(ASCII, ASCII, ASCII, LATIN)
PATHS = st.one_of(
    st.sampled_from([f"/{method}".encode() for method in sorted(POLICY) if not method.endswith("FederationSync")]),
    st.sampled_from(
        [b"/", b"/healthz", b"/readyz", b"*", b"//", b"/%00", b"/%ff%fe", b"/..;/x", b"http://localhost/healthz"]
    ),
    TEXT.map(lambda text: b"/" + text.replace(b" ", b"")),
)
HEADERS = st.one_of(
    st.tuples(
        st.sampled_from(
            [
                *(
                    b"content-type",
                    b"content-encoding",
                    b"accept-encoding",
                    b"connect-timeout-ms",
                    b"accept",
                    b"origin",
                ),
                *(b"connect-protocol-version", b"sec-fetch-site", b"x-forwarded-for", b"authorization", b"cookie"),
                *(b"x-goog-iap-jwt-assertion", b"grpc-timeout", b"expect", b"upgrade", b"te", b"range", b"host"),
            ]
        ),
        st.one_of(
            TEXT,
            st.sampled_from(
                [
                    *(
                        b"application/json",
                        b"application/proto",
                        b"application/connect+json",
                        b"application/grpc+proto",
                    ),
                    *(b"gzip", b"zstd", b"br", b"identity", b"100-continue", b"websocket", b"h2c", b"-1", b"9" * 30),
                    *(b"Bearer e30.e30.e30", b"Bearer", b"http://evil.example", b"cross-site", b"1S", b"null"),
                ]
            ),
        ),
    ),
    st.tuples(TEXT.filter(lambda text: text.isalnum()), TEXT),
)
BODIES = st.one_of(
    st.binary(max_size=200),
    st.sampled_from(
        [b"{}", b"[]", b"null", b'{"jobId":"/a/b"}', b'{"jobId":' + b"[" * 5000, b'{"name":"\\ud800"}', b"{" * 9]
    ),
    st.binary(max_size=60).map(lambda data: b"\x00" + len(data).to_bytes(4, "big") + data),
    st.sampled_from([b"\x1f\x8b" + b"\0" * 30, b"\x01\xff\xff\xff\xff", b"\x02\0\0\0\0"]),
)
QUERIES = st.one_of(
    st.just(b""), TEXT.map(lambda t: b"?" + t.replace(b" ", b"")), st.just(b"?encoding=json&message=%ff&base64=1")
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    root: Path = tmp_path_factory.mktemp("fuzz")
    cluster = Cluster.make(root, "lab", backends=[]).start()
    yield cluster
    log = cluster.log
    end_all(root, [cluster])
    assert "Traceback" not in log
    assert "rpc.failed" not in log
    assert (cluster.state_dir / "admin.token").read_text().strip() not in log
    assert all(line.isprintable() for line in log.replace("\t", " ").splitlines())


def answer_to(lab: Cluster, content: bytes, *, is_whole: bool = False) -> bytes:
    """All that comes back until the connection is closed. What is not whole, nobody waits for the rest of."""
    received = b""
    with socket.create_connection(("127.0.0.1", lab.port), LIMIT_S) as connection:
        try:
            connection.sendall(content)
            if not is_whole:
                connection.shutdown(socket.SHUT_WR)
            while chunk := connection.recv(65_536):
                received += chunk
        except (ConnectionResetError, BrokenPipeError):
            pass
    return received


def check(lab: Cluster, received: bytes) -> None:
    assert b"Traceback" not in received
    assert not received.startswith(b"HTTP/1.1 500"), received
    assert b"internal error" not in received
    with urllib.request.urlopen(f"{lab.url}/healthz", timeout=LIMIT_S) as answer:
        assert answer.status == 200


@FEW
@given(content=st.binary(max_size=400))
@example(content=b"GET / HTTP/9.9\r\n\r\n")
@example(content=b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /")
@example(content=b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
@example(content=b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 300)
def test_bytes_that_are_no_request_do_no_harm(lab: Cluster, content: bytes) -> None:
    check(lab, answer_to(lab, content))


@FEW
@given(
    method=st.sampled_from([b"POST", b"GET", b"OPTIONS", b"HEAD", b"PUT", b"CONNECT", b"TRACE"]),
    path=PATHS,
    query=QUERIES,
    headers=st.lists(HEADERS, max_size=5),
    body=BODIES,
    known=st.booleans(),
)
def test_requests_of_any_kind_are_answered_or_refused_in_words(
    lab: Cluster,
    method: bytes,
    path: bytes,
    query: bytes,
    headers: list[tuple[bytes, bytes]],
    body: bytes,
    known: bool,
) -> None:
    names = {name.lower() for name, _ in headers}
    lines = [b"connection: close", b"content-length: %d" % len(body)]
    lines += [b"host: localhost"] if b"host" not in names else []
    lines += [b"content-type: application/json"] if b"content-type" not in names else []
    if known and b"authorization" not in names:
        lines.append(b"authorization: Bearer " + (lab.state_dir / "admin.token").read_bytes().strip())
    lines += [name + b": " + value for name, value in headers]
    head = b"\r\n".join([method + b" " + path + query + b" HTTP/1.1", *lines])
    check(lab, answer_to(lab, head + b"\r\n\r\n" + body, is_whole=True))
