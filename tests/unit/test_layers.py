"""Rules of the house that neither the linter nor the import checker can say."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GENERATED = ROOT / "iris_fed" / "rpc" / "gen"
SOURCES = [path for path in sorted((ROOT / "iris_fed").rglob("*.py")) if not path.is_relative_to(GENERATED)]
TESTS = sorted((ROOT / "tests").rglob("*.py"))
PURE = [path for path in SOURCES if path.relative_to(ROOT / "iris_fed").parts[0] in ("model", "decide")]

MAX_MODULE_LINES = 500
MAX_FUNCTION_LINES = 70
EMPTY_NAMES = {"utils", "util", "helpers", "helper", "common", "misc"}
SQL = re.compile(r"^\s*(SELECT|INSERT|UPDATE|DELETE|CREATE|DROP|ALTER|PRAGMA|WITH RECURSIVE)\b", re.IGNORECASE)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in nodes(path) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def calls(path: Path) -> set[str]:
    return {ast.unparse(node.func) for node in nodes(path) if isinstance(node, ast.Call)}


@pytest.mark.parametrize("path", [*SOURCES, *TESTS], ids=name_of)
def test_a_module_and_its_functions_can_be_held_in_mind(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_MODULE_LINES
    long = [f.name for f in functions(path) if (f.end_lineno or 0) - f.lineno + 1 > MAX_FUNCTION_LINES]
    assert not long


def test_a_module_is_named_after_what_it_holds() -> None:
    assert not [name_of(path) for path in [*SOURCES, *TESTS] if EMPTY_NAMES & set(path.with_suffix("").parts)]


@pytest.mark.parametrize("path", PURE, ids=name_of)
def test_a_pure_room_neither_waits_nor_logs_nor_asks_the_clock_or_chance(path: Path) -> None:
    # Protocols in `model/ports.py` speak of calls that wait; they do nothing themselves.
    if path.name != "ports.py":
        assert not [f.name for f in functions(path) if isinstance(f, ast.AsyncFunctionDef)]
    imported = {
        name.split(".")[0]
        for node in nodes(path)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert not imported & {"logging", "structlog", "os", "pathlib", "subprocess", "threading", "datetime", "secrets"}
    assert "open" not in calls(path)


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_all_sql_is_in_the_store_and_none_of_it_replaces_rows(path: Path) -> None:
    texts = [node.value for node in nodes(path) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    if path.parent.name == "store":
        # It would go around the foreign keys' and the changelog's idea of a change.
        assert not [text for text in texts if re.search(r"\bOR REPLACE\b", text, re.IGNORECASE)]
        return
    statements = [text for text in texts if SQL.match(text) and re.search(r"\b(FROM|INTO|SET|TABLE)\b", text)]
    assert not statements


def test_migrations_are_numbered_without_gaps() -> None:
    numbers = sorted(int(path.name[:4]) for path in (ROOT / "migrations").glob("*.sql"))
    assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize("path", [path for path in TESTS if path.name.startswith("test_")], ids=name_of)
def test_no_test_sleeps_or_mocks_our_own_code(path: Path) -> None:
    sleeps = [
        ast.unparse(node)
        for node in nodes(path)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("time.sleep", "asyncio.sleep", "anyio.sleep")
    ]
    # A sleep of nothing lets others run; under a virtual clock every sleep costs nothing.
    if path.parent.name != "e2e" and "JumpingLoop" not in path.read_text(encoding="utf-8"):
        assert not [call for call in sleeps if not call.endswith("sleep(0)")]
    assert "unittest.mock" not in {node.module for node in nodes(path) if isinstance(node, ast.ImportFrom)}
