"""From a placed task to the request that starts it."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from iris_fed.backends.base import Honours, LaunchRequest
from iris_fed.model.constraints import Op
from iris_fed.model.ids import task_id
from iris_fed.model.jobs import Attempt, Job
from iris_fed.model.observed import AttemptEnd, Ended, EndKind
from iris_fed.model.spec import SECRET_FILE, JobSpec


@dataclass(frozen=True, slots=True)
class Launch:
    """A committed attempt to be started on a backend, at once with all that bear the same `together` ('' = by
    itself). Members of one `gang` are still to be told of each other ('' = it has none, or knows)."""

    backend_id: str
    request: LaunchRequest
    task_index: int = 0
    gang: str = ""
    together: str = ""


@dataclass(frozen=True, slots=True)
class TaskLink:
    """How tasks reach this controller: its URL, and the token of each attempt by its uid. `bundle`
    tells where a job's files lie, by bundle id."""

    url: str
    token: Callable[[str], str]
    bundle: Callable[[str], Path]

    @property
    def host_port(self) -> str:
        return self.url.partition("://")[2].rstrip("/")


def launch_request(job: Job, attempt: Attempt, link: TaskLink) -> LaunchRequest:
    """The user's environment, and over it what every task is told (wire contract, "A task's environment")."""
    name = task_id(job.job_id, attempt.task_index)
    secrets = job.spec.secrets
    files = {key.removeprefix(SECRET_FILE): text for key, text in secrets.items() if key.startswith(SECRET_FILE)}
    env = dict(job.spec.env) | {key: text for key, text in secrets.items() if not key.startswith(SECRET_FILE)}
    env |= {
        "IRIS_JOB_ID": job.job_id,
        "IRIS_TASK_ID": f"{name}:{attempt.number}",
        "IRIS_TASK_INDEX": str(attempt.task_index),
        "IRIS_NUM_TASKS": str(job.task_count),
        "IRIS_ATTEMPT_UID": attempt.attempt_uid,
        "IRIS_CONTROLLER_URL": link.url,
        "IRIS_CONTROLLER_ADDRESS": link.host_port,
        "IRIS_TASK_TOKEN": link.token(attempt.attempt_uid),
    }
    return LaunchRequest(
        attempt_uid=attempt.attempt_uid,
        task_id=name,
        argv=job.spec.argv,
        env=env,
        resources=job.spec.resources,
        ports=job.spec.ports,
        timeout_ms=job.spec.timeout_ms,
        node=attempt.node,
        setup=job.spec.setup_scripts + job.spec.setup_commands,
        setup_timeout_ms=job.spec.setup_timeout_ms,
        files=job.spec.workdir_files,
        bundle=link.bundle(job.bundle_id) if job.bundle_id else None,
        secret_files=files,
        owner=f"{job.requester}/{job.user}" if job.requester else job.user,
        band=job.band,
        choices={c.key: str(c.values[0]) for c in job.spec.constraints if c.op is Op.EQ and not c.preferred},
    )


def honours_of(spec: JobSpec) -> Honours:
    """What a job asks for beyond running a command with resources."""
    return Honours(
        task_image=spec.task_image,
        container_profile=spec.container_profile,
        egress_policy=spec.egress_policy,
        disk_bytes=spec.resources.disk_bytes,
        gang=spec.coscheduling_group_by is not None,
    )


def with_siblings(
    members: Sequence[Launch], addresses: Sequence[str], ports: Mapping[str, Mapping[str, int]]
) -> list[Launch]:
    """Tell each member of a gang of the others:

    IRIS_GANG_ADDRESSES=host,host and, for each named port, IRIS_GANG_PORTS_<NAME>=number,number.
    The place of each is its task's index; that of one which has succeeded before stays empty.
    """

    def by_index(values: Sequence[str]) -> str:
        places = [""] * (1 + max(member.task_index for member in members))
        for member, value in zip(members, values, strict=True):
            places[member.task_index] = value
        return ",".join(places)

    shared = {"IRIS_GANG_ADDRESSES": by_index(addresses)}
    for name in members[0].request.ports:
        numbers = [str(ports.get(member.request.attempt_uid, {}).get(name, "")) for member in members]
        shared["IRIS_GANG_PORTS_" + re.sub(r"[^A-Z0-9]", "_", name.upper())] = by_index(numbers)
    return [
        replace(
            member,
            gang="",
            request=replace(
                member.request,
                env={**member.request.env, **shared},
                given_ports=ports.get(member.request.attempt_uid, {}),
            ),
        )
        for member in members
    ]


def never_started(uid: str, now_ms: int) -> Ended:
    """An attempt that was stopped before it began."""
    return Ended(uid, AttemptEnd(EndKind.KILLED, message="was stopped before it started"), None, now_ms)
