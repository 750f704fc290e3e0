"""What the operator may say about a Slurm backend."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from iris_fed.model.states import Band


@dataclass(frozen=True, slots=True)
class BandTerms:
    """How jobs of a priority band are submitted: under a QOS ('' = as usual), made weaker by `nice`."""

    qos: str = ""
    nice: int = 0


@dataclass(frozen=True, slots=True)
class SlurmSettings:
    """Of `partitions`, `accounts`, `qos` and `reservations` the first is used where a job asks for none; none
    given = Slurm's default. `features` narrows the machines by a Slurm constraint. `gpu_types` says which of
    Slurm's GPU types our variants are, where the names differ.

    `max_pending` jobs may wait in Slurm's queue; 0 = only what is free is submitted. `lost_after_s`: how long
    an attempt is looked for that Slurm does not know and that left no result. `submit_command` stands before
    what is run for a user, `{user}` in it for the account's name. `shared_dir` lies at the same path on every
    node. `bin_dir` comes first on PATH, '' = nothing does.
    """

    shared_dir: Path
    backend_id: str = "slurm"
    name: str = ""
    partitions: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    qos: tuple[str, ...] = ()
    reservations: tuple[str, ...] = ()
    features: str = ""
    bands: Mapping[Band, BandTerms] = field(default_factory=dict)
    sbatch_args: tuple[str, ...] = ()
    gpu_types: Mapping[str, str] = field(default_factory=dict)
    attributes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    max_pending: int = 1_000
    time_limit_s: float | None = None
    accounting: bool = False
    submit_command: tuple[str, ...] = ()
    run_as: str | Mapping[str, str] | None = None
    python: str = "python3"
    bin_dir: str = ""
    address: str = "{node}"
    kill_grace_s: float = 10.0
    output_bytes: int = 64 * 1024 * 1024
    poll_interval_s: float = 5.0
    capacity_interval_s: float = 15.0
    command_timeout_s: float = 30.0
    lost_after_s: float = 60.0

    @property
    def shown_name(self) -> str:
        return self.name or self.backend_id

    def slurm_type(self, variant: str) -> str:
        """Slurm's name of a GPU variant of ours."""
        return self.gpu_types.get(variant, variant)

    def variant(self, slurm_type: str) -> str:
        """Our name of Slurm's GPU type."""
        ours = {theirs.lower(): own for own, theirs in self.gpu_types.items()}
        return ours.get(slurm_type.lower(), slurm_type.lower())
