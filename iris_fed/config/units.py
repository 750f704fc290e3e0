"""Sizes and CPU shares as people write them."""

import re
from decimal import Decimal

_NUMBER = r"([0-9]{1,18}(?:\.[0-9]{1,9})?)"
_SIZE = re.compile(_NUMBER + r"\s*([KMGTP]?i?B?)", re.IGNORECASE)
_CPU = re.compile(_NUMBER + r"(m?)")
_EXPONENT = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}


def parse_bytes(text: str | int) -> int:
    """A size in bytes from `16GB` (10^9), `16GiB` or `16Gi` (2^30), or a plain number of bytes.

    Raises ValueError with a sentence for anything else.
    """
    match = _SIZE.fullmatch(str(text).strip())
    unit = match.group(2).upper().removesuffix("B") if match else "?"
    base = 1024 if unit.endswith("I") else 1000
    exponent = _EXPONENT.get(unit.removesuffix("I"))
    if match is None or isinstance(text, bool) or exponent is None or unit == "I":
        raise ValueError(f"{str(text)[:40]!r} is no size: write 512MB, 16GB or 16GiB")
    return int(Decimal(match.group(1)) * base**exponent)


def parse_millicores(text: str | int | float) -> int:
    """Thousandths of a core from `4` or `0.5` (cores) or `500m`.

    Raises ValueError with a sentence for anything else.
    """
    match = _CPU.fullmatch(str(text).strip())
    if match is None or isinstance(text, bool):
        raise ValueError(f"{str(text)[:40]!r} is no number of cores: write 4, 0.5 or 500m")
    amount = Decimal(match.group(1))
    return int(amount if match.group(2) else amount * 1000)
