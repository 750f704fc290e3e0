"""From the words of the command line to values, and from a job's end to an exit code. All pure.

Everything here raises UsageError with one sentence for the person who typed.
"""

import math
import re
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from iris_fed.model.constraints import Constraint, Op, Scalar

MAX_INT32 = 2**31 - 1
MAX_INT64 = 2**63 - 1
MAX_DURATION_MS = 366 * 24 * 3600 * 1000
MAX_NAME_CHARS = 40

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgtp]?)(i?)b?", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_DURATION_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_CPU = re.compile(r"(\d+(?:\.\d+)?)(m?)")
# A count behind `x` has at most two digits, so that gtx1080 and rtx4090 are variants.
_GPU = re.compile(r"(?P<variant>[a-z][a-z0-9._-]*?)(?:x(?P<times>\d{1,2})|:(?P<count>\d+))?")
ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEY = r"(?P<key>[A-Za-z0-9][A-Za-z0-9._/-]*)"
_COMPARISON = re.compile(_KEY + r"\s*(?P<op>==|!=|>=|<=|=|>|<)\s*(?P<value>\S.*)")
_MEMBERSHIP = re.compile(_KEY + r"\s+in\s+\(?(?P<values>[^()]+?)\)?")
_EXISTENCE = re.compile(_KEY + r"\s+(?P<negated>not\s+)?exists")
_OPS = {"=": Op.EQ, "==": Op.EQ, "!=": Op.NE, ">": Op.GT, ">=": Op.GE, "<": Op.LT, "<=": Op.LE}
_ORDERINGS = frozenset({Op.GT, Op.GE, Op.LT, Op.LE})
_INTERPRETER = re.compile(
    r"(python[\d.]*|bash|sh|zsh|dash|perl|ruby|node|julia|rscript|torchrun|uv|srun|env|nice|time)"
)
_SCRIPT = re.compile(r"[^\s]+\.(py|sh|bash|pl|rb|js|jl|R)")


class UsageError(ValueError):
    """The command line itself is wrong."""


def parse_gpu(text: str) -> tuple[str, int]:
    """`H100x8`, `H100` or `h100:8` as (variant in lower case, chips); `8` alone is any variant.

    Raises UsageError.
    """
    lowered = text.strip().lower()
    if lowered.isdecimal():
        variant, count = "", int(lowered)
    else:
        match = _GPU.fullmatch(lowered)
        if match is None:
            raise UsageError(f"--gpu {text!r}: write a variant and a count, like H100x8 or h100:8")
        variant, count = match["variant"], int(match["times"] or match["count"] or 1)
    if not 1 <= count <= MAX_INT32:
        raise UsageError(f"--gpu {text!r}: the count must be at least 1")
    return variant, count


def parse_cpu(text: str) -> int:
    """`2`, `0.5` or `500m` as thousandths of a core."""
    match = _CPU.fullmatch(text.strip().lower())
    if match is None:
        raise UsageError(f"--cpu {text!r}: write cores, like 2 or 0.5, or 500m")
    millicores = round(float(match[1]) * (1 if match[2] else 1000))
    if not 1 <= millicores <= MAX_INT32:
        raise UsageError(f"--cpu {text!r} is out of range")
    return millicores


def parse_size(text: str, option: str) -> int:
    """`8GB` (powers of 1000), `8GiB` or `8Gi` (powers of 1024), or plain bytes."""
    match = _SIZE.fullmatch(text.strip())
    if match is None or (match[3] and not match[2]):
        raise UsageError(f"{option} {text!r}: write a size, like 8GB, 512MiB or a number of bytes")
    unit: int = (1024 if match[3] else 1000) ** _POWERS[match[2].lower()]
    size = round(float(match[1]) * unit)
    if not 1 <= size <= MAX_INT64:
        raise UsageError(f"{option} {text!r} is out of range")
    return size


