"""What a user asked for comes out of the database as it went in."""

import json
from dataclasses import fields, replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from iris_fed.model.constraints import Constraint, Op
from iris_fed.model.resources import Device, DeviceKind, Resources
from iris_fed.model.spec import JobSpec
from iris_fed.store.spec_codec import spec_from_text, spec_to_text

TEXT = st.text(max_size=8)
TEXTS = st.lists(TEXT, max_size=3).map(tuple)
NAMES = st.dictionaries(TEXT, TEXT, max_size=3)
AMOUNTS = st.integers(0, 2**50)
RESOURCES = st.builds(
    Resources,
    AMOUNTS,
    AMOUNTS,
    AMOUNTS,
    st.none() | st.builds(Device, st.sampled_from(DeviceKind), TEXT, st.integers(0, 9), TEXT),
)
SCALARS = TEXT | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False)
CONSTRAINTS = st.builds(Constraint, TEXT, st.sampled_from(Op), st.lists(SCALARS, max_size=3).map(tuple), st.booleans())
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "argv": TEXTS,
    "resources": RESOURCES,
    "env": NAMES,
    "secrets": NAMES,
    "constraints": st.lists(CONSTRAINTS, max_size=3).map(tuple),
    "ports": TEXTS,
    "replicas": st.integers(0, 9),
    "timeout_ms": st.none() | AMOUNTS,
    "scheduling_timeout_ms": st.none() | AMOUNTS,
    "setup_timeout_ms": st.none() | AMOUNTS,
    "max_retries_failure": st.integers(0, 9),
    "max_retries_preemption": st.integers(0, 9),
    "max_task_failures": st.integers(0, 9),
    "setup_commands": TEXTS,
    "setup_scripts": TEXTS,
    "workdir_files": st.dictionaries(TEXT, st.binary(max_size=20), max_size=3),
    "bundle_id": TEXT,
    "coscheduling_group_by": st.none() | TEXT,
    "preemption_policy": st.integers(0, 2),
    "task_image": TEXT,
    "container_profile": st.integers(0, 6),
    "egress_policy": st.integers(0, 3),
    "submit_argv": TEXTS,
    "client_revision_date": TEXT,
}
SPECS = st.builds(JobSpec, **FIELDS)


@settings(max_examples=80, deadline=None)
@given(SPECS)
def test_a_spec_reads_back_as_it_was_written(spec: JobSpec) -> None:
    again = spec_from_text(spec_to_text(spec))
    assert again == spec
    assert again.demand == spec.demand
    for constraint, other in zip(spec.constraints, again.constraints, strict=True):
        assert [type(value) for value in constraint.values] == [type(value) for value in other.values]


def test_every_field_differs_from_its_default_in_some_example() -> None:
    strategies = {"argv", *(item.name for item in fields(JobSpec))}
    assert strategies == {item.name for item in fields(JobSpec)}


def test_what_was_not_asked_for_takes_no_room() -> None:
    assert json.loads(spec_to_text(JobSpec(("true",)))) == {"argv": ["true"]}


def test_an_empty_group_is_still_a_gang() -> None:
    gang = replace(JobSpec(("true",)), coscheduling_group_by="")
    assert spec_from_text(spec_to_text(gang)).coscheduling_group_by == ""


def test_jobs_that_ask_for_the_same_are_of_one_demand_whatever_they_run() -> None:
    here = Constraint("region", Op.EQ, ("eu",))
    there = Constraint("zone", Op.IN, ("a", "b"))
    spec = JobSpec(("a",), Resources(1), constraints=(here, there))
    assert replace(spec, argv=("b",), env={"X": "1"}, replicas=5, constraints=(there, here)).demand == spec.demand
    pinned = (*spec.constraints, Constraint("cluster", Op.EQ, ("lab",)))
    assert replace(spec, constraints=pinned).demand == spec.demand
    assert replace(spec, constraints=(here,)).demand != spec.demand
    assert replace(spec, resources=Resources(2)).demand != spec.demand
    assert replace(spec, coscheduling_group_by="").demand != spec.demand
