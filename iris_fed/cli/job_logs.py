"""`job logs`: output as text, or as one JSON document."""

import json
from dataclasses import dataclass
from typing import TextIO

from iris_fed.cli.log_printer import LogPrinter, takes_sentences
from iris_fed.cli.session import as_json, full_id
from iris_fed.cli.terminal import say
from iris_fed.client import Client
from iris_fed.client.follow import check_same
from iris_fed.model.ids import is_task_id


@dataclass(frozen=True, slots=True)
class LogRequest:
    """`attempt` None = the current one; `tail` 0 = everything."""

    id: str
    follow: bool = False
    tail: int = 0
    attempt: int | None = None
    timestamps: bool = False


async def show_logs(client: Client, wanted: LogRequest, out: TextIO) -> None:
    """Each line as it comes, with its task's index where there are several tasks.

    Raises Replaced when the job gave its id to another submission while it was followed.
    """
    id = await full_id(client, wanted.id)
    job_id = id.rpartition("/")[0] if is_task_id(id) else id
    job = (await client.job(job_id)).job
    printer = LogPrinter(
        out.buffer,
        clean=out.isatty(),
        prefixed=id == job_id and job.task_count > 1,
        timestamps=wanted.timestamps,
        shared=takes_sentences(out),
    )
    try:
        responses = client.logs(
            id,
            follow=wanted.follow,
            attempt_id=wanted.attempt,
            tail_lines=wanted.tail,
            submitted_ms=job.submitted_at.epoch_ms,
        )
        async for response in responses:
            printer.show(response)
        if wanted.follow:
            printer.make_way()
            check_same(job, (await client.job(job_id)).job)
    finally:
        printer.finish()


async def write_json_logs(client: Client, wanted: LogRequest, out: TextIO) -> None:
    """The lines in the wire's names (`data` in base64), written as they come so that a long log needs no memory."""
    id = await full_id(client, wanted.id)
    separator = '{"lines": ['
    async for response in client.logs(id, attempt_id=wanted.attempt, tail_lines=wanted.tail):
        for line in response.lines:
            out.write(f"{separator}\n  {json.dumps(as_json(line))}")
            separator = ","
        if response.notice:
            say(response.notice)
    out.write("]}\n" if separator == "," else '{"lines": []}\n')
    out.flush()
