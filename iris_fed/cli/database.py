"""`iris-fed db ...`: the database of a controller, while it does not run or beside it."""

from pathlib import Path
from typing import Annotated

import typer

from iris_fed.cli.exits import CHECK_FAILED
from iris_fed.cli.options import Json, examples
from iris_fed.cli.parse import UsageError
from iris_fed.cli.settings_file import ConfigFile, load, pick_config
from iris_fed.errors import NotFound

app = typer.Typer(help="Check, back up and restore a controller's database.", no_args_is_help=True)

StateDir = Annotated[
    Path | None,
    typer.Option("--state-dir", metavar="DIR", help="Instead of a configuration.", show_default=False),
]
BackupFile = Annotated[Path, typer.Argument(metavar="FILE", help="The backup.")]


@app.callback()
def _noun() -> None:
    """Check, back up and restore a controller's database."""


@app.command("check", epilog=examples("iris-fed db check --config iris-fed.yaml"))
def check(config: ConfigFile = None, state_dir: StateDir = None, json: Json = False) -> None:
    """Check the database: integrity, migrations, triggers. Exits with 1 when something is wrong."""
    from iris_fed.cli.terminal import one_line, print_json
    from iris_fed.store.check import DATABASE_NAME, check_database

    path = _place(config, state_dir)[0] / DATABASE_NAME
    if not path.exists():
        raise NotFound(f"there is no database {path}; a controller makes it when it first starts")
    problems = check_database(path)
    if json:
        print_json({"database": str(path), "problems": problems})
    else:
        print("\n".join(one_line(problem) for problem in problems) or f"{path}: no problem found")
    raise typer.Exit(CHECK_FAILED if problems else 0)


@app.command("backup", epilog=examples("iris-fed db backup /backups/lab.db --config iris-fed.yaml"))
def backup(
    file: BackupFile,
    config: ConfigFile = None,
    state_dir: StateDir = None,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it exists.")] = False,
    json: Json = False,
) -> None:
    """Copy the database to FILE, checked and whole, while the controller runs or not.

    FILE also holds the workspaces and the secrets that unfinished jobs need. Keys and job output are not in it.
    """
    from iris_fed.cli.formats import plural, size
    from iris_fed.cli.terminal import print_json, say
    from iris_fed.clock import SystemClock
    from iris_fed.store.backup import backup_database
    from iris_fed.store.opening import DATABASE_NAME

    made = backup_database(_place(config, state_dir)[0] / DATABASE_NAME, file, SystemClock().now_ms(), force=force)
    if json:
        print_json(
            {
                "file": str(made.path),
                "cluster": made.cluster,
                "takenMs": made.taken_ms,
                "bytes": made.size,
                "unfinishedJobs": made.unfinished_jobs,
                "workspaces": made.bundles,
                "missingWorkspaces": list(made.missing_bundles),
            }
        )
        return
    held = f"{plural(made.unfinished_jobs, 'unfinished job')}, {plural(made.bundles, 'workspace')}"
    print(f"{made.path}: {size(made.size)}, cluster {made.cluster}, {held}; found whole")
    for bundle_id in made.missing_bundles:
        say(f"the workspace {bundle_id} of an unfinished job was not there")
    say("not in it: auth.signing_key, auth.nonce_key and the output of jobs")


@app.command("restore", epilog=examples("iris-fed db restore /backups/lab.db --config iris-fed.yaml"))
def restore(file: BackupFile, config: ConfigFile = None, state_dir: StateDir = None, json: Json = False) -> None:
    """Put a backup in the place of the database of a stopped controller; what was there is kept beside it.

    When the controller starts it goes on with what still runs; what does not has ended as lost, since it may have
    run after the backup. Peers are asked for everything anew.
    """
    from iris_fed.cli.terminal import print_json, say
    from iris_fed.clock import SystemClock, SystemEntropy
    from iris_fed.store.restore import restore_database

    place, cluster = _place(config, state_dir)
    done = restore_database(file, place, SystemEntropy().token(), SystemClock().now_ms(), cluster)
    if json:
        print_json(
            {
                "cluster": done.cluster,
                "databaseId": done.database_id,
                "takenMs": done.taken_ms,
                "kept": str(done.kept or ""),
                "workspaces": done.bundles,
            }
        )
        return
    print(f"restored cluster {done.cluster} into {place}; its database is now {done.database_id}")
    if done.kept is not None:
        say(f"the former database is kept as {done.kept}")
        if not done.kept_readable:
            say("it could not be read: what it has started since the backup must be ended by hand")


def _place(config: Path | None, state_dir: Path | None) -> tuple[Path, str]:
    """The state directory, and the cluster it should belong to ('' = not told)."""
    if config is not None and state_dir is not None:
        raise UsageError("give --config or --state-dir, not both")
    if state_dir is not None:
        return state_dir, ""
    settings = load(pick_config(config))
    return settings.state_dir, settings.cluster.name
