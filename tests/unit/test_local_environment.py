"""What a local backend adds to a task's environment."""

import pytest

from iris_fed.backends.posix.environment import port_variable, task_environment


@pytest.mark.parametrize(
    ("name", "variable"),
    [("http", "IRIS_PORT_HTTP"), ("grpc-2", "IRIS_PORT_GRPC_2"), ("a.b/c", "IRIS_PORT_A_B_C")],
)
def test_a_ports_name_becomes_a_variable(name: str, variable: str) -> None:
    assert port_variable(name) == variable


def test_what_the_task_was_given_wins_over_what_is_sane() -> None:
    env = task_environment({"PATH": "/mine", "LANG": "C"}, "/work", "host", {}, None)
    assert (env["PATH"], env["LANG"]) == ("/mine", "C")


def test_the_backends_own_facts_win_over_what_the_task_was_given() -> None:
    env = task_environment({"IRIS_WORKDIR": "/lie", "CUDA_VISIBLE_DEVICES": "7"}, "/work", "host", {"http": 80}, [1, 2])
    assert env["IRIS_WORKDIR"] == "/work"
    assert env["CUDA_VISIBLE_DEVICES"] == "1,2"
    assert env["IRIS_PORT_HTTP"] == "80"


def test_a_machine_without_declared_devices_says_nothing_of_them() -> None:
    assert "CUDA_VISIBLE_DEVICES" not in task_environment({}, "/work", "host", {}, None)
    assert task_environment({}, "/work", "host", {}, [])["CUDA_VISIBLE_DEVICES"] == ""
