"""How people are written: an e-mail address or a bare user name, in ASCII, where case never matters."""

import re

MAX_PERSON_CHARS = 128
"""A whole address is one segment of a job id."""
_DOMAIN = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+"
_PERSON = re.compile(rf"[a-z0-9_][a-z0-9._+%'-]{{0,63}}(@{_DOMAIN})?")
_PATTERN = re.compile(rf"\*@{_DOMAIN}")
_WHOLE_DOMAIN = re.compile(_DOMAIN)


def lower_person(name: str) -> str | None:
    """The name in lower case; None = it names nobody."""
    # Before lower(), which makes ASCII of some letters that are not.
    if len(name) > MAX_PERSON_CHARS or not name.isascii():
        return None
    return name.lower() if _PERSON.fullmatch(name.lower()) else None


def check_people(pattern: str) -> str:
    """A person, or `*@domain`, in lower case. Raises ValueError."""
    everybody = pattern.lower() if pattern.isascii() and _PATTERN.fullmatch(pattern.lower()) else None
    found = everybody or lower_person(pattern)
    if found is None:
        raise ValueError(f"{pattern[:80]!r} names nobody: write alice@lab.org, *@lab.org or a bare user name")
    return found


def check_domain(domain: str) -> str:
    """In lower case. Raises ValueError."""
    if not domain.isascii() or not _WHOLE_DOMAIN.fullmatch(domain.lower()):
        raise ValueError(f"{domain[:80]!r} is no domain like lab.org")
    return domain.lower()
