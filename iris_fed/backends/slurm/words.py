"""What Slurm's states and reasons mean, in our kinds and in words. Pure.

Sources: the job states and reason codes of https://slurm.schedmd.com/squeue.html and
https://slurm.schedmd.com/job_reason_codes.html.
"""

import re
from collections.abc import Mapping

from iris_fed.model.observed import EndKind

RUNNING_STATES = frozenset(
    {"RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING", "CONFIGURING"}
)
"""The job holds machines. CONFIGURING ones boot for it."""

PENDING_STATES = frozenset(
    {
        "PENDING",
        "REQUEUED",
        "REQUEUE_FED",
        "REQUEUE_HOLD",
        "RESV_DEL_HOLD",
        "SPECIAL_EXIT",
        "EXPEDITING",
        "POWER_UP_NODE",
    }
)
"""It waits. What was requeued is not run twice: its keeper finds that it has begun before."""

ACTIVE_STATES = RUNNING_STATES | PENDING_STATES

END_STATES: Mapping[str, tuple[EndKind, str]] = {
    "COMPLETED": (EndKind.LOST, "has ended in Slurm and left no result"),
    "FAILED": (EndKind.LOST, "has failed in Slurm and left no result"),
    "CANCELLED": (EndKind.CANCELLED, "was cancelled in Slurm, not by this cluster"),
    "REVOKED": (EndKind.CANCELLED, "was revoked by Slurm: another cluster of its federation runs it"),
    "TIMEOUT": (EndKind.TIMED_OUT, "ran longer than Slurm allows it (the limit of the job or its partition)"),
    "DEADLINE": (EndKind.TIMED_OUT, "passed the deadline that Slurm has for it"),
    "OUT_OF_MEMORY": (EndKind.OUT_OF_MEMORY, "used more memory than Slurm allows it"),
    "NODE_FAIL": (EndKind.LOST, "was lost: a node that it ran on failed"),
    "BOOT_FAIL": (EndKind.LOST, "was lost: a node did not boot for it"),
    "LAUNCH_FAILED": (EndKind.LOST, "was lost: Slurm could not start it on its node"),
    "RECONFIG_FAIL": (EndKind.LOST, "was lost: its node could not be set up for it"),
    "PREEMPTED": (EndKind.PREEMPTED, "was preempted in Slurm by a job of higher priority"),
}
"""How a job ended that says no more of itself."""

NORMAL_ENDS = frozenset({"COMPLETED", "FAILED"})
"""Its programs ended by themselves: their own results say more."""

_REASONS: Mapping[str, str] = {
    "": "Slurm has not looked at it yet",
    "None": "Slurm has not looked at it yet",
    "Resources": "for machines to become free",
    "Priority": "jobs of higher priority come first",
    "Dependency": "for a job that it depends on",
    "DependencyNeverSatisfied": "for a job that it depends on, which has failed",
    "BeginTime": "for its begin time",
    "JobHeldUser": "it is held by a user (scontrol release)",
    "JobHeldAdmin": "it is held by an administrator",
    "JobHoldMaxRequeue": "it is held: it was requeued too often",
    "launch_failed_requeued_held": "it is held: its start failed",
    "job_requeued_in_held_state": "it is held: it was requeued so",
    "Licenses": "for licences",
    "Reservation": "for its reservation to begin",
    "ReservationDeleted": "its reservation was deleted",
    "PartitionDown": "its partition is down",
    "PartitionInactive": "its partition takes no jobs now",
    "PartitionNodeLimit": "it asks for more nodes than its partition allows",
    "PartitionTimeLimit": "it asks for more time than its partition allows",
    "PartitionConfig": "its partition does not allow what it asks for",
    "NodeDown": "a node that it needs is down",
    "ReqNodeNotAvail": "machines that it needs are down, drained or reserved",
    "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions": (
        "machines that it needs are down, drained or reserved"
    ),
    "BadConstraints": "no machine has what it asks for",
    "InvalidAccount": "its account is not valid",
    "InvalidQOS": "its QOS is not valid",
    "AccountNotAllowed": "its account may not use the partition",
    "QOSNotAllowed": "its QOS may not be used in the partition",
    "QOSJobLimit": "its QOS has its most jobs running",
    "QOSResourceLimit": "its QOS has its most resources in use",
    "QOSTimeLimit": "its QOS allows less time",
    "QOSUsageThreshold": "its QOS has a usage threshold that was passed",
    "AssociationJobLimit": "its account has its most jobs running",
    "AssociationResourceLimit": "its account has its most resources in use",
    "AssociationTimeLimit": "its account allows less time",
    "JobArrayTaskLimit": "its array has its most tasks running",
    "Prolog": "a prolog runs for it",
    "Cleaning": "what ran before is cleaned up",
    "FrontEndDown": "no front end node is up",
    "MaxMemPerLimit": "it asks for more memory than is allowed",
    "SystemFailure": "Slurm itself has failed",
    "WaitingForScheduling": "Slurm has not looked at it yet",
}
_LIMIT = re.compile(r"(QOS|Assoc)(Max|Min|Grp)(\w+?)(PerUser|PerAccount|PerJob|PerNode|Minutes|Limit)*")
_OWNERS = {"QOS": "its QOS", "Assoc": "its account"}
_TRANSIENT = (
    "unable to contact slurm controller",
    "socket timed out",
    "connection refused",
    "temporarily unable to accept job",
    "zero bytes were transmitted",
    "transport endpoint",
    "communication connection failure",
    "unable to connect",
    "slurm_persist_conn",
    "invalid authentication credential",
    "protocol authentication error",
    "munge",
    "job submit limit",
    "resource temporarily unavailable",
    "slurmdbd",
)
"""Of what a command says on failing: the same may succeed later, a full queue included."""


def reason_in_words(reason: str) -> str:
    """Why Slurm lets a job wait, for its user; Slurm's own word is kept where it tells an operator more."""
    code, _, detail = reason.strip().strip("()").partition(", ")
    words = _REASONS.get(reason.strip()) or _REASONS.get(code)
    if words is not None:
        nodes = detail.partition(":")[2]
        return f"{words} ({nodes[:200]})" if nodes else words
    limit = _LIMIT.match(code)
    if limit is not None:
        return f"a limit of {_OWNERS[limit[1]]} is reached ({code})"
    return f"Slurm says {reason.strip()[:200]}"


def is_passing(error: str) -> bool:
    """Whether what a command said on failing may go by itself."""
    said = error.lower()
    return any(words in said for words in _TRANSIENT)
