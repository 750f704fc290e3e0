"""What Slurm's commands print, as values. Pure.

Columns of a fixed width are asked for: they are the one form that all versions from 20.11 on print alike.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

Columns = tuple[tuple[str, int], ...]

QUEUE_COLUMNS: Columns = (
    ("JobID", 24),
    ("Name", 72),
    ("State", 24),
    ("tres-alloc", 160),
    ("Comment", 200),
    ("NodeList", 160),
    ("Reason", 200),
)
NODE_COLUMNS: Columns = (
    ("NodeList", 72),
    ("StateLong", 32),
    ("CPUsState", 40),
    ("Memory", 24),
    ("AllocMem", 24),
    ("Gres", 200),
    ("GresUsed", 200),
    ("Features", 400),
)
_UNUSABLE = ("down", "drain", "fail", "maint", "reserved", "unknown", "future", "inval", "reboot", "perfctrs", "block")
_NOT_ANSWERING = "*"
_BYTES = {"": 2**20, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}
_COMMENT = re.compile(r"iris-fed cluster=(\S+) database=(\S+)")
_STATE = re.compile(r"[A-Z][A-Z_]+\b")
_GPU = re.compile(r"(?:gres[:/])?gpu(?::([A-Za-z][\w.-]*))?:(\d+)")


class Garbled(Exception):
    """A command printed what none of its versions does."""


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """One of our jobs. `name` is the uid of its (first) attempt; CPUs and memory are what it holds now."""

    job_id: str
    name: str
    state: str
    reason: str = ""
    cluster: str = ""
    database_id: str = ""
    nodes: tuple[str, ...] = ()
    cpus: int = 0
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class SlurmNode:
    """One machine; GPUs by Slurm's type, '' = untyped. `usable`: it may run jobs now or when it is free."""

    name: str
    usable: bool
    cpus: int
    memory_bytes: int
    gpus: Mapping[str, int] = field(default_factory=dict)
    used_cpus: int = 0
    used_memory_bytes: int = 0
    used_gpus: Mapping[str, int] = field(default_factory=dict)
    features: tuple[str, ...] = ()


def format_of(columns: Columns) -> str:
    """The argument of `--Format`."""
    return ",".join(f"{name}:{width}" for name, width in columns)


def comment_of(cluster: str, database_id: str) -> str:
    """The tag of our jobs."""
    return f"iris-fed cluster={cluster} database={database_id}"


def parse_queue(text: str, names: Collection[str] = ()) -> Iterator[SlurmJob]:
    """Those with our tag, and those of `names`: a site may write comments of its own. Raises Garbled: what is no
    list of jobs does not say that there are none."""
    for line in text.split("\n"):
        if not line:
            continue
        row = _cut(line, QUEUE_COLUMNS)
        if not row["JobID"][:1].isdecimal() or not _STATE.match(row["State"]):
            raise Garbled(f"squeue printed {line.strip()[:80]!r}")
        tag = _COMMENT.match(row["Comment"])
        if tag is None and row["Name"] not in names:
            continue
        held = dict(part.partition("=")[::2] for part in row["tres-alloc"].split(",") if "=" in part)
        yield SlurmJob(
            job_id=row["JobID"],
            name=row["Name"],
            state=row["State"].split()[0].rstrip("+"),
            reason=row["Reason"],
            cluster="" if tag is None else tag[1],
            database_id="" if tag is None else tag[2],
            nodes=expand_nodes(row["NodeList"]),
            cpus=int(held["cpu"]) if held.get("cpu", "").isdecimal() else 0,
            memory_bytes=parse_size(held.get("mem", "0")),
        )


def parse_nodes(text: str) -> tuple[SlurmNode, ...]:
    """Each machine once, though every partition lists it. Raises Garbled."""
    found: dict[str, SlurmNode] = {}
    for line in text.splitlines():
        if line.strip():
            row = _cut(line, NODE_COLUMNS)
            try:
                node = _node(row)
            except (ValueError, IndexError):
                raise Garbled(f"sinfo printed {line[:120]!r}") from None
            found[node.name] = node
    return tuple(found.values())


def parse_accounting(text: str) -> Mapping[str, str]:
    """`sacct -X -n -P -o JobName,State`: the last state of each name. Raises Garbled."""
    states: dict[str, str] = {}
    for line in text.splitlines():
        if not line.strip():
            continue
        name, bar, state = line.partition("|")
        if not bar or not state.strip():
            raise Garbled(f"sacct printed {line[:120]!r}")
        states[name] = state.split()[0].rstrip("+")
    return states


def parse_job_id(text: str) -> str:
    """`sbatch --parsable`: the id, perhaps with the cluster's name. Raises Garbled."""
    found = re.fullmatch(r"(\d+)(;[\w.-]+)?", (text.strip().splitlines() or [""])[-1])
    if found is None:
        raise Garbled(f"sbatch printed {text.strip()[:120]!r}")
    return found[1]


def parse_gpus(gres: str) -> dict[str, int]:
    """`gpu:h100:8(S:0-1),gpu:a100:2(IDX:0,1)` counts by type; what is no GPU is passed over."""
    counts: dict[str, int] = {}
    for part in re.sub(r"\([^)]*\)", "", gres).split(","):
        found = _GPU.fullmatch(part.strip())
        if found is not None and int(found[2]):
            counts[found[1] or ""] = counts.get(found[1] or "", 0) + int(found[2])
    return counts


def parse_size(text: str) -> int:
    """`2G`, `2048M`, `1.5T`; megabytes without a unit. In bytes, 0 for what is no size."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGTP]?)[nc]?", text.strip())
    return 0 if found is None else int(float(found[1]) * _BYTES[found[2]])


def expand_nodes(text: str) -> tuple[str, ...]:
    """`n[1-3,07],gpu1` names each machine; what was cut off at a column's end is left out."""
    names: list[str] = []
    for part in _split_outside(text.strip()):
        found = re.fullmatch(r"([^\[\]]*)\[([\d,-]+)\]([^\[\]]*)", part)
        if found is None:
            if part and "[" not in part:
                names.append(part)
            continue
        for span in found[2].split(","):
            first, _, last = span.partition("-")
            if first.isdecimal() and (not last or last.isdecimal()):
                for number in range(int(first), int(last or first) + 1):
                    names.append(f"{found[1]}{number:0{len(first)}d}{found[3]}")
    return tuple(name for name in names if name not in ("(null)", "n/a", "None"))


def _node(row: Mapping[str, str]) -> SlurmNode:
    used, _, _, total = (int(count) for count in row["CPUsState"].split("/"))
    state = row["StateLong"].lower()
    features = () if row["Features"] == "(null)" else tuple(row["Features"].split(","))
    if not row["NodeList"] or not state:
        raise ValueError
    return SlurmNode(
        name=row["NodeList"],
        usable=_NOT_ANSWERING not in state and not any(word in state for word in _UNUSABLE),
        cpus=total,
        memory_bytes=int(row["Memory"]) * 2**20,
        gpus=parse_gpus(row["Gres"]),
        used_cpus=used,
        used_memory_bytes=int(row["AllocMem"]) * 2**20,
        used_gpus=parse_gpus(row["GresUsed"]),
        features=features,
    )


def _cut(line: str, columns: Columns) -> dict[str, str]:
    row, at = {}, 0
    for name, width in columns:
        row[name] = line[at : at + width].strip()
        at += width
    return row


def _split_outside(text: str) -> Iterable[str]:
    """At commas that stand outside of brackets."""
    return re.findall(r"(?:[^,\[\]]|\[[^\]]*\]?)+", text)
