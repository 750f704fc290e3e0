"""What every use case works with."""

from dataclasses import dataclass

from iris_fed.clock import Clock, Entropy
from iris_fed.signals import JobSignals
from iris_fed.store.db import Database


@dataclass(frozen=True, slots=True)
class Runtime:
    """`cluster` and `database_id` name this controller and this life of its database."""

    db: Database
    clock: Clock
    entropy: Entropy
    signals: JobSignals
    cluster: str
    database_id: str
