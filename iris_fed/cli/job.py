"""`iris-fed job ...`: run, watch and end jobs."""

import contextlib
import sys
from typing import Annotated

import typer

from iris_fed.cli import complete, job_exec, job_files
from iris_fed.cli.exits import CANNOT
from iris_fed.cli.options import Context, Controller, JobName, JobNames, Json, examples
from iris_fed.cli.options import text as _text
from iris_fed.cli.parse import UsageError, parse_duration

app = typer.Typer(help="Run, watch and end jobs.", no_args_is_help=True)

MAX_REPLICAS = 10_000
SecretFiles = Annotated[
    list[str] | None, _text("--secret-file", "NAME=file:PATH", "A file in $IRIS_SECRETS_DIR; also env:VAR.")
]

RUN_EXAMPLES = examples(
    "iris-fed job run --gpu H100x8 -- python train.py --lr 0.1",
    "iris-fed job run --workspace . --setup 'pip install -r requirements.txt' -- python train.py",
    "iris-fed job run --replicas 4 --gang --gpu H100x8 --port rdzv -- python train.py",
    "iris-fed job run --secret HF_TOKEN=env:HF_TOKEN --max-retries 2 --no-wait -- python train.py",
)

IF_EXISTS_HELP = "error, keep or recreate a job of that name; else one that has ended is replaced."


@app.command("run", context_settings={"allow_interspersed_args": False}, epilog=RUN_EXAMPLES)
def run(  # noqa: PLR0913 - one parameter a flag
    invocation: typer.Context,
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND...", help="What each task runs.")],
    name: Annotated[str, _text("--name", "NAME", "Default: one made from the command.")] = "",
    env: Annotated[list[str] | None, _text("-e", "KEY=VALUE", "An environment variable; repeatable.")] = None,
    gpu: Annotated[str, _text("--gpu", "H100x8", "GPUs of one replica: variant and count.")] = "",
    cpu: Annotated[str, _text("--cpu", "2", "Cores of one replica, also 500m.")] = "",
    memory: Annotated[str, _text("--memory", "8GB", "Memory of one replica.")] = "",
    disk: Annotated[str, _text("--disk", "100GB", "Disk of one replica.")] = "",
    replicas: Annotated[int, typer.Option(min=1, max=MAX_REPLICAS, help="Number of tasks.")] = 1,
    gang: Annotated[bool, typer.Option("--gang", help="Start all tasks together or none.")] = False,
    workspace: Annotated[str, _text("--workspace", "DIR", "Send this folder along, but for what git ignores.")] = "",
    file: Annotated[list[str] | None, _text("--file", "LOCAL[:NAME]", "Send one file along; repeatable.")] = None,
    setup: Annotated[list[str] | None, _text("--setup", "CMD", "Run this in a shell first; repeatable.")] = None,
    setup_timeout: Annotated[str, _text("--setup-timeout", "10m", "End a setup that runs longer.")] = "",
    secret: Annotated[list[str] | None, _text("--secret", "NAME=env:VAR", "A hidden variable; also file:PATH.")] = None,
    secret_file: SecretFiles = None,
    target_cluster: Annotated[
        str, _text("--target-cluster", "CLUSTER", "Run it on this cluster only.", complete.peers)
    ] = "",
    backend: Annotated[
        str, _text("--backend", "BACKEND", "Run it on this backend of the controller only.", complete.backends)
    ] = "",
    region: Annotated[str, _text("--region", "REGION", "Run it in this region only.")] = "",
    zone: Annotated[str, _text("--zone", "ZONE", "Run it in this zone only.")] = "",
    constraint: Annotated[list[str] | None, _text("--constraint", "KEY=VALUE", "Also != > >= < <= in exists.")] = None,
    prefer: Annotated[list[str] | None, _text("--prefer", "KEY=VALUE", "As --constraint, but only a wish.")] = None,
    priority: Annotated[str, _text("--priority", "BAND", "production, interactive, batch or system.")] = "",
    timeout: Annotated[str, _text("--timeout", "2h", "End an attempt that runs longer.")] = "",
    scheduling_timeout: Annotated[str, _text("--scheduling-timeout", "1h", "Give up if not started by then.")] = "",
    max_retries: Annotated[int, typer.Option(min=0, max=1000, help="Tries after a task's failure.")] = 0,
    max_retries_preemption: Annotated[int, typer.Option(min=0, max=1000, help="Tries after a place's failure.")] = 0,
    max_task_failures: Annotated[int, typer.Option(min=0, max=MAX_REPLICAS, help="Failed tasks to put up with.")] = 0,
    port: Annotated[list[str] | None, _text("--port", "NAME", "A port, handed over in IRIS_PORT_NAME.")] = None,
    if_exists: Annotated[str, _text("--if-exists", "POLICY", IF_EXISTS_HELP)] = "",
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Print the job's id and return.")] = False,
    wait_timeout: Annotated[str, _text("--wait-timeout", "10m", "Return after that long, with code 124.")] = "",
    json: Json = False,
    controller: Controller = None,
    context: Context = None,
) -> None:
    """Run a command as a job, show its output, and exit with its exit code.

    Exit codes: the first failed task's own (128+n for signal n); 2 usage; 124 the wait timed out;
    125 refused, denied, unreachable or ended without a code; 130 Ctrl+C, with the job left running.
    """
    import os
    import secrets

    from iris_fed.cli.job_attachments import gather
    from iris_fed.cli.job_request import JobFlags, build_request, shown_argv
    from iris_fed.cli.job_run import Run, offer_cancel, submit_and_follow
    from iris_fed.cli.session import with_client

    flags = JobFlags(
        name, env or (), gpu, cpu, memory, disk, replicas, target_cluster, backend, region, zone, constraint or (),
        priority, timeout, scheduling_timeout, max_retries, port or (), if_exists, prefer or (),
        setup or (), setup_timeout, gang, max_task_failures, max_retries_preemption,
    )  # fmt: skip
    attachments = gather(secret or (), secret_file or (), file or (), workspace, os.environ)
    request = build_request(flags, command, os.environ, secrets.token_hex(3), attachments)
    request.submit_argv.extend(shown_argv(invocation.obj or (), len(command)))
    wanted = Run(request, wait=not no_wait, wait_timeout_s=_seconds(wait_timeout, "--wait-timeout"), json=json)
    try:
        code = with_client(controller, context, lambda client: submit_and_follow(client, wanted))
    except KeyboardInterrupt:
        code = offer_cancel(wanted, lambda job: with_client(controller, context, lambda client: client.cancel(job)))
    raise typer.Exit(code)


