"""Compares a database's triggers with those that the migrations wrote: rebuilding a table drops them."""

import re

from iris_fed.store.db import Tx
from iris_fed.store.migrate import Migration, split_statements

_CREATE = re.compile(r"CREATE TRIGGER (\w+)", re.IGNORECASE)


def trigger_problems(tx: Tx, migrations: list[Migration]) -> list[str]:
    """One sentence for each trigger that is missing, changed, or nobody's."""
    wanted: dict[str, str] = {}
    for migration in migrations:
        for statement in split_statements(migration.sql):
            body = _without_comments(statement)
            found = _CREATE.match(body)
            if found:
                wanted[found[1]] = body.rstrip(";").strip()
    present = {
        row["name"]: row["sql"] for row in tx.execute("SELECT name, sql FROM sqlite_master WHERE type='trigger'")
    }
    problems = [f"{name} is missing" for name in sorted(wanted.keys() - present.keys())]
    problems += [f"{name} is not one of ours" for name in sorted(present.keys() - wanted.keys())]
    problems += [
        f"{name} was changed"
        for name in sorted(wanted.keys() & present.keys())
        if _without_comments(present[name]).rstrip(";").strip() != wanted[name]
    ]
    return problems


def _without_comments(sql: str) -> str:
    return "\n".join(line for line in sql.splitlines() if not line.lstrip().startswith("--")).strip()
