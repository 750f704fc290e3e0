"""What every use case works with."""

from dataclasses import dataclass, field

from iris_fed.clock import Clock, Entropy
from iris_fed.meters import Meters
from iris_fed.signals import JobSignals, News
from iris_fed.store.db import Database
from iris_fed.supervise import Loops
from iris_fed.tracing import Tracing


@dataclass(frozen=True, slots=True)
class Runtime:
    """`cluster` and `database_id` name this controller and this life of its database; `loops` runs what goes on
    in the background, `news` is told what a person would look at again, `meters` what is counted,
    `tracing` what belongs to one job's story."""

    db: Database
    clock: Clock
    entropy: Entropy
    signals: JobSignals
    cluster: str
    database_id: str
    loops: Loops = field(default_factory=Loops)
    news: News = field(default_factory=News)
    meters: Meters = field(default_factory=Meters)
    tracing: Tracing = field(default_factory=Tracing)