@app.command(
    "list",
    epilog=examples(
        "iris-fed job list --state running",
        "iris-fed job list -A --cluster gpu-lab --sort failures",
        "iris-fed job list --children-of sweep --json",
    ),
)
def list_(  # noqa: PLR0913 - one parameter a flag
    all_jobs: Annotated[bool, typer.Option("-A", "--all", help="Everybody's jobs, of any age.")] = False,
    state: Annotated[str, _text("--state", "STATE", "Only jobs in this state; several with commas.")] = "",
    user: Annotated[str, _text("--user", "USER", "This user's jobs, of any age.")] = "",
    prefix: Annotated[str, _text("--prefix", "NAME", "Only jobs whose name, or whole id, begins so.")] = "",
    backend: Annotated[str, _text("--backend", "BACKEND", "Only jobs of this backend.", complete.backends)] = "",
    cluster: Annotated[
        str, _text("--cluster", "CLUSTER", "Only jobs of this peer; local = here.", complete.peers)
    ] = "",
    children_of: Annotated[str, _text("--children-of", "JOB", "The children of this job.", complete.jobs)] = "",
    roots: Annotated[bool, typer.Option("--roots/--tree", help="Root jobs only, or children too.")] = True,
    sort: Annotated[str, _text("--sort", "FIELD", "date, name, state, failures or preemptions.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most this many.")] = 100,
    page: Annotated[str, _text("--page", "TOKEN", "Go on behind a list that ended with this token.")] = "",
    watch: Annotated[bool, typer.Option("--watch", help="Keep showing it, until Ctrl+C.")] = False,
    json: Json = False,
    controller: Controller = None,
    context: Context = None,
) -> None:
    """List jobs: yours, those that are active or of the last 24 hours; with a filter those of any age."""
    from iris_fed.cli import job_list
    from iris_fed.cli.session import as_json, with_client
    from iris_fed.cli.terminal import print_json, print_table, say

    wanted = job_list.Wanted(
        all_jobs, state, user, cluster, limit, prefix, backend, children_of, roots, job_list.sort_field(sort), page
    )
    if watch and json:
        raise UsageError("--watch and --json exclude each other")
    if watch:
        with contextlib.suppress(KeyboardInterrupt):
            with_client(controller, context, lambda client: job_list.watch_list(client, wanted))
        return
    now_ms = job_list.now_ms()
    found = with_client(controller, context, lambda client: job_list.list_wanted(client, wanted, now_ms))
    if json:
        print_json(as_json(found))
        return
    print_table(job_list.COLUMNS, job_list.rows(found.jobs, now_ms))
    if more := job_list.more_text(found, limit):
        say(more)


