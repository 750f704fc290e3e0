"""The words of each command. Pure."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from iris_fed.backends.base import LaunchRequest
from iris_fed.backends.slurm.parse import NODE_COLUMNS, QUEUE_COLUMNS, comment_of, format_of
from iris_fed.backends.slurm.settings import SlurmSettings
from iris_fed.model.resources import Resources

ATTRIBUTES = ("slurm-partition", "slurm-account", "slurm-qos", "slurm-reservation", "slurm-feature")
"""Keys of a job's constraints that choose among what the operator, or Slurm, offers."""
_MINUTE_MS = 60_000
_UNTYPED = "gpu"
_ACCOUNTING_SINCE = "now-14days"


@dataclass(frozen=True, slots=True)
class Submission:
    """One job: an attempt, or a gang of them, each of which gets the same. `folder` is the first one's."""

    requests: tuple[LaunchRequest, ...]
    cluster: str
    database_id: str
    folder: str

    @property
    def first(self) -> LaunchRequest:
        return self.requests[0]


def sbatch(settings: SlurmSettings, job: Submission) -> list[str]:
    """The script comes from standard input."""
    first = job.first
    words = ["sbatch", "--parsable", "--no-requeue", f"--job-name={first.attempt_uid}"]
    words += [f"--comment={comment_of(job.cluster, job.database_id)}", f"--chdir={job.folder}"]
    words += [f"--output={job.folder}/slurm.out", "--open-mode=append", "--input=none"]
    words += _chosen(settings, first.choices)
    words += _band(settings, first)
    words += _resources(settings, first.resources, len(job.requests))
    minutes = time_limit_minutes(settings, first)
    if minutes is not None:
        words.append(f"--time={minutes}")
    return words + list(settings.sbatch_args)


def script(settings: SlurmSettings, job: Submission, keeper: str) -> str:
    """What the job runs: the keeper of its attempt, or one for each member of the gang."""
    run = f"{settings.python} -I -S {_quoted(keeper)} run {_quoted(str(settings.shared_dir))}"
    uid = job.first.attempt_uid
    if len(job.requests) == 1:
        return f"#!/bin/sh\nexec {run} {uid}\n"
    chips = job.first.resources.chips
    # Without its type: Slurm 22.05 tells a task of its own GPUs only then.
    gpus = f" --gpus-per-task={chips}" if chips else ""
    # Each has its own; a first machine's would be told to all.
    unset = "unset SLURM_JOB_GPUS CUDA_VISIBLE_DEVICES GPU_DEVICE_ORDINAL ROCR_VISIBLE_DEVICES"
    step = f"srun --ntasks={len(job.requests)} --kill-on-bad-exit=0 --wait=0 --cpus-per-task={_cpus(job.first)}{gpus}"
    return f"#!/bin/sh\n{unset}\nexec {step} {run} {uid} gang\n"


def squeue(settings: SlurmSettings, user: str = "", name: str = "") -> list[str]:
    """All our jobs, or those of one name."""
    words = ["squeue", "--noheader", "--all", "--states=all", f"--Format={format_of(QUEUE_COLUMNS)}"]
    return words + ([f"--name={name}"] if name else []) + ([f"--user={user}"] if user else [])


def sinfo(settings: SlurmSettings) -> list[str]:
    words = ["sinfo", "--noheader", "--Node", f"--Format={format_of(NODE_COLUMNS)}"]
    return words + ([f"--partition={','.join(settings.partitions)}"] if settings.partitions else [])


def scancel(job_ids: Sequence[str]) -> list[str]:
    return ["scancel", *job_ids]


def sacct(names: Iterable[str]) -> list[str]:
    words = ["sacct", "--allusers", "--allocations", "--noheader", "--parsable2", "--format=JobName%80,State"]
    return [*words, f"--starttime={_ACCOUNTING_SINCE}", f"--name={','.join(names)}"]


def srun_exec(settings: SlurmSettings, job_id: str, node: str, keeper: str, words: Sequence[str]) -> list[str]:
    """`words` are the attempt's uid and the command; it runs beside the attempt, on its node."""
    step = ["srun", "--quiet", f"--jobid={job_id}", "--overlap", "--nodes=1", "--ntasks=1", "--input=none", "--mem=0"]
    step += [f"--nodelist={node}", "--unbuffered"] if node else ["--unbuffered"]
    return [*step, settings.python, "-I", "-S", keeper, "exec", str(settings.shared_dir), *words]


def time_limit_minutes(settings: SlurmSettings, request: LaunchRequest) -> int | None:
    """Slurm's limit is a net below our own, which is exact: a minute more. None = the partition's."""
    if request.timeout_ms is None:
        return None if settings.time_limit_s is None else math.ceil(settings.time_limit_s / 60)
    setup_ms = (request.setup_timeout_ms or request.timeout_ms) if request.setup else 0
    return math.ceil((request.timeout_ms + setup_ms) / _MINUTE_MS) + 1


def _chosen(settings: SlurmSettings, choices: Mapping[str, str]) -> list[str]:
    offered = (
        ("partition", settings.partitions),
        ("account", settings.accounts),
        ("qos", settings.qos),
        ("reservation", settings.reservations),
    )
    words = []
    for option, values in offered:
        value = choices.get(f"slurm-{option}") or (values[0] if values else "")
        if value:
            words.append(f"--{option}={value}")
    features = [one for one in (settings.features, choices.get("slurm-feature", "")) if one]
    return words + ([f"--constraint={'&'.join(features)}"] if features else [])


def _band(settings: SlurmSettings, request: LaunchRequest) -> list[str]:
    terms = None if request.band is None else settings.bands.get(request.band)
    if terms is None:
        return []
    words = [f"--nice={terms.nice}"] if terms.nice else []
    # A later option replaces an earlier one.
    return [*words, f"--qos={terms.qos}"] if terms.qos and "slurm-qos" not in request.choices else words


def _resources(settings: SlurmSettings, asked: Resources, count: int) -> list[str]:
    cpus = max(1, math.ceil(asked.cpu_millicores / 1000))
    words = [f"--ntasks={count}", f"--cpus-per-task={cpus}"] + ([] if count > 1 else ["--nodes=1"])
    mebibytes = math.ceil(asked.memory_bytes / 2**20)
    if mebibytes and count == 1:
        words.append(f"--mem={mebibytes}M")
    elif mebibytes:
        words.append(f"--mem-per-cpu={math.ceil(mebibytes / cpus)}M")
    if asked.chips:
        variant = asked.device.variant if asked.device is not None else ""
        kind = settings.slurm_type(variant) + ":" if variant and variant != _UNTYPED else ""
        words.append(f"--gpus-per-task={kind}{asked.chips}" if count > 1 else f"--gres=gpu:{kind}{asked.chips}")
    return words


def _cpus(request: LaunchRequest) -> int:
    return max(1, math.ceil(request.resources.cpu_millicores / 1000))


def _quoted(path: str) -> str:
    return "'" + path.replace("'", "'\\''") + "'"