def parse_duration(text: str, option: str) -> int:
    """`90s`, `2h`, `1h30m`, `1d`, or plain seconds, as milliseconds."""
    stripped = text.strip().lower()
    if _NUMBER.fullmatch(stripped):
        stripped += "s"
    parts = _DURATION.findall(stripped)
    if not parts or "".join(number + unit for number, unit in parts) != stripped:
        raise UsageError(f"{option} {text!r}: write a duration, like 90s, 15m, 2h or 1h30m")
    milliseconds = round(sum(float(number) * _DURATION_MS[unit] for number, unit in parts))
    if not 1 <= milliseconds <= MAX_DURATION_MS:
        raise UsageError(f"{option} {text!r}: a duration is at least 1ms and at most a year")
    return milliseconds


def parse_env(pairs: Iterable[str], inherited: dict[str, str]) -> dict[str, str]:
    """`KEY=VALUE` pairs, the last of a key winning; a bare `KEY` takes its value from `inherited`."""
    env: dict[str, str] = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not ENV_NAME.fullmatch(key):
            raise UsageError(f"-e {pair!r}: write KEY=VALUE, the key of letters, digits and '_'")
        if not separator and key not in inherited:
            raise UsageError(f"-e {key}: it has no value here; write {key}=VALUE")
        env[key] = value if separator else inherited[key]
    return env


def parse_constraint(text: str, option: str = "--constraint") -> Constraint:
    """`key=value`, `!=`, `>`, `>=`, `<`, `<=`, `key in a,b`, `key exists`, `key not exists`."""
    stripped = text.strip()
    if match := _EXISTENCE.fullmatch(stripped):
        return Constraint(match["key"], Op.NOT_EXISTS if match["negated"] else Op.EXISTS)
    if match := _MEMBERSHIP.fullmatch(stripped):
        values = tuple(value.strip() for value in match["values"].split(","))
        if not all(values):
            raise UsageError(f"{option} {text!r}: the list has an empty value")
        return Constraint(match["key"], Op.IN, values)
    if match := _COMPARISON.fullmatch(stripped):
        op = _OPS[match["op"]]
        return Constraint(match["key"], op, (_value(match["value"], op, f"{option} {text!r}"),))
    raise UsageError(f"{option} {text!r}: write key=value, key>=8, 'key in a,b' or 'key exists'")


def name_from_command(argv: Sequence[str], suffix: str) -> str:
    """A readable name, unique by `suffix`: `python train.py --lr 1` gives `train-<suffix>`."""
    program = PurePosixPath(argv[0]).name if argv else ""
    if _INTERPRETER.fullmatch(program.lower()):
        program = _what_it_runs(argv[1:]) or program
    clean = re.sub(r"[^a-z0-9]+", "-", program.lower()).strip("-")[:MAX_NAME_CHARS].strip("-")
    return f"{clean or 'job'}-{suffix}"


def exit_code(job_succeeded: bool, ends: Sequence[tuple[bool, int | None]], without_code: int) -> int:
    """The job's own exit code. `ends` are (failed, code) of its tasks by index.

    The first failed task that has a code decides, else the first task with one other than 0;
    `without_code` when there is none. A negative code is a signal's, as some engines give it.
    """
    if job_succeeded:
        return 0
    codes = [code for failed, code in ends if failed and code] or [code for _, code in ends if code]
    if not codes:
        return without_code
    return min(codes[0] if codes[0] > 0 else 128 - codes[0], 255)


def _value(text: str, op: Op, what: str) -> Scalar:
    if op not in _ORDERINGS:
        return text.strip()
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UsageError(f"{what}: {op.value} compares numbers, and {text!r} is none")
    return int(number) if number.is_integer() and abs(number) < MAX_INT64 else number


def _what_it_runs(arguments: Sequence[str]) -> str:
    """The module behind `-m`, or the first script, of an interpreter's arguments; "" for neither."""
    for word, following in zip(arguments, [*arguments[1:], ""], strict=False):
        if word == "-m" and following:
            return following.rpartition(".")[2]
        if _SCRIPT.fullmatch(word):
            return PurePosixPath(word).stem
    return ""