@app.command("describe", epilog=examples("iris-fed job describe train"))
def describe(job: JobName, json: Json = False, controller: Controller = None, context: Context = None) -> None:
    """Show everything about a job: state, tasks, attempts, events."""
    from iris_fed.cli import job_describe
    from iris_fed.cli.session import full_id, with_client
    from iris_fed.cli.terminal import print_json
    from iris_fed.client import Client

    async def show(client: Client) -> None:
        job_id = await full_id(client, job)
        if json:
            print_json(await job_describe.description(client, job_id))
        else:
            await job_describe.describe(client, job_id)

    with_client(controller, context, show)


@app.command("logs", epilog=examples("iris-fed job logs -f train", "iris-fed job logs train/3 --attempt 0 --tail 50"))
def logs(  # noqa: PLR0913 - one parameter a flag
    id: Annotated[
        str, typer.Argument(metavar="JOB|TASK", help="A job's or a task's id.", autocompletion=complete.jobs)
    ],
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Stay until the job has ended.")] = False,
    tail: Annotated[int, typer.Option(min=0, max=1_000_000, help="Only the last lines of each task; 0 = all.")] = 0,
    attempt: Annotated[int | None, typer.Option(min=0, max=1_000_000, help="This attempt, from 0.")] = None,
    timestamps: Annotated[bool, typer.Option("--timestamps", help="Show when each line was written.")] = False,
    json: Json = False,
    controller: Controller = None,
    context: Context = None,
) -> None:
    """Show the output of a job's tasks, or of one task."""
    from iris_fed.cli.job_logs import LogRequest, show_logs, write_json_logs
    from iris_fed.cli.session import with_client

    if json and follow:
        raise UsageError("--json and --follow exclude each other: a log that goes on is no whole document")
    wanted = LogRequest(id, follow, tail, attempt, timestamps)
    work = write_json_logs if json else show_logs
    with_client(controller, context, lambda client: work(client, wanted, sys.stdout))


@app.command("wait", epilog=examples("iris-fed job wait train eval --timeout 2h"))
def wait(
    jobs: JobNames,
    timeout: Annotated[str, _text("--timeout", "10m", "Return after that long, with code 124.")] = "",
    json: Json = False,
    controller: Controller = None,
    context: Context = None,
) -> None:
    """Wait until all the jobs have ended; exit with the code of the first, as given, that failed."""
    from iris_fed.cli.job_wait import wait_for_all
    from iris_fed.cli.session import with_client

    timeout_s = _seconds(timeout, "--timeout")
    raise typer.Exit(with_client(controller, context, lambda client: wait_for_all(client, jobs, timeout_s, json)))


@app.command("cancel", epilog=examples("iris-fed job cancel train"))
def cancel(jobs: JobNames, controller: Controller = None, context: Context = None) -> None:
    """Ask for the end of jobs; returns once that is accepted."""
    from iris_fed.cli.job_wait import cancel_all
    from iris_fed.cli.session import with_client

    if not with_client(controller, context, lambda client: cancel_all(client, jobs)):
        raise typer.Exit(CANNOT)


@app.command("events", epilog=examples("iris-fed job events train"))
def events(job: JobName, json: Json = False, controller: Controller = None, context: Context = None) -> None:
    """Show what happened to a job, oldest first."""
    from iris_fed.cli.job_describe import print_events
    from iris_fed.cli.session import as_json, full_id, with_client
    from iris_fed.cli.terminal import print_json
    from iris_fed.client import Client

    async def show(client: Client) -> None:
        answer = await client.events(await full_id(client, job))
        print_json(as_json(answer)) if json else print_events(answer)

    with_client(controller, context, show)


def _seconds(text: str, option: str) -> float | None:
    return parse_duration(text, option) / 1000 if text else None


app.command(
    "exec",
    epilog=examples(
        "iris-fed job exec train -- nvidia-smi", "iris-fed job exec train/3 --timeout 5m -- py-spy dump -p 1"
    ),
)(job_exec.exec_)
app.command("files", epilog=examples("iris-fed job files train", "iris-fed job files train/3 checkpoints --attempt 0"))(
    job_files.files
)
app.command("fetch", epilog=examples("iris-fed job fetch train checkpoints results", "iris-fed job fetch train . all"))(
    job_files.fetch
)
