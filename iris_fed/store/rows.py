"""Database rows <-> the model's values, column by column, in one place each."""

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import asdict
from enum import Enum
from typing import Any

from iris_fed.model.federation import PeerState, ReceivedHandle, SentHandle
from iris_fed.model.jobs import Attempt, Job, Task
from iris_fed.model.resources import Availability, BackendSummary, NodeShape, Usage
from iris_fed.model.spec import JobSpec
from iris_fed.model.states import (
    Band,
    ExistingJobPolicy,
    JobState,
    PeerStatus,
    ReceivedState,
    SentState,
    TaskState,
)
from iris_fed.store.spec_codec import spec_from_text, spec_to_text

Columns = dict[str, Any]

JOB_COLUMNS = {name: name for name in Job.__dataclass_fields__}
TASK_COLUMNS = {name: name for name in Task.__dataclass_fields__} | {"index": "idx"}
ATTEMPT_COLUMNS = {name: name for name in Attempt.__dataclass_fields__}
SENT_COLUMNS = {name: name for name in SentHandle.__dataclass_fields__} | {"peer": "counterpart"}
RECEIVED_COLUMNS = {name: name for name in ReceivedHandle.__dataclass_fields__} | {"requester": "counterpart"}
PEER_COLUMNS = {name: name for name in PeerState.__dataclass_fields__}


def job_from_row(row: sqlite3.Row) -> Job:
    values = _values(row, JOB_COLUMNS)
    values["spec"] = spec_from_text(values["spec"])
    values["band"] = Band(values["band"])
    values["state"] = JobState(values["state"])
    values["peer_status"] = PeerStatus(values["peer_status"])
    values["stop_state"] = JobState(values["stop_state"]) if values["stop_state"] else None
    return Job(**values)


def task_from_row(row: sqlite3.Row) -> Task:
    values = _values(row, TASK_COLUMNS)
    values["state"] = TaskState(values["state"])
    return Task(**values)


def attempt_from_row(row: sqlite3.Row) -> Attempt:
    values = _values(row, ATTEMPT_COLUMNS)
    values["state"] = TaskState(values["state"])
    values["devices"] = tuple(json.loads(values["devices"]))
    values["ports"] = json.loads(values["ports"])
    values["usage"] = Usage(**json.loads(values["usage"]))
    values["mirrored"] = bool(values["mirrored"])
    values["files_gone"] = bool(values["files_gone"])
    values["is_worker_failure"] = bool(values["is_worker_failure"])
    return Attempt(**values)


def sent_from_row(row: sqlite3.Row) -> SentHandle:
    values = _values(row, SENT_COLUMNS)
    values["state"] = SentState(values["state"])
    values["policy"] = ExistingJobPolicy(values["policy"])
    for flag in ("sent", "unanswered", "cancel_acked", "lost", "adopted"):
        values[flag] = bool(values[flag])
    return SentHandle(**values)


def received_from_row(row: sqlite3.Row) -> ReceivedHandle:
    values = _values(row, RECEIVED_COLUMNS)
    values["state"] = ReceivedState(values["state"])
    values["end_state"] = JobState(values["end_state"]) if values["end_state"] else None
    return ReceivedHandle(**values)


def peer_from_row(row: sqlite3.Row) -> PeerState:
    values = _values(row, PEER_COLUMNS)
    values["full_set_done"] = bool(values["full_set_done"])
    if values["backends"] is not None:
        values["backends"] = tuple(_backend_from_json(item) for item in json.loads(values["backends"]))
    return PeerState(**values)


def to_columns(value: Any, columns: Mapping[str, str]) -> Columns:
    """Every field of a row value, as SQLite takes it."""
    return {column: to_sql(getattr(value, name)) for name, column in columns.items()}


def changed_columns(before: Any, after: Any, columns: Mapping[str, str]) -> Columns:
    """Only what differs."""
    return {
        column: to_sql(getattr(after, name))
        for name, column in columns.items()
        if getattr(before, name) != getattr(after, name)
    }


def to_sql(value: Any) -> Any:
    if isinstance(value, JobSpec):
        return spec_to_text(value)
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        return json.dumps([asdict(item) if isinstance(item, BackendSummary) else item for item in value])
    if isinstance(value, Usage):
        return json.dumps(asdict(value))
    if isinstance(value, Mapping):
        return json.dumps(dict(value))
    return value


def _values(row: sqlite3.Row, columns: Mapping[str, str]) -> dict[str, Any]:
    return {name: row[column] for name, column in columns.items()}


def _backend_from_json(item: dict[str, Any]) -> BackendSummary:
    availability, largest = item.pop("availability"), item.pop("largest_node")
    return BackendSummary(
        **{
            **item,
            "capabilities": tuple(item["capabilities"]),
            "attributes": {key: tuple(values) for key, values in item["attributes"].items()},
        },
        availability=Availability(**availability) if availability else None,
        largest_node=NodeShape(**largest) if largest else None,
    )
