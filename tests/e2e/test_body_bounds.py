"""Bodies that are too large for a real controller, and what they cost it."""

import gzip
import http.client
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.e2e.clusters import CALL_LIMIT_S, Cluster, end_all

METHOD = "/iris.cluster.ControllerService/LaunchJob"
MOST = 1024 * 1024 + 65_536
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    root: Path = tmp_path_factory.mktemp("bodies")
    limits = {"request_bytes": 65_536, "bundle_bytes": 1024 * 1024}
    cluster = Cluster.make(root, "lab", backends=[], limits=limits).start()
    yield cluster
    end_all(root, [cluster])


def known(lab: Cluster) -> dict[str, str]:
    return {**JSON, "authorization": f"Bearer {(lab.state_dir / 'admin.token').read_text().strip()}"}


def resident(lab: Cluster) -> int:
    assert lab.process is not None
    return int(psutil.Process(lab.process.pid).memory_info().rss)


def post(lab: Cluster, headers: dict[str, str], body: bytes | Iterator[bytes]) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", lab.port, timeout=CALL_LIMIT_S)
    try:
        connection.request("POST", METHOD, body, headers, encode_chunked=not isinstance(body, bytes))
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_without_a_credential_the_body_is_not_waited_for(lab: Cluster) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", lab.port, timeout=CALL_LIMIT_S)
    connection.putrequest("POST", METHOD)
    for name, value in {**JSON, "content-length": "60000000"}.items():
        connection.putheader(name, value)
    connection.endheaders()
    assert connection.getresponse().status == 401
    connection.close()


def test_a_body_that_unpacks_to_more_than_the_limit_is_refused_before_it_fills_the_memory(lab: Cluster) -> None:
    bomb = gzip.compress(b"0" * (200 * MOST))
    assert len(bomb) < MOST
    before = resident(lab)
    for _ in range(3):
        status, answer = post(lab, {**known(lab), "content-encoding": "gzip"}, bomb)
        assert (status, b"resource_exhausted" in answer) == (429, True)
    assert resident(lab) - before < 32 * MOST


def test_a_body_without_end_is_refused_at_the_limit(lab: Cluster) -> None:
    def pieces() -> Iterator[bytes]:
        for _ in range(400):
            yield b" " * (MOST // 2)

    before = resident(lab)
    try:
        status, answer = post(lab, {**known(lab), "transfer-encoding": "chunked"}, pieces())
        assert (status, b"resource_exhausted" in answer) == (429, True)
    except (BrokenPipeError, ConnectionResetError):
        # It closed the connection while we were still sending.
        pass
    assert resident(lab) - before < 32 * MOST
