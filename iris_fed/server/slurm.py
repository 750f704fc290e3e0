"""The operator's words about a Slurm cluster, as its backend takes them."""

from iris_fed.backends.slurm.settings import BandTerms, SlurmSettings
from iris_fed.config.slurm import SlurmBackendSettings
from iris_fed.model.states import Band


def slurm_settings(backend: SlurmBackendSettings) -> SlurmSettings:
    return SlurmSettings(
        shared_dir=backend.shared_dir,
        backend_id=backend.id,
        partitions=tuple(backend.partitions),
        accounts=tuple(backend.accounts),
        qos=tuple(backend.qos),
        reservations=tuple(backend.reservations),
        features=backend.constraint or "",
        bands={Band[name.upper()]: BandTerms(terms.qos or "", terms.nice) for name, terms in backend.bands.items()},
        sbatch_args=tuple(backend.sbatch_args),
        gpu_types=backend.gpu_types,
        attributes=backend.attributes,
        max_pending=backend.max_pending,
        time_limit_s=backend.time_limit_s,
        accounting=backend.accounting,
        submit_command=tuple(backend.submit_command),
        run_as=backend.run_as,
        python=backend.python,
        bin_dir=str(backend.bin_dir or ""),
        address=backend.address,
        kill_grace_s=backend.kill_grace_s,
        output_bytes=backend.output_bytes,
        poll_interval_s=backend.poll_interval_s,
        capacity_interval_s=backend.capacity_interval_s,
        command_timeout_s=backend.command_timeout_s,
        lost_after_s=backend.lost_after_s,
    )
