"""Which jobs a transaction touched, as the write connection notes it below all our code.

Triggers of the connection itself, not of the file: they are no part of the schema, and a database
that is opened by another version or by hand knows nothing of them.
"""

from collections.abc import Mapping

from iris_fed.store.connection import Tx

MAX_NOTED = 1_000
_TABLES = {
    "jobs": ("INSERT", "UPDATE", "DELETE"),
    # Those of a mirrored job come and go without it.
    "tasks": ("INSERT", "UPDATE", "DELETE"),
    "attempts": ("INSERT", "UPDATE", "DELETE"),
    "job_events": ("INSERT",),
}


class ChangedJobs:
    """Gathers what changed since the last `take`. A change that was rolled back may be among it."""

    def __init__(self) -> None:
        self._roots: dict[str, str] = {}
        self._many = False

    def install(self, tx: Tx) -> None:
        """On the write connection, once the schema is there."""
        tx.create_function("job_changed", 3, self._note)
        for table, changes in _TABLES.items():
            for change in changes:
                tx.execute(_trigger(table, change))

    def take(self) -> tuple[Mapping[str, str], bool]:
        """Root job id -> whose own job it is ('' = another cluster handed it over), and whether there were
        more than are kept."""
        taken = self._roots, self._many
        self._roots, self._many = {}, False
        return taken

    def _note(self, job_id: str, user: str, requester: str) -> None:
        if len(self._roots) < MAX_NOTED:
            self._roots["/".join(job_id.split("/", 3)[:3])] = "" if requester else user
        else:
            self._many = True


def _trigger(table: str, change: str) -> str:
    row = "OLD" if change == "DELETE" else "NEW"
    noted = f"job_changed({row}.job_id, {row}.user, {row}.requester)"
    if table != "jobs":
        noted = f"job_changed(job_id, user, requester) FROM main.jobs WHERE uid = {row}.job_uid"
    name = f"news_{table}_{change.lower()}"
    return f"CREATE TEMP TRIGGER {name} AFTER {change} ON main.{table} BEGIN SELECT {noted}; END"
