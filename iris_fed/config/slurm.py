"""A Slurm cluster as a backend, in the operator's words."""

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from iris_fed.config.sections import AccountName, Attributes, Bytes, Name, Seconds, Section, Variant, Whole

ALLOWED_SBATCH_ARGS = frozenset(
    {"bb", "bbf", "clusters", "cluster-constraint", "contiguous", "core-spec", "cpu-freq", "delay-boot", "exclude"}
    | {"exclusive", "extra-node-info", "gres-flags", "hint", "licenses", "mail-type", "mail-user", "mem-bind"}
    | {"mincpus", "network", "nodefile", "nodelist", "oversubscribe", "overcommit", "power", "prefer", "priority"}
    | {
        "profile",
        "signal",
        "spread-job",
        "switches",
        "thread-spec",
        "threads-per-core",
        "tmp",
        "use-min-nodes",
        "wckey",
    }
)
"""What does not touch how we find a job again, what it runs, or what it may use."""
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@+-]{0,127}")
_FEATURES = re.compile(r"[A-Za-z0-9_.&|()\[\]*,-]{1,256}")


def _check_word(word: str) -> str:
    if not _WORD.fullmatch(word):
        raise ValueError(f"{word[:80]!r} is no name of Slurm's")
    return word


def _check_argument(argument: str) -> str:
    name = argument.removeprefix("--").partition("=")[0]
    if not argument.startswith("--") or name not in ALLOWED_SBATCH_ARGS:
        raise ValueError(f"{argument[:80]!r} may not be given; allowed are {', '.join(sorted(ALLOWED_SBATCH_ARGS))}")
    return argument


def _check_features(expression: str) -> str:
    if not _FEATURES.fullmatch(expression):
        raise ValueError(f"{expression[:80]!r} is no constraint of Slurm's, like `fast&ib`")
    return expression


def _check_absolute(path: Path) -> Path:
    if not path.is_absolute() or not str(path).isprintable():
        raise ValueError(f"{str(path)[:200]!r} is no absolute path: it must mean the same on every node")
    return path


Word = Annotated[str, AfterValidator(_check_word)]
Words = Annotated[list[Word], Field(max_length=64)]


class SlurmBandSettings(Section):
    qos: Word | None = Field(default=None, description="QOS of the band's jobs; absent = as usual.")
    nice: Whole = Field(
        default=0, ge=0, le=2_147_483_645, description="How much weaker its jobs are made in Slurm's queue."
    )


class SlurmBackendSettings(Section):
    """Runs tasks as jobs of a Slurm cluster."""

    kind: Literal["slurm"] = Field(description="Engine: a Slurm cluster, through its commands.")
    id: Name = Field(default="slurm", description="Name of the backend within this cluster.")
    shared_dir: Annotated[Path, AfterValidator(_check_absolute)] = Field(
        description="Directory of work directories and outputs, under the same path on the controller's machine and on "
        "every node; this controller's own."
    )
    partitions: Words = Field(
        default=[], description="Partitions that jobs may use, the first by default; empty = Slurm's default. Jobs "
        "choose with `slurm-partition=NAME`."
    )  # fmt: skip
    accounts: Words = Field(
        default=[], description="Slurm accounts that jobs may use, the first by default; `slurm-account=NAME` chooses."
    )
    qos: Words = Field(
        default=[], description="QOS that jobs may use, the first by default; `slurm-qos=NAME` chooses."
    )  # fmt: skip
    reservations: Words = Field(
        default=[], description="Reservations that jobs may use, the first by default; `slurm-reservation=NAME`."
    )
    constraint: Annotated[str, AfterValidator(_check_features)] | None = Field(
        default=None, description="Slurm constraint on every job's nodes: `fast&ib`. Jobs add `slurm-feature=NAME`."
    )
    bands: dict[Literal["system", "production", "interactive", "batch"], SlurmBandSettings] = Field(
        default={}, description="QOS and nice value by priority band: `{batch: {qos: low, nice: 1000}}`."
    )
    sbatch_args: Annotated[list[Annotated[str, AfterValidator(_check_argument)]], Field(max_length=32)] = Field(
        default=[], description="Further options of every sbatch, out of a list of harmless ones: `[--exclusive]`."
    )
    gpu_types: dict[Variant, Word] = Field(
        default={}, description="Slurm's name of a GPU type where it is not ours: `{h100: nvidia_h100_80gb_hbm3}`."
    )
    attributes: Attributes = Field(
        default={}, description="What constraints may ask for: `{region: eu, zone: [a, b]}`."
    )  # fmt: skip
    max_pending: Whole = Field(
        default=1_000,
        ge=0,
        le=100_000,
        description="Jobs that may wait in Slurm's queue; 0 = only what is free now is submitted.",
    )
    time_limit_s: Seconds | None = Field(
        default=None, description="Slurm's limit for jobs without a timeout, in seconds; absent = the partition's."
    )
    accounting: bool = Field(
        default=False,
        description="Ask `sacct` how a job ended that Slurm's queue has forgotten and that left no result.",
    )
    submit_command: Annotated[list[str], Field(max_length=32)] = Field(
        default=[],
        description="Command that runs sbatch and srun as a task's account: `[sudo, -n, -u, '{user}', --]`; goes with "
        "`run_as`.",
    )
    run_as: AccountName | dict[Annotated[str, Field(min_length=1, max_length=320)], AccountName] | None = Field(
        default=None,
        description="Account that tasks run as, as for a local backend; the controller must run as root.",
    )
    shared_uid: Literal["refuse", "accept"] = Field(
        default="refuse",
        description="`accept`: tasks run as the controller's own account though several people or other clusters may "
        "submit; each of their tasks can then read its keys and act as it. Without this, or `run_as`, `serve` refuses.",
    )
    python: str = Field(
        default="python3", min_length=1, max_length=4_096, description="Python 3.10 or later, on the nodes."
    )
    bin_dir: Path | None = Field(default=None, description="Where Slurm's commands are, if not on PATH.")
    address: str = Field(
        default="{node}", min_length=1, max_length=253, description="Host under which tasks on a node are reached."
    )
    kill_grace_s: Seconds = Field(
        default=10.0, le=3_600, description="From SIGTERM to SIGKILL, in seconds; at most Slurm's KillWait counts."
    )
    output_bytes: Bytes = Field(
        default=67_108_864, ge=65_536, description="Output kept per attempt, in bytes; the middle is dropped."
    )
    poll_interval_s: Annotated[Seconds, Field(ge=0.2)] = Field(
        default=5.0, description="Time between looks at Slurm's queue while jobs of ours are there, in seconds."
    )
    capacity_interval_s: Annotated[Seconds, Field(ge=0.2)] = Field(
        default=15.0, description="Time between looks at the state of the nodes, in seconds."
    )
    command_timeout_s: Annotated[Seconds, Field(le=600)] = Field(
        default=30.0, description="A command of Slurm's that takes longer is ended, in seconds."
    )
    lost_after_s: Seconds = Field(
        default=60.0, description="An attempt that Slurm does not know and that left no result is lost after this long."
    )

    @model_validator(mode="after")
    def _users_are_mapped_whole(self) -> "SlurmBackendSettings":
        mapped = any("{user}" in word for word in self.submit_command)
        if mapped != (self.run_as is not None):
            raise ValueError(
                "run_as and a submit_command with {user} go together: the one names whom the other becomes"
            )
        return self
