from iris_fed.rpc.gen.job import job_pb2 as _job_pb2
from iris_fed.rpc.gen.time import time_pb2 as _time_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StringList(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, values: _Optional[_Iterable[str]] = ...) -> None: ...

class Controller(_message.Message):
    __slots__ = ()
    class EndpointAccess(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        ENDPOINT_ACCESS_PRIVATE: _ClassVar[Controller.EndpointAccess]
        ENDPOINT_ACCESS_LINK: _ClassVar[Controller.EndpointAccess]
    ENDPOINT_ACCESS_PRIVATE: Controller.EndpointAccess
    ENDPOINT_ACCESS_LINK: Controller.EndpointAccess
    class JobQueryScope(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        JOB_QUERY_SCOPE_UNSPECIFIED: _ClassVar[Controller.JobQueryScope]
        JOB_QUERY_SCOPE_ALL: _ClassVar[Controller.JobQueryScope]
        JOB_QUERY_SCOPE_ROOTS: _ClassVar[Controller.JobQueryScope]
        JOB_QUERY_SCOPE_CHILDREN: _ClassVar[Controller.JobQueryScope]
    JOB_QUERY_SCOPE_UNSPECIFIED: Controller.JobQueryScope
    JOB_QUERY_SCOPE_ALL: Controller.JobQueryScope
    JOB_QUERY_SCOPE_ROOTS: Controller.JobQueryScope
    JOB_QUERY_SCOPE_CHILDREN: Controller.JobQueryScope
    class JobSortField(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        JOB_SORT_FIELD_UNSPECIFIED: _ClassVar[Controller.JobSortField]
        JOB_SORT_FIELD_DATE: _ClassVar[Controller.JobSortField]
        JOB_SORT_FIELD_NAME: _ClassVar[Controller.JobSortField]
        JOB_SORT_FIELD_STATE: _ClassVar[Controller.JobSortField]
        JOB_SORT_FIELD_FAILURES: _ClassVar[Controller.JobSortField]
        JOB_SORT_FIELD_PREEMPTIONS: _ClassVar[Controller.JobSortField]
    JOB_SORT_FIELD_UNSPECIFIED: Controller.JobSortField
    JOB_SORT_FIELD_DATE: Controller.JobSortField
    JOB_SORT_FIELD_NAME: Controller.JobSortField
    JOB_SORT_FIELD_STATE: Controller.JobSortField
    JOB_SORT_FIELD_FAILURES: Controller.JobSortField
    JOB_SORT_FIELD_PREEMPTIONS: Controller.JobSortField
    class SortDirection(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        SORT_DIRECTION_UNSPECIFIED: _ClassVar[Controller.SortDirection]
        SORT_DIRECTION_ASC: _ClassVar[Controller.SortDirection]
        SORT_DIRECTION_DESC: _ClassVar[Controller.SortDirection]
    SORT_DIRECTION_UNSPECIFIED: Controller.SortDirection
    SORT_DIRECTION_ASC: Controller.SortDirection
    SORT_DIRECTION_DESC: Controller.SortDirection
    class BackendSummary(_message.Message):
        __slots__ = ("backend_id", "name", "kind", "capabilities", "advertised_attributes", "scale_groups", "worker_count", "pending_task_count", "running_task_count", "has_autoscaler", "capacity_health", "availability", "largest_node", "trouble")
        class AdvertisedAttributesEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: StringList
            def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[StringList, _Mapping]] = ...) -> None: ...
        class CapacityHealthEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: int
            def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
        BACKEND_ID_FIELD_NUMBER: _ClassVar[int]
        NAME_FIELD_NUMBER: _ClassVar[int]
        KIND_FIELD_NUMBER: _ClassVar[int]
        CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
        ADVERTISED_ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
        SCALE_GROUPS_FIELD_NUMBER: _ClassVar[int]
        WORKER_COUNT_FIELD_NUMBER: _ClassVar[int]
        PENDING_TASK_COUNT_FIELD_NUMBER: _ClassVar[int]
        RUNNING_TASK_COUNT_FIELD_NUMBER: _ClassVar[int]
        HAS_AUTOSCALER_FIELD_NUMBER: _ClassVar[int]
        CAPACITY_HEALTH_FIELD_NUMBER: _ClassVar[int]
        AVAILABILITY_FIELD_NUMBER: _ClassVar[int]
        LARGEST_NODE_FIELD_NUMBER: _ClassVar[int]
        TROUBLE_FIELD_NUMBER: _ClassVar[int]
        backend_id: str
        name: str
        kind: str
        capabilities: _containers.RepeatedScalarFieldContainer[str]
        advertised_attributes: _containers.MessageMap[str, StringList]
        scale_groups: _containers.RepeatedScalarFieldContainer[str]
        worker_count: int
        pending_task_count: int
        running_task_count: int
        has_autoscaler: bool
        capacity_health: _containers.ScalarMap[str, int]
        availability: Controller.ResourceAvailability
        largest_node: Controller.NodeShape
        trouble: str
        def __init__(self, backend_id: _Optional[str] = ..., name: _Optional[str] = ..., kind: _Optional[str] = ..., capabilities: _Optional[_Iterable[str]] = ..., advertised_attributes: _Optional[_Mapping[str, StringList]] = ..., scale_groups: _Optional[_Iterable[str]] = ..., worker_count: _Optional[int] = ..., pending_task_count: _Optional[int] = ..., running_task_count: _Optional[int] = ..., has_autoscaler: _Optional[bool] = ..., capacity_health: _Optional[_Mapping[str, int]] = ..., availability: _Optional[_Union[Controller.ResourceAvailability, _Mapping]] = ..., largest_node: _Optional[_Union[Controller.NodeShape, _Mapping]] = ..., trouble: _Optional[str] = ...) -> None: ...
    class NodeShape(_message.Message):
        __slots__ = ("cpu_millicores", "memory_bytes", "devices")
        class DevicesEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: int
            def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
        CPU_MILLICORES_FIELD_NUMBER: _ClassVar[int]
        MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
        DEVICES_FIELD_NUMBER: _ClassVar[int]
        cpu_millicores: int
        memory_bytes: int
        devices: _containers.ScalarMap[str, int]
        def __init__(self, cpu_millicores: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., devices: _Optional[_Mapping[str, int]] = ...) -> None: ...
    class BandCapacity(_message.Message):
        __slots__ = ("band", "amounts")
        class AmountsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: int
            def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
        BAND_FIELD_NUMBER: _ClassVar[int]
        AMOUNTS_FIELD_NUMBER: _ClassVar[int]
        band: _job_pb2.PriorityBand
        amounts: _containers.ScalarMap[str, int]
        def __init__(self, band: _Optional[_Union[_job_pb2.PriorityBand, str]] = ..., amounts: _Optional[_Mapping[str, int]] = ...) -> None: ...
    class ExecInContainerRequest(_message.Message):
        __slots__ = ("task_id", "command", "timeout_seconds")
        TASK_ID_FIELD_NUMBER: _ClassVar[int]
        COMMAND_FIELD_NUMBER: _ClassVar[int]
        TIMEOUT_SECONDS_FIELD_NUMBER: _ClassVar[int]
        task_id: str
        command: _containers.RepeatedScalarFieldContainer[str]
        timeout_seconds: int
        def __init__(self, task_id: _Optional[str] = ..., command: _Optional[_Iterable[str]] = ..., timeout_seconds: _Optional[int] = ...) -> None: ...
    class ExecInContainerResponse(_message.Message):
        __slots__ = ("exit_code", "stdout", "stderr", "error")
        EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
        STDOUT_FIELD_NUMBER: _ClassVar[int]
        STDERR_FIELD_NUMBER: _ClassVar[int]
        ERROR_FIELD_NUMBER: _ClassVar[int]
        exit_code: int
        stdout: str
        stderr: str
        error: str
        def __init__(self, exit_code: _Optional[int] = ..., stdout: _Optional[str] = ..., stderr: _Optional[str] = ..., error: _Optional[str] = ...) -> None: ...
    class FederationBudgetPolicy(_message.Message):
        __slots__ = ("users", "default_budget_limit", "default_max_band")
        USERS_FIELD_NUMBER: _ClassVar[int]
        DEFAULT_BUDGET_LIMIT_FIELD_NUMBER: _ClassVar[int]
        DEFAULT_MAX_BAND_FIELD_NUMBER: _ClassVar[int]
        users: _containers.RepeatedCompositeFieldContainer[Controller.GetUserBudgetResponse]
        default_budget_limit: int
        default_max_band: _job_pb2.PriorityBand
        def __init__(self, users: _Optional[_Iterable[_Union[Controller.GetUserBudgetResponse, _Mapping]]] = ..., default_budget_limit: _Optional[int] = ..., default_max_band: _Optional[_Union[_job_pb2.PriorityBand, str]] = ...) -> None: ...
    class FederationBudgetUsage(_message.Message):
        __slots__ = ("budget_parent", "spend")
        class SpendEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: int
            def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
        BUDGET_PARENT_FIELD_NUMBER: _ClassVar[int]
        SPEND_FIELD_NUMBER: _ClassVar[int]
        budget_parent: str
        spend: _containers.ScalarMap[str, int]
        def __init__(self, budget_parent: _Optional[str] = ..., spend: _Optional[_Mapping[str, int]] = ...) -> None: ...
    class FederationEndpoint(_message.Message):
        __slots__ = ("endpoint_id", "name", "address", "task_id", "access", "metadata", "lease_remaining")
        class MetadataEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: str
            def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
        ENDPOINT_ID_FIELD_NUMBER: _ClassVar[int]
        NAME_FIELD_NUMBER: _ClassVar[int]
        ADDRESS_FIELD_NUMBER: _ClassVar[int]
        TASK_ID_FIELD_NUMBER: _ClassVar[int]
        ACCESS_FIELD_NUMBER: _ClassVar[int]
        METADATA_FIELD_NUMBER: _ClassVar[int]
        LEASE_REMAINING_FIELD_NUMBER: _ClassVar[int]
        endpoint_id: str
        name: str
        address: str
        task_id: str
        access: Controller.EndpointAccess
        metadata: _containers.ScalarMap[str, str]
        lease_remaining: _time_pb2.Duration
        def __init__(self, endpoint_id: _Optional[str] = ..., name: _Optional[str] = ..., address: _Optional[str] = ..., task_id: _Optional[str] = ..., access: _Optional[_Union[Controller.EndpointAccess, str]] = ..., metadata: _Optional[_Mapping[str, str]] = ..., lease_remaining: _Optional[_Union[_time_pb2.Duration, _Mapping]] = ...) -> None: ...
    class FederationHandoff(_message.Message):
        __slots__ = ("requester_id", "owner_principal", "submitting_user", "handoff_nonce", "database_id", "expires_ms")
        REQUESTER_ID_FIELD_NUMBER: _ClassVar[int]
        OWNER_PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
        SUBMITTING_USER_FIELD_NUMBER: _ClassVar[int]
        HANDOFF_NONCE_FIELD_NUMBER: _ClassVar[int]
        DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
        EXPIRES_MS_FIELD_NUMBER: _ClassVar[int]
        requester_id: str
        owner_principal: str
        submitting_user: str
        handoff_nonce: str
        database_id: str
        expires_ms: int
        def __init__(self, requester_id: _Optional[str] = ..., owner_principal: _Optional[str] = ..., submitting_user: _Optional[str] = ..., handoff_nonce: _Optional[str] = ..., database_id: _Optional[str] = ..., expires_ms: _Optional[int] = ...) -> None: ...
    class FederationJobDelta(_message.Message):
        __slots__ = ("job_id", "summary", "changed_tasks", "tombstone", "handoff_nonce")
        JOB_ID_FIELD_NUMBER: _ClassVar[int]
        SUMMARY_FIELD_NUMBER: _ClassVar[int]
        CHANGED_TASKS_FIELD_NUMBER: _ClassVar[int]
        TOMBSTONE_FIELD_NUMBER: _ClassVar[int]
        HANDOFF_NONCE_FIELD_NUMBER: _ClassVar[int]
        job_id: str
        summary: _job_pb2.JobStatus
        changed_tasks: _containers.RepeatedCompositeFieldContainer[_job_pb2.TaskStatus]
        tombstone: bool
        handoff_nonce: str
        def __init__(self, job_id: _Optional[str] = ..., summary: _Optional[_Union[_job_pb2.JobStatus, _Mapping]] = ..., changed_tasks: _Optional[_Iterable[_Union[_job_pb2.TaskStatus, _Mapping]]] = ..., tombstone: _Optional[bool] = ..., handoff_nonce: _Optional[str] = ...) -> None: ...
    class FederationSyncRequest(_message.Message):
        __slots__ = ("requester_id", "cursor", "budget_policy", "wait_ms", "max_deltas")
        REQUESTER_ID_FIELD_NUMBER: _ClassVar[int]
        CURSOR_FIELD_NUMBER: _ClassVar[int]
        BUDGET_POLICY_FIELD_NUMBER: _ClassVar[int]
        WAIT_MS_FIELD_NUMBER: _ClassVar[int]
        MAX_DELTAS_FIELD_NUMBER: _ClassVar[int]
        requester_id: str
        cursor: str
        budget_policy: Controller.FederationBudgetPolicy
        wait_ms: int
        max_deltas: int
        def __init__(self, requester_id: _Optional[str] = ..., cursor: _Optional[str] = ..., budget_policy: _Optional[_Union[Controller.FederationBudgetPolicy, _Mapping]] = ..., wait_ms: _Optional[int] = ..., max_deltas: _Optional[int] = ...) -> None: ...
    class FederationSyncResponse(_message.Message):
        __slots__ = ("deltas", "next_cursor", "cursor_stale", "endpoints", "budget_usage", "more", "long_poll", "backends", "database_id")
        DELTAS_FIELD_NUMBER: _ClassVar[int]
        NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
        CURSOR_STALE_FIELD_NUMBER: _ClassVar[int]
        ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
        BUDGET_USAGE_FIELD_NUMBER: _ClassVar[int]
        MORE_FIELD_NUMBER: _ClassVar[int]
        LONG_POLL_FIELD_NUMBER: _ClassVar[int]
        BACKENDS_FIELD_NUMBER: _ClassVar[int]
        DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
        deltas: _containers.RepeatedCompositeFieldContainer[Controller.FederationJobDelta]
        next_cursor: str
        cursor_stale: bool
        endpoints: _containers.RepeatedCompositeFieldContainer[Controller.FederationEndpoint]
        budget_usage: Controller.FederationBudgetUsage
        more: bool
        long_poll: bool
        backends: _containers.RepeatedCompositeFieldContainer[Controller.BackendSummary]
        database_id: str
        def __init__(self, deltas: _Optional[_Iterable[_Union[Controller.FederationJobDelta, _Mapping]]] = ..., next_cursor: _Optional[str] = ..., cursor_stale: _Optional[bool] = ..., endpoints: _Optional[_Iterable[_Union[Controller.FederationEndpoint, _Mapping]]] = ..., budget_usage: _Optional[_Union[Controller.FederationBudgetUsage, _Mapping]] = ..., more: _Optional[bool] = ..., long_poll: _Optional[bool] = ..., backends: _Optional[_Iterable[_Union[Controller.BackendSummary, _Mapping]]] = ..., database_id: _Optional[str] = ...) -> None: ...
    class GetJobStateRequest(_message.Message):
        __slots__ = ("job_ids",)
        JOB_IDS_FIELD_NUMBER: _ClassVar[int]
        job_ids: _containers.RepeatedScalarFieldContainer[str]
        def __init__(self, job_ids: _Optional[_Iterable[str]] = ...) -> None: ...
    class GetJobStateResponse(_message.Message):
        __slots__ = ("states",)
        class StatesEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: _job_pb2.JobState
            def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_job_pb2.JobState, str]] = ...) -> None: ...
        STATES_FIELD_NUMBER: _ClassVar[int]
        states: _containers.ScalarMap[str, _job_pb2.JobState]
        def __init__(self, states: _Optional[_Mapping[str, _job_pb2.JobState]] = ...) -> None: ...
    class GetJobStatusRequest(_message.Message):
        __slots__ = ("job_id",)
        JOB_ID_FIELD_NUMBER: _ClassVar[int]
        job_id: str
        def __init__(self, job_id: _Optional[str] = ...) -> None: ...
    class GetJobStatusResponse(_message.Message):
        __slots__ = ("job", "request")
        JOB_FIELD_NUMBER: _ClassVar[int]
        REQUEST_FIELD_NUMBER: _ClassVar[int]
        job: _job_pb2.JobStatus
        request: Controller.LaunchJobRequest
        def __init__(self, job: _Optional[_Union[_job_pb2.JobStatus, _Mapping]] = ..., request: _Optional[_Union[Controller.LaunchJobRequest, _Mapping]] = ...) -> None: ...
    class GetTaskStatusRequest(_message.Message):
        __slots__ = ("task_id",)
        TASK_ID_FIELD_NUMBER: _ClassVar[int]
        task_id: str
        def __init__(self, task_id: _Optional[str] = ...) -> None: ...
    class GetTaskStatusResponse(_message.Message):
        __slots__ = ("task", "job_resources", "root_cause_highlights")
        TASK_FIELD_NUMBER: _ClassVar[int]
        JOB_RESOURCES_FIELD_NUMBER: _ClassVar[int]
        ROOT_CAUSE_HIGHLIGHTS_FIELD_NUMBER: _ClassVar[int]
        task: _job_pb2.TaskStatus
        job_resources: _job_pb2.ResourceSpecProto
        root_cause_highlights: _containers.RepeatedScalarFieldContainer[str]
        def __init__(self, task: _Optional[_Union[_job_pb2.TaskStatus, _Mapping]] = ..., job_resources: _Optional[_Union[_job_pb2.ResourceSpecProto, _Mapping]] = ..., root_cause_highlights: _Optional[_Iterable[str]] = ...) -> None: ...
    class GetUserBudgetRequest(_message.Message):
        __slots__ = ("user_id",)
        USER_ID_FIELD_NUMBER: _ClassVar[int]
        user_id: str
        def __init__(self, user_id: _Optional[str] = ...) -> None: ...
    class GetUserBudgetResponse(_message.Message):
        __slots__ = ("user_id", "budget_limit", "budget_spent", "max_band")
        USER_ID_FIELD_NUMBER: _ClassVar[int]
        BUDGET_LIMIT_FIELD_NUMBER: _ClassVar[int]
        BUDGET_SPENT_FIELD_NUMBER: _ClassVar[int]
        MAX_BAND_FIELD_NUMBER: _ClassVar[int]
        user_id: str
        budget_limit: int
        budget_spent: int
        max_band: _job_pb2.PriorityBand
        def __init__(self, user_id: _Optional[str] = ..., budget_limit: _Optional[int] = ..., budget_spent: _Optional[int] = ..., max_band: _Optional[_Union[_job_pb2.PriorityBand, str]] = ...) -> None: ...
    class JobQuery(_message.Message):
        __slots__ = ("scope", "parent_job_id", "name_filter", "state_filter", "sort_field", "sort_direction", "offset", "limit", "job_id_prefix", "backend_id", "cluster", "page_token")
        SCOPE_FIELD_NUMBER: _ClassVar[int]
        PARENT_JOB_ID_FIELD_NUMBER: _ClassVar[int]
        NAME_FILTER_FIELD_NUMBER: _ClassVar[int]
        STATE_FILTER_FIELD_NUMBER: _ClassVar[int]
        SORT_FIELD_FIELD_NUMBER: _ClassVar[int]
        SORT_DIRECTION_FIELD_NUMBER: _ClassVar[int]
        OFFSET_FIELD_NUMBER: _ClassVar[int]
        LIMIT_FIELD_NUMBER: _ClassVar[int]
        JOB_ID_PREFIX_FIELD_NUMBER: _ClassVar[int]
        BACKEND_ID_FIELD_NUMBER: _ClassVar[int]
        CLUSTER_FIELD_NUMBER: _ClassVar[int]
        PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
        scope: Controller.JobQueryScope
        parent_job_id: str
        name_filter: str
        state_filter: str
        sort_field: Controller.JobSortField
        sort_direction: Controller.SortDirection
        offset: int
        limit: int
        job_id_prefix: str
        backend_id: str
        cluster: str
        page_token: str
        def __init__(self, scope: _Optional[_Union[Controller.JobQueryScope, str]] = ..., parent_job_id: _Optional[str] = ..., name_filter: _Optional[str] = ..., state_filter: _Optional[str] = ..., sort_field: _Optional[_Union[Controller.JobSortField, str]] = ..., sort_direction: _Optional[_Union[Controller.SortDirection, str]] = ..., offset: _Optional[int] = ..., limit: _Optional[int] = ..., job_id_prefix: _Optional[str] = ..., backend_id: _Optional[str] = ..., cluster: _Optional[str] = ..., page_token: _Optional[str] = ...) -> None: ...
    class LaunchJobRequest(_message.Message):
        __slots__ = ("name", "entrypoint", "resources", "environment", "bundle_id", "bundle_blob", "scheduling_timeout", "ports", "max_task_failures", "max_retries_failure", "max_retries_preemption", "constraints", "coscheduling", "replicas", "timeout", "fail_if_exists", "preemption_policy", "existing_job_policy", "priority_band", "task_image", "submit_argv", "client_revision_date", "container_profile", "egress_policy", "federation", "setup_timeout")
        NAME_FIELD_NUMBER: _ClassVar[int]
        ENTRYPOINT_FIELD_NUMBER: _ClassVar[int]
        RESOURCES_FIELD_NUMBER: _ClassVar[int]
        ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
        BUNDLE_ID_FIELD_NUMBER: _ClassVar[int]
        BUNDLE_BLOB_FIELD_NUMBER: _ClassVar[int]
        SCHEDULING_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
        PORTS_FIELD_NUMBER: _ClassVar[int]
        MAX_TASK_FAILURES_FIELD_NUMBER: _ClassVar[int]
        MAX_RETRIES_FAILURE_FIELD_NUMBER: _ClassVar[int]
        MAX_RETRIES_PREEMPTION_FIELD_NUMBER: _ClassVar[int]
        CONSTRAINTS_FIELD_NUMBER: _ClassVar[int]
        COSCHEDULING_FIELD_NUMBER: _ClassVar[int]
        REPLICAS_FIELD_NUMBER: _ClassVar[int]
        TIMEOUT_FIELD_NUMBER: _ClassVar[int]
        FAIL_IF_EXISTS_FIELD_NUMBER: _ClassVar[int]
        PREEMPTION_POLICY_FIELD_NUMBER: _ClassVar[int]
        EXISTING_JOB_POLICY_FIELD_NUMBER: _ClassVar[int]
        PRIORITY_BAND_FIELD_NUMBER: _ClassVar[int]
        TASK_IMAGE_FIELD_NUMBER: _ClassVar[int]
        SUBMIT_ARGV_FIELD_NUMBER: _ClassVar[int]
        CLIENT_REVISION_DATE_FIELD_NUMBER: _ClassVar[int]
        CONTAINER_PROFILE_FIELD_NUMBER: _ClassVar[int]
        EGRESS_POLICY_FIELD_NUMBER: _ClassVar[int]
        FEDERATION_FIELD_NUMBER: _ClassVar[int]
        SETUP_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
        name: str
        entrypoint: _job_pb2.RuntimeEntrypoint
        resources: _job_pb2.ResourceSpecProto
        environment: _job_pb2.EnvironmentConfig
        bundle_id: str
        bundle_blob: bytes
        scheduling_timeout: _time_pb2.Duration
        ports: _containers.RepeatedScalarFieldContainer[str]
        max_task_failures: int
        max_retries_failure: int
        max_retries_preemption: int
        constraints: _containers.RepeatedCompositeFieldContainer[_job_pb2.Constraint]
        coscheduling: _job_pb2.CoschedulingConfig
        replicas: int
        timeout: _time_pb2.Duration
        fail_if_exists: bool
        preemption_policy: _job_pb2.JobPreemptionPolicy
        existing_job_policy: _job_pb2.ExistingJobPolicy
        priority_band: _job_pb2.PriorityBand
        task_image: str
        submit_argv: _containers.RepeatedScalarFieldContainer[str]
        client_revision_date: str
        container_profile: _job_pb2.ContainerProfile
        egress_policy: _job_pb2.EgressPolicy
        federation: Controller.FederationHandoff
        setup_timeout: _time_pb2.Duration
        def __init__(self, name: _Optional[str] = ..., entrypoint: _Optional[_Union[_job_pb2.RuntimeEntrypoint, _Mapping]] = ..., resources: _Optional[_Union[_job_pb2.ResourceSpecProto, _Mapping]] = ..., environment: _Optional[_Union[_job_pb2.EnvironmentConfig, _Mapping]] = ..., bundle_id: _Optional[str] = ..., bundle_blob: _Optional[bytes] = ..., scheduling_timeout: _Optional[_Union[_time_pb2.Duration, _Mapping]] = ..., ports: _Optional[_Iterable[str]] = ..., max_task_failures: _Optional[int] = ..., max_retries_failure: _Optional[int] = ..., max_retries_preemption: _Optional[int] = ..., constraints: _Optional[_Iterable[_Union[_job_pb2.Constraint, _Mapping]]] = ..., coscheduling: _Optional[_Union[_job_pb2.CoschedulingConfig, _Mapping]] = ..., replicas: _Optional[int] = ..., timeout: _Optional[_Union[_time_pb2.Duration, _Mapping]] = ..., fail_if_exists: _Optional[bool] = ..., preemption_policy: _Optional[_Union[_job_pb2.JobPreemptionPolicy, str]] = ..., existing_job_policy: _Optional[_Union[_job_pb2.ExistingJobPolicy, str]] = ..., priority_band: _Optional[_Union[_job_pb2.PriorityBand, str]] = ..., task_image: _Optional[str] = ..., submit_argv: _Optional[_Iterable[str]] = ..., client_revision_date: _Optional[str] = ..., container_profile: _Optional[_Union[_job_pb2.ContainerProfile, str]] = ..., egress_policy: _Optional[_Union[_job_pb2.EgressPolicy, str]] = ..., federation: _Optional[_Union[Controller.FederationHandoff, _Mapping]] = ..., setup_timeout: _Optional[_Union[_time_pb2.Duration, _Mapping]] = ...) -> None: ...
    class LaunchJobResponse(_message.Message):
        __slots__ = ("job_id",)
        JOB_ID_FIELD_NUMBER: _ClassVar[int]
        job_id: str
        def __init__(self, job_id: _Optional[str] = ...) -> None: ...
    class ListBackendsRequest(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    class ListBackendsResponse(_message.Message):
        __slots__ = ("backends", "unroutable_job_count", "unroutable_sample")
        BACKENDS_FIELD_NUMBER: _ClassVar[int]
        UNROUTABLE_JOB_COUNT_FIELD_NUMBER: _ClassVar[int]
        UNROUTABLE_SAMPLE_FIELD_NUMBER: _ClassVar[int]
        backends: _containers.RepeatedCompositeFieldContainer[Controller.BackendSummary]
        unroutable_job_count: int
        unroutable_sample: _containers.RepeatedCompositeFieldContainer[Controller.UnroutableJob]
        def __init__(self, backends: _Optional[_Iterable[_Union[Controller.BackendSummary, _Mapping]]] = ..., unroutable_job_count: _Optional[int] = ..., unroutable_sample: _Optional[_Iterable[_Union[Controller.UnroutableJob, _Mapping]]] = ...) -> None: ...
    class ListJobsRequest(_message.Message):
        __slots__ = ("query",)
        QUERY_FIELD_NUMBER: _ClassVar[int]
        query: Controller.JobQuery
        def __init__(self, query: _Optional[_Union[Controller.JobQuery, _Mapping]] = ...) -> None: ...
    class ListJobsResponse(_message.Message):
        __slots__ = ("jobs", "total_count", "has_more", "next_page_token")
        JOBS_FIELD_NUMBER: _ClassVar[int]
        TOTAL_COUNT_FIELD_NUMBER: _ClassVar[int]
        HAS_MORE_FIELD_NUMBER: _ClassVar[int]
        NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
        jobs: _containers.RepeatedCompositeFieldContainer[_job_pb2.JobStatus]
        total_count: int
        has_more: bool
        next_page_token: str
        def __init__(self, jobs: _Optional[_Iterable[_Union[_job_pb2.JobStatus, _Mapping]]] = ..., total_count: _Optional[int] = ..., has_more: _Optional[bool] = ..., next_page_token: _Optional[str] = ...) -> None: ...
    class ListPeersRequest(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    class ListPeersResponse(_message.Message):
        __slots__ = ("peers",)
        PEERS_FIELD_NUMBER: _ClassVar[int]
        peers: _containers.RepeatedCompositeFieldContainer[Controller.PeerSummary]
        def __init__(self, peers: _Optional[_Iterable[_Union[Controller.PeerSummary, _Mapping]]] = ...) -> None: ...
    class ListTasksRequest(_message.Message):
        __slots__ = ("job_id",)
        JOB_ID_FIELD_NUMBER: _ClassVar[int]
        job_id: str
        def __init__(self, job_id: _Optional[str] = ...) -> None: ...
    class ListTasksResponse(_message.Message):
        __slots__ = ("tasks",)
        TASKS_FIELD_NUMBER: _ClassVar[int]
        tasks: _containers.RepeatedCompositeFieldContainer[_job_pb2.TaskStatus]
        def __init__(self, tasks: _Optional[_Iterable[_Union[_job_pb2.TaskStatus, _Mapping]]] = ...) -> None: ...
    class ListUserBudgetsRequest(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    class ListUserBudgetsResponse(_message.Message):
        __slots__ = ("users",)
        USERS_FIELD_NUMBER: _ClassVar[int]
        users: _containers.RepeatedCompositeFieldContainer[Controller.GetUserBudgetResponse]
        def __init__(self, users: _Optional[_Iterable[_Union[Controller.GetUserBudgetResponse, _Mapping]]] = ...) -> None: ...
    class ListUsersRequest(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    class ListUsersResponse(_message.Message):
        __slots__ = ("users",)
        USERS_FIELD_NUMBER: _ClassVar[int]
        users: _containers.RepeatedCompositeFieldContainer[Controller.UserSummary]
        def __init__(self, users: _Optional[_Iterable[_Union[Controller.UserSummary, _Mapping]]] = ...) -> None: ...
    class PeerSummary(_message.Message):
        __slots__ = ("peer_id", "controller_address", "reachable", "last_contact_ms", "active_federated_jobs", "aggregate_spend_micros", "backends", "unreachable_since_ms", "backends_observed_ms", "last_error", "orphans", "synced_ms", "waiting_deliveries", "last_refusal", "last_refusal_ms")
        PEER_ID_FIELD_NUMBER: _ClassVar[int]
        CONTROLLER_ADDRESS_FIELD_NUMBER: _ClassVar[int]
        REACHABLE_FIELD_NUMBER: _ClassVar[int]
        LAST_CONTACT_MS_FIELD_NUMBER: _ClassVar[int]
        ACTIVE_FEDERATED_JOBS_FIELD_NUMBER: _ClassVar[int]
        AGGREGATE_SPEND_MICROS_FIELD_NUMBER: _ClassVar[int]
        BACKENDS_FIELD_NUMBER: _ClassVar[int]
        UNREACHABLE_SINCE_MS_FIELD_NUMBER: _ClassVar[int]
        BACKENDS_OBSERVED_MS_FIELD_NUMBER: _ClassVar[int]
        LAST_ERROR_FIELD_NUMBER: _ClassVar[int]
        ORPHANS_FIELD_NUMBER: _ClassVar[int]
        SYNCED_MS_FIELD_NUMBER: _ClassVar[int]
        WAITING_DELIVERIES_FIELD_NUMBER: _ClassVar[int]
        LAST_REFUSAL_FIELD_NUMBER: _ClassVar[int]
        LAST_REFUSAL_MS_FIELD_NUMBER: _ClassVar[int]
        peer_id: str
        controller_address: str
        reachable: bool
        last_contact_ms: int
        active_federated_jobs: int
        aggregate_spend_micros: int
        backends: _containers.RepeatedCompositeFieldContainer[Controller.BackendSummary]
        unreachable_since_ms: int
        backends_observed_ms: int
        last_error: str
        orphans: _containers.RepeatedScalarFieldContainer[str]
        synced_ms: int
        waiting_deliveries: int
        last_refusal: str
        last_refusal_ms: int
        def __init__(self, peer_id: _Optional[str] = ..., controller_address: _Optional[str] = ..., reachable: _Optional[bool] = ..., last_contact_ms: _Optional[int] = ..., active_federated_jobs: _Optional[int] = ..., aggregate_spend_micros: _Optional[int] = ..., backends: _Optional[_Iterable[_Union[Controller.BackendSummary, _Mapping]]] = ..., unreachable_since_ms: _Optional[int] = ..., backends_observed_ms: _Optional[int] = ..., last_error: _Optional[str] = ..., orphans: _Optional[_Iterable[str]] = ..., synced_ms: _Optional[int] = ..., waiting_deliveries: _Optional[int] = ..., last_refusal: _Optional[str] = ..., last_refusal_ms: _Optional[int] = ...) -> None: ...
    class ResourceAvailability(_message.Message):
        __slots__ = ("version", "observation_epoch_ms", "amounts", "total_amounts", "held_by_band")
        class AmountsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: int
            def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
        class TotalAmountsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: int
            def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
        VERSION_FIELD_NUMBER: _ClassVar[int]
        OBSERVATION_EPOCH_MS_FIELD_NUMBER: _ClassVar[int]
        AMOUNTS_FIELD_NUMBER: _ClassVar[int]
        TOTAL_AMOUNTS_FIELD_NUMBER: _ClassVar[int]
        HELD_BY_BAND_FIELD_NUMBER: _ClassVar[int]
        version: int
        observation_epoch_ms: int
        amounts: _containers.ScalarMap[str, int]
        total_amounts: _containers.ScalarMap[str, int]
        held_by_band: _containers.RepeatedCompositeFieldContainer[Controller.BandCapacity]
        def __init__(self, version: _Optional[int] = ..., observation_epoch_ms: _Optional[int] = ..., amounts: _Optional[_Mapping[str, int]] = ..., total_amounts: _Optional[_Mapping[str, int]] = ..., held_by_band: _Optional[_Iterable[_Union[Controller.BandCapacity, _Mapping]]] = ...) -> None: ...
    class SetUserBudgetRequest(_message.Message):
        __slots__ = ("user_id", "budget_limit", "max_band")
        USER_ID_FIELD_NUMBER: _ClassVar[int]
        BUDGET_LIMIT_FIELD_NUMBER: _ClassVar[int]
        MAX_BAND_FIELD_NUMBER: _ClassVar[int]
        user_id: str
        budget_limit: int
        max_band: _job_pb2.PriorityBand
        def __init__(self, user_id: _Optional[str] = ..., budget_limit: _Optional[int] = ..., max_band: _Optional[_Union[_job_pb2.PriorityBand, str]] = ...) -> None: ...
    class SetUserBudgetResponse(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    class TerminateJobRequest(_message.Message):
        __slots__ = ("job_id", "handoff_nonce")
        JOB_ID_FIELD_NUMBER: _ClassVar[int]
        HANDOFF_NONCE_FIELD_NUMBER: _ClassVar[int]
        job_id: str
        handoff_nonce: str
        def __init__(self, job_id: _Optional[str] = ..., handoff_nonce: _Optional[str] = ...) -> None: ...
    class UnroutableJob(_message.Message):
        __slots__ = ("job_id", "reason")
        JOB_ID_FIELD_NUMBER: _ClassVar[int]
        REASON_FIELD_NUMBER: _ClassVar[int]
        job_id: str
        reason: str
        def __init__(self, job_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...
    class UserSummary(_message.Message):
        __slots__ = ("user", "task_state_counts", "job_state_counts", "role")
        class TaskStateCountsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: int
            def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
        class JobStateCountsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: int
            def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
        USER_FIELD_NUMBER: _ClassVar[int]
        TASK_STATE_COUNTS_FIELD_NUMBER: _ClassVar[int]
        JOB_STATE_COUNTS_FIELD_NUMBER: _ClassVar[int]
        ROLE_FIELD_NUMBER: _ClassVar[int]
        user: str
        task_state_counts: _containers.ScalarMap[str, int]
        job_state_counts: _containers.ScalarMap[str, int]
        role: str
        def __init__(self, user: _Optional[str] = ..., task_state_counts: _Optional[_Mapping[str, int]] = ..., job_state_counts: _Optional[_Mapping[str, int]] = ..., role: _Optional[str] = ...) -> None: ...
    def __init__(self) -> None: ...
