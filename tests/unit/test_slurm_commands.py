"""The words of Slurm's commands, from what a job asks for and what the operator said."""

from pathlib import Path
from typing import Any

import pytest

from iris_fed.backends.base import LaunchRequest
from iris_fed.backends.slurm import commands
from iris_fed.backends.slurm.commands import Submission
from iris_fed.backends.slurm.settings import BandTerms, SlurmSettings
from iris_fed.model.resources import Device, DeviceKind, Resources
from iris_fed.model.states import Band

SETTINGS = SlurmSettings(Path("/shared"))
GIB = 2**30


def submission(count: int = 1, **asked: Any) -> Submission:
    one = {"resources": Resources(1500, 3 * GIB, device=Device(DeviceKind.GPU, "h100", 2)), **asked}
    requests = tuple(LaunchRequest(f"u{index}", "/a/b/0", ("true",), {}, **one) for index in range(count))
    return Submission(requests, "lab", "db-1", "/shared/attempts/u0")


def words(settings: SlurmSettings = SETTINGS, count: int = 1, **asked: Any) -> set[str]:
    return set(commands.sbatch(settings, submission(count, **asked)))


def test_a_job_is_named_and_tagged_and_never_requeued() -> None:
    expected = {"--parsable", "--no-requeue", "--job-name=u0", "--comment=iris-fed cluster=lab database=db-1"}
    assert words() >= expected | {"--chdir=/shared/attempts/u0", "--output=/shared/attempts/u0/slurm.out"}


def test_resources_are_whole_cores_mebibytes_and_typed_gpus() -> None:
    assert words() >= {"--nodes=1", "--ntasks=1", "--cpus-per-task=2", "--mem=3072M", "--gres=gpu:h100:2"}
    nothing = words(resources=Resources())
    assert "--cpus-per-task=1" in nothing
    assert not [word for word in nothing if word.startswith(("--mem", "--gres", "--gpus", "--time"))]


def test_a_gpu_type_may_have_another_name_in_slurm_or_none() -> None:
    renamed = SlurmSettings(Path("/shared"), gpu_types={"h100": "nvidia_h100"})
    assert "--gres=gpu:nvidia_h100:2" in words(renamed)
    assert renamed.variant("NVIDIA_H100") == "h100"
    for variant in ("", "gpu"):
        device = Device(DeviceKind.GPU, variant, 1)
        assert "--gres=gpu:1" in words(resources=Resources(device=device))


def test_a_gang_is_one_job_with_a_task_for_each_member() -> None:
    told = words(count=4)
    assert told >= {"--ntasks=4", "--cpus-per-task=2", "--mem-per-cpu=1536M", "--gpus-per-task=h100:2"}
    assert not told & {"--nodes=1", "--mem=3072M"}
    text = commands.script(SETTINGS, submission(4), "/keeper/node.py")
    assert "exec srun --ntasks=4 --kill-on-bad-exit=0 --wait=0" in text
    assert text.endswith("python3 -I -S '/keeper/node.py' run '/shared' u0 gang\n")


@pytest.mark.parametrize(
    ("asked", "minutes"),
    [
        ({"timeout_ms": 60_000}, 2),
        ({"timeout_ms": 60_001}, 3),
        ({"timeout_ms": 60_000, "setup": ("x",)}, 3),
        ({"timeout_ms": 60_000, "setup": ("x",), "setup_timeout_ms": 600_000}, 12),
    ],
)
def test_slurms_time_limit_leaves_room_for_ours(asked: dict[str, Any], minutes: int) -> None:
    assert f"--time={minutes}" in words(**asked)


def test_without_a_timeout_the_operators_limit_counts() -> None:
    assert "--time=60" in words(SlurmSettings(Path("/shared"), time_limit_s=3_600))


def test_the_first_of_what_is_offered_is_used_unless_the_job_chooses() -> None:
    settings = SlurmSettings(
        Path("/shared"), partitions=("a", "b"), accounts=("lab",), qos=("q",), reservations=("r",), features="ib"
    )
    assert words(settings) >= {"--partition=a", "--account=lab", "--qos=q", "--reservation=r", "--constraint=ib"}
    choices = {"slurm-partition": "b", "slurm-feature": "fast", "region": "eu"}
    assert words(settings, choices=choices) >= {"--partition=b", "--account=lab", "--constraint=ib&fast"}


def test_a_band_is_a_qos_and_a_nice_value_which_a_jobs_own_choice_overrides() -> None:
    settings = SlurmSettings(Path("/shared"), qos=("q",), bands={Band.BATCH: BandTerms("low", 500)})
    told = commands.sbatch(settings, submission(band=Band.BATCH))
    assert told.index("--qos=low") > told.index("--qos=q")
    assert "--nice=500" in told
    assert "--qos=low" not in words(settings, band=Band.BATCH, choices={"slurm-qos": "q"})
    assert "--nice=500" not in words(settings, band=Band.PRODUCTION)


def test_what_the_operator_adds_comes_last() -> None:
    settings = SlurmSettings(Path("/shared"), sbatch_args=("--exclusive", "--licenses=x:1"))
    assert commands.sbatch(settings, submission())[-2:] == ["--exclusive", "--licenses=x:1"]


def test_a_path_with_a_quote_stays_one_word_of_the_script() -> None:
    settings = SlurmSettings(Path("/sha'red"))
    assert "run '/sha'\\''red' u0" in commands.script(settings, submission(), "/k")
