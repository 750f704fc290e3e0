"""LaunchJob as it goes out: to a peer, and as the request that a job's status shows."""

from dataclasses import replace

from iris_fed.model.constraints import CLUSTER_KEY
from iris_fed.model.jobs import Job
from iris_fed.model.spec import Handoff, JobSpec, Submission
from iris_fed.model.states import ExistingJobPolicy
from iris_fed.rpc.gen.cluster.controller_pb2 import Controller
from iris_fed.rpc.gen.job import job_pb2
from iris_fed.rpc.wire.checks import wire_duration
from iris_fed.rpc.wire.enums import POLICIES, band_to_wire, number_name
from iris_fed.rpc.wire.resources import constraint_to_wire, resources_to_wire

MASK = "********"


def submission_to_wire(submission: Submission) -> Controller.LaunchJobRequest:
    """The request that means `submission`. A handoff goes without its cluster pin, which a real
    Iris would refuse; the JSON codec is no way to send it (wire contract, "Rules")."""
    spec = submission.spec
    if submission.handoff is not None:
        spec = replace(spec, constraints=tuple(c for c in spec.constraints if c.key != CLUSTER_KEY))
    request = _request(spec)
    request.MergeFrom(
        Controller.LaunchJobRequest(
            name=submission.name,
            priority_band=band_to_wire(submission.band),
            bundle_blob=submission.bundle or None,
            federation=_handoff(submission.handoff) if submission.handoff else None,
        )
    )
    if submission.policy is not ExistingJobPolicy.UNSPECIFIED:
        request.MergeFrom(Controller.LaunchJobRequest(existing_job_policy=POLICIES.wire_name(submission.policy)))
    return request


def request_of_job(job: Job, *, content: bool = True) -> Controller.LaunchJobRequest:
    """What was asked for, for people to see: secrets are masked, bundle and file contents left out.

    Without `content` also what would tell what the job does: command lines, environment, set-up, bundle.
    """
    spec = replace(job.spec, secrets=dict.fromkeys(job.spec.secrets, MASK), workdir_files={})
    if not content:
        spec = replace(
            spec, argv=(), submit_argv=(), env={}, secrets={}, setup_scripts=(), setup_commands=(), bundle_id=""
        )
    request = _request(spec)
    request.MergeFrom(Controller.LaunchJobRequest(name=job.job_id, priority_band=band_to_wire(job.band)))
    return request


def _request(spec: JobSpec) -> Controller.LaunchJobRequest:
    coscheduling = spec.coscheduling_group_by
    return Controller.LaunchJobRequest(
        entrypoint=_entrypoint(spec),
        resources=resources_to_wire(spec.resources),
        environment=job_pb2.EnvironmentConfig(
            env_vars=spec.env, secrets=spec.secrets, setup_scripts=spec.setup_scripts
        ),
        bundle_id=spec.bundle_id or None,
        scheduling_timeout=wire_duration(spec.scheduling_timeout_ms),
        setup_timeout=wire_duration(spec.setup_timeout_ms),
        ports=spec.ports,
        max_task_failures=spec.max_task_failures,
        max_retries_failure=spec.max_retries_failure,
        max_retries_preemption=spec.max_retries_preemption,
        constraints=[constraint_to_wire(constraint) for constraint in spec.constraints],
        coscheduling=None if coscheduling is None else job_pb2.CoschedulingConfig(group_by=coscheduling),
        replicas=spec.replicas,
        timeout=wire_duration(spec.timeout_ms),
        preemption_policy=_given("JobPreemptionPolicy", spec.preemption_policy),
        task_image=spec.task_image or None,
        submit_argv=spec.submit_argv,
        client_revision_date=spec.client_revision_date or None,
        container_profile=_given("ContainerProfile", spec.container_profile),
        egress_policy=_given("EgressPolicy", spec.egress_policy),
    )


def _entrypoint(spec: JobSpec) -> job_pb2.RuntimeEntrypoint:
    return job_pb2.RuntimeEntrypoint(
        setup_commands=spec.setup_commands,
        run_command=job_pb2.CommandEntrypoint(argv=spec.argv),
        workdir_files=spec.workdir_files,
    )


def _given(wire: str, number: int) -> str | None:
    return number_name(wire, number) if number else None


def _handoff(handoff: Handoff) -> Controller.FederationHandoff:
    return Controller.FederationHandoff(
        requester_id=handoff.requester,
        owner_principal=handoff.owner,
        submitting_user=handoff.submitting_user,
        handoff_nonce=handoff.nonce,
        database_id=handoff.database_id or None,
        expires_ms=handoff.expires_ms,
    )
