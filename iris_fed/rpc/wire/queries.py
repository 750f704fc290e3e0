"""Listing jobs: from a query on the wire to the model's."""

import base64
import json
from collections.abc import Mapping

from iris_fed.errors import InvalidArgument
from iris_fed.model import limits
from iris_fed.model.ids import MAX_JOB_ID_CHARS, parse_job_id
from iris_fed.model.jobs import JobQuery
from iris_fed.model.limits import Limits
from iris_fed.model.states import JobState
from iris_fed.rpc.gen.cluster.controller_pb2 import Controller
from iris_fed.rpc.wire.checks import INT32_MAX, optional_word, whole

DEFAULT_PAGE = 100
_SCOPES: Mapping[int, str] = {
    Controller.JOB_QUERY_SCOPE_UNSPECIFIED: "all",
    Controller.JOB_QUERY_SCOPE_ALL: "all",
    Controller.JOB_QUERY_SCOPE_ROOTS: "roots",
    Controller.JOB_QUERY_SCOPE_CHILDREN: "children",
}
_SORTS: Mapping[int, str] = {
    Controller.JOB_SORT_FIELD_UNSPECIFIED: "date",
    Controller.JOB_SORT_FIELD_DATE: "date",
    Controller.JOB_SORT_FIELD_NAME: "name",
    Controller.JOB_SORT_FIELD_STATE: "state",
    Controller.JOB_SORT_FIELD_FAILURES: "failures",
    Controller.JOB_SORT_FIELD_PREEMPTIONS: "preemptions",
}
_KEY_KINDS: Mapping[str, tuple[type, ...]] = {
    "date": (int, int),
    "name": (str,),
    "state": (str, int, int),
    "failures": (int, int),
    "preemptions": (int, int),
}
MAX_TOKEN_CHARS = 4_096
_LARGEST_FIRST = frozenset({"date", "failures", "preemptions"})


def job_query_from_wire(query: Controller.JobQuery, bounds: Limits) -> JobQuery:
    """Without a direction, newest and largest come first, names and states from A to Z. A limit over
    the page size is cut to it; absent or 0 = 100. Raises InvalidArgument."""
    sort = _known(_SORTS, query.sort_field, "query.sort_field")
    return JobQuery(
        scope=_scope(query),
        parent_job_id=str(parse_job_id(query.parent_job_id, "query.parent_job_id")) if query.parent_job_id else "",
        name_contains=optional_word(query.name_filter, limits.MAX_KEY_CHARS, "query.name_filter"),
        states=_states(query.state_filter),
        job_id_prefix=optional_word(query.job_id_prefix, MAX_JOB_ID_CHARS, "query.job_id_prefix"),
        backend_id=optional_word(query.backend_id, limits.MAX_KEY_CHARS, "query.backend_id"),
        cluster=optional_word(query.cluster, limits.MAX_KEY_CHARS, "query.cluster"),
        sort=sort,
        descending=_descending(query.sort_direction, sort),
        offset=whole(query.offset, 0, INT32_MAX, "query.offset"),
        limit=min(whole(query.limit, 0, INT32_MAX, "query.limit") or DEFAULT_PAGE, bounds.page_size),
        after=_after(query.page_token, sort),
    )


def page_token(sort: str, after: tuple[str | int, ...]) -> str | None:
    """Opaque to clients; None on the last page."""
    if not after:
        return None
    return base64.urlsafe_b64encode(json.dumps([sort, *after]).encode()).decode()


def _after(token: str, sort: str) -> tuple[str | int, ...]:
    """Raises InvalidArgument for a token that is not ours or belongs to another sorting."""
    if not token:
        return ()
    try:
        parts = json.loads(base64.b64decode(token[:MAX_TOKEN_CHARS], altchars=b"-_", validate=True))
    except ValueError:
        parts = None
    kinds = _KEY_KINDS[sort]
    fits = isinstance(parts, list) and len(parts) == 1 + len(kinds) and parts[0] == sort
    if not fits or not all(type(part) is kind for part, kind in zip(parts[1:], kinds, strict=True)):
        raise InvalidArgument("is no token of this listing; begin again without one", "query.page_token")
    if any(type(part) is int and not -(2**63) <= part < 2**63 for part in parts):
        raise InvalidArgument("is no token of this listing; begin again without one", "query.page_token")
    return tuple(parts[1:])


def _scope(query: Controller.JobQuery) -> str:
    scope = _known(_SCOPES, query.scope, "query.scope")
    if scope == "children" and not query.parent_job_id:
        raise InvalidArgument("is needed to list children", "query.parent_job_id")
    return scope


def _descending(direction: int, sort: str) -> bool:
    match direction:
        case Controller.SORT_DIRECTION_UNSPECIFIED:
            return sort in _LARGEST_FIRST
        case Controller.SORT_DIRECTION_ASC:
            return False
        case Controller.SORT_DIRECTION_DESC:
            return True
        case _:
            raise InvalidArgument(f"{direction} is no sort direction", "query.sort_direction")


def _states(text: str) -> frozenset[JobState]:
    """Names of states, separated by commas, in either case, with the wire's prefix or without."""
    if len(text) > limits.MAX_VALUE_CHARS:
        raise InvalidArgument(f"has at most {limits.MAX_VALUE_CHARS} characters", "query.state_filter")
    names = [name.strip().upper().removeprefix("JOB_STATE_") for name in text.split(",") if name.strip()]
    for name in names:
        if name not in JobState.__members__:
            known = ", ".join(JobState.__members__)
            raise InvalidArgument(f"{name[:40]!r} is none of {known}", "query.state_filter")
    return frozenset(JobState(name) for name in names)


def _known(table: Mapping[int, str], number: int, field: str) -> str:
    if number not in table:
        raise InvalidArgument(f"{number} is not defined", field)
    return table[number]
