"""What stands in front of a controller behind IAP: Google's signature, and the server that publishes its keys."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

AUDIENCE = "/projects/7/global/backendServices/8"
ISSUER = "https://cloud.google.com/iap"


class Google:
    """Signs as IAP does, with a key at a time. `now_s` None = the real time."""

    def __init__(self, now_s: float | None = None) -> None:
        self._now_s = now_s
        self.keys: dict[str, ec.EllipticCurvePrivateKey] = {}
        self.key_id = ""
        self.rotate("key-1")

    def rotate(self, key_id: str, *, drop: str = "") -> None:
        """Sign with a fresh key from now on; the one named by `drop` is published no more."""
        self.keys[key_id] = ec.generate_private_key(ec.SECP256R1())
        self.key_id = key_id
        self.keys.pop(drop, None)

    def claims(self, email: str = "alice@lab.org", **changes: Any) -> dict[str, Any]:
        """Those of an assertion; None as a change leaves a claim out."""
        now_s = int(time.time() if self._now_s is None else self._now_s)
        sound = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": f"accounts.google.com:{email}",
            "email": email,
            "iat": now_s,
            "exp": now_s + 600,
        }
        return {name: value for name, value in (sound | changes).items() if value is not None}

    def assertion(self, email: str = "alice@lab.org", **changes: Any) -> str:
        headers = {"kid": self.key_id}
        return jwt.encode(self.claims(email, **changes), self.keys[self.key_id], algorithm="ES256", headers=headers)

    def jwks(self) -> bytes:
        entries = []
        for key_id, key in self.keys.items():
            entry = jwt.algorithms.ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
            entries.append(entry | {"kid": key_id, "alg": "ES256", "use": "sig"})
        return json.dumps({"keys": entries}).encode()


class KeyServer:
    """Publishes what `google` has, over HTTP on loopback. `status` is what it answers with; `body` replaces the
    keys."""

    def __init__(self, google: Google) -> None:
        self.google = google
        self.status = 200
        self.body: bytes | None = None
        self.asked = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/keys"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.asked += 1
                body = server.google.jwks() if server.body is None else server.body
                self.send_response(server.status)
                self.send_header("content-length", str(len(body)))
                if server.status in (301, 302):
                    self.send_header("location", server.url)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Nothing."""

        return Handler
