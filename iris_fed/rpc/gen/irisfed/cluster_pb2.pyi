from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class WatchChangesRequest(_message.Message):
    __slots__ = ("position", "job_id", "wait_ms")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    position: str
    job_id: str
    wait_ms: int
    def __init__(self, position: _Optional[str] = ..., job_id: _Optional[str] = ..., wait_ms: _Optional[int] = ...) -> None: ...

class WatchChangesResponse(_message.Message):
    __slots__ = ("position", "root_job_ids", "all_jobs", "peers", "backends")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    ROOT_JOB_IDS_FIELD_NUMBER: _ClassVar[int]
    ALL_JOBS_FIELD_NUMBER: _ClassVar[int]
    PEERS_FIELD_NUMBER: _ClassVar[int]
    BACKENDS_FIELD_NUMBER: _ClassVar[int]
    position: str
    root_job_ids: _containers.RepeatedScalarFieldContainer[str]
    all_jobs: bool
    peers: bool
    backends: bool
    def __init__(self, position: _Optional[str] = ..., root_job_ids: _Optional[_Iterable[str]] = ..., all_jobs: _Optional[bool] = ..., peers: _Optional[bool] = ..., backends: _Optional[bool] = ...) -> None: ...

class GetClusterInfoRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetClusterInfoResponse(_message.Message):
    __slots__ = ("cluster", "version", "database_id", "started_ms", "peers")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    STARTED_MS_FIELD_NUMBER: _ClassVar[int]
    PEERS_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    version: str
    database_id: str
    started_ms: int
    peers: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, cluster: _Optional[str] = ..., version: _Optional[str] = ..., database_id: _Optional[str] = ..., started_ms: _Optional[int] = ..., peers: _Optional[_Iterable[str]] = ...) -> None: ...

