"""Values of secrets are kept apart from the job and go with its end."""

from pathlib import Path

from iris_fed.clock import SystemClock
from iris_fed.decide.newjob import new_job
from iris_fed.model.spec import JobSpec, Submission
from iris_fed.store.connection import Tx, connect_sqlite
from iris_fed.store.db import Database
from iris_fed.store.jobs import insert_job, job_by_id, with_secrets
from iris_fed.store.migrate import load_migrations, migrate

SECRET = "hunter2-the-value"


def _opened(path: Path) -> Tx:
    tx = connect_sqlite(path, SystemClock(), set())
    migrate(tx, load_migrations(), 1)
    return tx


def _every_byte(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir())


def _submitted(tx: Tx) -> int:
    spec = JobSpec(argv=("true",), env={"A": "1"}, secrets={"TOKEN": SECRET})
    return insert_job(tx, new_job(Submission("/ada/job", spec), "/ada/job", "ada", "ada@lab", 1)).uid


def test_only_the_names_are_part_of_the_job(tmp_path: Path) -> None:
    tx = _opened(tmp_path / "db")
    _submitted(tx)
    job = job_by_id(tx, "/ada/job")
    assert job is not None
    assert dict(job.spec.secrets) == {"TOKEN": ""}
    assert SECRET not in tx.execute("SELECT spec FROM jobs").fetchone()["spec"]
    assert dict(with_secrets(tx, job).spec.secrets) == {"TOKEN": SECRET}
    tx.close()


def test_the_values_go_with_the_end_of_the_job_and_leave_no_trace_in_the_file(tmp_path: Path) -> None:
    tx = _opened(tmp_path / "db")
    uid = _submitted(tx)
    tx.execute("UPDATE jobs SET state = 'KILLED', finished_ms = 5 WHERE uid = ?", (uid,))
    job = job_by_id(tx, "/ada/job")
    assert job is not None
    assert dict(with_secrets(tx, job).spec.secrets) == {}
    tx.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    tx.close()
    assert SECRET.encode() not in (tmp_path / "db").read_bytes()


async def test_a_checkpoint_takes_the_last_trace_of_a_secret_out_of_the_log(tmp_path: Path) -> None:
    database = await Database.open(tmp_path / "db", SystemClock())
    await database.alone(lambda tx: migrate(tx, load_migrations(), 1))
    uid = await database.write(_submitted)
    await database.write(
        lambda tx: tx.execute("UPDATE jobs SET state = 'KILLED', finished_ms = 5 WHERE uid = ?", (uid,)).rowcount
    )
    await database.checkpoint()
    kept = _every_byte(tmp_path)
    await database.close()
    assert SECRET.encode() not in kept
