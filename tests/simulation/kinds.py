"""What a seed holds more than the usual: by its last digit, so that a kind can be run alone
(`python -m tests.simulation $(seq 2 10 992)`) and a seed saved before a kind existed runs as it did."""

from dataclasses import dataclass

PLAIN = frozenset({2, 5})
FORGETS = frozenset({3, 5, 7})
READS = frozenset({2, 3, 8, 9})


@dataclass(frozen=True, slots=True)
class Kinds:
    """`plain`: one parent and one of its peers speak without our extensions. `forgets`: operators give peers up.
    `reads`: people read output and stories."""

    plain: bool
    forgets: bool
    reads: bool


def kinds_of(seed: int) -> Kinds:
    digit = seed % 10
    return Kinds(plain=digit in PLAIN, forgets=digit in FORGETS, reads=digit in READS)
