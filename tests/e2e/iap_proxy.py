"""Google IAP on loopback: whoever shows a token that it knows is passed on with Google's signature of who that is."""

from tests.e2e.edge_proxy import EdgeProxy
from tests.google import Google


class IapProxy(EdgeProxy):
    """In front of the controller at `upstream`, meant by `audience`. `people`: e-mail address by edge token."""

    def __init__(self, upstream: str, google: Google, audience: str, people: dict[str, str]) -> None:
        super().__init__(upstream, *people)
        self._google = google
        self._audience = audience
        self._people = people

    def adds(self, token: str) -> bytes:
        email = self._people[token]
        assertion = self._google.assertion(email, aud=self._audience)
        shown = {
            "x-goog-iap-jwt-assertion": assertion,
            "x-goog-authenticated-user-email": f"accounts.google.com:{email}",
            "x-forwarded-for": "203.0.113.7",
            "via": "1.1 google",
        }
        return b"".join(f"{name}: {value}\r\n".encode() for name, value in shown.items())