class LogPosition(_message.Message):
    __slots__ = ("task_id", "attempt_id", "offset")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    attempt_id: int
    offset: int
    def __init__(self, task_id: _Optional[str] = ..., attempt_id: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class ReadLogsRequest(_message.Message):
    __slots__ = ("id", "attempt_id", "positions", "follow", "tail_lines", "submitted_ms", "handoff_nonce")
    ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_ID_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    TAIL_LINES_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_MS_FIELD_NUMBER: _ClassVar[int]
    HANDOFF_NONCE_FIELD_NUMBER: _ClassVar[int]
    id: str
    attempt_id: int
    positions: _containers.RepeatedCompositeFieldContainer[LogPosition]
    follow: bool
    tail_lines: int
    submitted_ms: int
    handoff_nonce: str
    def __init__(self, id: _Optional[str] = ..., attempt_id: _Optional[int] = ..., positions: _Optional[_Iterable[_Union[LogPosition, _Mapping]]] = ..., follow: _Optional[bool] = ..., tail_lines: _Optional[int] = ..., submitted_ms: _Optional[int] = ..., handoff_nonce: _Optional[str] = ...) -> None: ...

class LogLine(_message.Message):
    __slots__ = ("task_id", "attempt_id", "offset", "next_offset", "time_ms", "data", "dropped_bytes")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    TIME_MS_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    DROPPED_BYTES_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    attempt_id: int
    offset: int
    next_offset: int
    time_ms: int
    data: bytes
    dropped_bytes: int
    def __init__(self, task_id: _Optional[str] = ..., attempt_id: _Optional[int] = ..., offset: _Optional[int] = ..., next_offset: _Optional[int] = ..., time_ms: _Optional[int] = ..., data: _Optional[bytes] = ..., dropped_bytes: _Optional[int] = ...) -> None: ...

class ReadLogsResponse(_message.Message):
    __slots__ = ("lines", "notice")
    LINES_FIELD_NUMBER: _ClassVar[int]
    NOTICE_FIELD_NUMBER: _ClassVar[int]
    lines: _containers.RepeatedCompositeFieldContainer[LogLine]
    notice: str
    def __init__(self, lines: _Optional[_Iterable[_Union[LogLine, _Mapping]]] = ..., notice: _Optional[str] = ...) -> None: ...

class ListJobEventsRequest(_message.Message):
    __slots__ = ("job_id", "handoff_nonce")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    HANDOFF_NONCE_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    handoff_nonce: str
    def __init__(self, job_id: _Optional[str] = ..., handoff_nonce: _Optional[str] = ...) -> None: ...

class JobEvent(_message.Message):
    __slots__ = ("time_ms", "kind", "message", "task_index")
    TIME_MS_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    TASK_INDEX_FIELD_NUMBER: _ClassVar[int]
    time_ms: int
    kind: str
    message: str
    task_index: int
    def __init__(self, time_ms: _Optional[int] = ..., kind: _Optional[str] = ..., message: _Optional[str] = ..., task_index: _Optional[int] = ...) -> None: ...

class ListJobEventsResponse(_message.Message):
    __slots__ = ("events",)
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[JobEvent]
    def __init__(self, events: _Optional[_Iterable[_Union[JobEvent, _Mapping]]] = ...) -> None: ...

class ListFilesRequest(_message.Message):
    __slots__ = ("task_id", "attempt_id", "path")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_ID_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    attempt_id: int
    path: str
    def __init__(self, task_id: _Optional[str] = ..., attempt_id: _Optional[int] = ..., path: _Optional[str] = ...) -> None: ...

class FileEntry(_message.Message):
    __slots__ = ("path", "is_folder", "size", "modified_ms", "mode")
    PATH_FIELD_NUMBER: _ClassVar[int]
    IS_FOLDER_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    MODIFIED_MS_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    path: str
    is_folder: bool
    size: int
    modified_ms: int
    mode: int
    def __init__(self, path: _Optional[str] = ..., is_folder: _Optional[bool] = ..., size: _Optional[int] = ..., modified_ms: _Optional[int] = ..., mode: _Optional[int] = ...) -> None: ...

class ListFilesResponse(_message.Message):
    __slots__ = ("entries", "truncated")
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[FileEntry]
    truncated: bool
    def __init__(self, entries: _Optional[_Iterable[_Union[FileEntry, _Mapping]]] = ..., truncated: _Optional[bool] = ...) -> None: ...

class ReadFileRequest(_message.Message):
    __slots__ = ("task_id", "attempt_id", "path", "offset")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_ID_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    attempt_id: int
    path: str
    offset: int
    def __init__(self, task_id: _Optional[str] = ..., attempt_id: _Optional[int] = ..., path: _Optional[str] = ..., offset: _Optional[int] = ...) -> None: ...

class ReadFileResponse(_message.Message):
    __slots__ = ("data", "size")
    DATA_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    size: int
    def __init__(self, data: _Optional[bytes] = ..., size: _Optional[int] = ...) -> None: ...

class CheckPeerRequest(_message.Message):
    __slots__ = ("peer",)
    PEER_FIELD_NUMBER: _ClassVar[int]
    peer: str
    def __init__(self, peer: _Optional[str] = ...) -> None: ...

class CheckStep(_message.Message):
    __slots__ = ("step", "ok", "detail")
    STEP_FIELD_NUMBER: _ClassVar[int]
    OK_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    step: str
    ok: bool
    detail: str
    def __init__(self, step: _Optional[str] = ..., ok: _Optional[bool] = ..., detail: _Optional[str] = ...) -> None: ...

class CheckPeerResponse(_message.Message):
    __slots__ = ("steps",)
    STEPS_FIELD_NUMBER: _ClassVar[int]
    steps: _containers.RepeatedCompositeFieldContainer[CheckStep]
    def __init__(self, steps: _Optional[_Iterable[_Union[CheckStep, _Mapping]]] = ...) -> None: ...

class ForgetPeerRequest(_message.Message):
    __slots__ = ("peer",)
    PEER_FIELD_NUMBER: _ClassVar[int]
    peer: str
    def __init__(self, peer: _Optional[str] = ...) -> None: ...

class ForgetPeerResponse(_message.Message):
    __slots__ = ("jobs_lost",)
    JOBS_LOST_FIELD_NUMBER: _ClassVar[int]
    jobs_lost: int
    def __init__(self, jobs_lost: _Optional[int] = ...) -> None: ...

class CheckAdmissionRequest(_message.Message):
    __slots__ = ("submitting_user",)
    SUBMITTING_USER_FIELD_NUMBER: _ClassVar[int]
    submitting_user: str
    def __init__(self, submitting_user: _Optional[str] = ...) -> None: ...

class CheckAdmissionResponse(_message.Message):
    __slots__ = ("cluster", "admitted", "reason")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    ADMITTED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    admitted: bool
    reason: str
    def __init__(self, cluster: _Optional[str] = ..., admitted: _Optional[bool] = ..., reason: _Optional[str] = ...) -> None: ...

class UserToken(_message.Message):
    __slots__ = ("token_id", "user", "role", "note", "created_by", "created_ms", "expires_ms", "revoked_ms", "revoked_by")
    TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    CREATED_BY_FIELD_NUMBER: _ClassVar[int]
    CREATED_MS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_MS_FIELD_NUMBER: _ClassVar[int]
    REVOKED_MS_FIELD_NUMBER: _ClassVar[int]
    REVOKED_BY_FIELD_NUMBER: _ClassVar[int]
    token_id: str
    user: str
    role: str
    note: str
    created_by: str
    created_ms: int
    expires_ms: int
    revoked_ms: int
    revoked_by: str
    def __init__(self, token_id: _Optional[str] = ..., user: _Optional[str] = ..., role: _Optional[str] = ..., note: _Optional[str] = ..., created_by: _Optional[str] = ..., created_ms: _Optional[int] = ..., expires_ms: _Optional[int] = ..., revoked_ms: _Optional[int] = ..., revoked_by: _Optional[str] = ...) -> None: ...

class CreateUserTokenRequest(_message.Message):
    __slots__ = ("user", "role", "lifetime_s", "note")
    USER_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    LIFETIME_S_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    user: str
    role: str
    lifetime_s: int
    note: str
    def __init__(self, user: _Optional[str] = ..., role: _Optional[str] = ..., lifetime_s: _Optional[int] = ..., note: _Optional[str] = ...) -> None: ...

class CreateUserTokenResponse(_message.Message):
    __slots__ = ("token", "info")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    INFO_FIELD_NUMBER: _ClassVar[int]
    token: str
    info: UserToken
    def __init__(self, token: _Optional[str] = ..., info: _Optional[_Union[UserToken, _Mapping]] = ...) -> None: ...

class ListUserTokensRequest(_message.Message):
    __slots__ = ("user",)
    USER_FIELD_NUMBER: _ClassVar[int]
    user: str
    def __init__(self, user: _Optional[str] = ...) -> None: ...

class ListUserTokensResponse(_message.Message):
    __slots__ = ("tokens",)
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    tokens: _containers.RepeatedCompositeFieldContainer[UserToken]
    def __init__(self, tokens: _Optional[_Iterable[_Union[UserToken, _Mapping]]] = ...) -> None: ...

class RevokeUserTokenRequest(_message.Message):
    __slots__ = ("token_id", "user")
    TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    token_id: str
    user: str
    def __init__(self, token_id: _Optional[str] = ..., user: _Optional[str] = ...) -> None: ...

class RevokeUserTokenResponse(_message.Message):
    __slots__ = ("tokens",)
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    tokens: _containers.RepeatedCompositeFieldContainer[UserToken]
    def __init__(self, tokens: _Optional[_Iterable[_Union[UserToken, _Mapping]]] = ...) -> None: ...
