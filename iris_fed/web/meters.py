"""What happens, counted for Prometheus. Labels are names from our own tables and configuration only."""

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics

from iris_fed.meters import Meters

FAST = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)
SLOW = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 21_600.0, 86_400.0)
"""Seconds. A handoff may wait for a peer for a day."""


# When each series began is told by the process; one more line each tells nothing new.
disable_created_metrics()  # type: ignore[no-untyped-call]


class CountingMeters(Meters):
    """One controller's, in a registry of its own."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, what: str, *labels: str) -> Counter:
            return Counter(f"iris_fed_{name}", what, labels, registry=registry)

        def histogram(name: str, what: str, *labels: str, buckets: tuple[float, ...] = FAST) -> Histogram:
            return Histogram(f"iris_fed_{name}", what, labels, registry=registry, buckets=buckets)

        self._calls = counter("rpc_calls", "RPCs that were answered.", "method", "code")
        self._call_seconds = histogram("rpc_seconds", "Seconds that an RPC took.", "method")
        self._commit_seconds = histogram("commit_seconds", "Seconds that a transaction of the writer took.")
        self._writes = counter("writes", "Writes that were made durable.")
        self._handoff_seconds = histogram(
            "handoff_seconds", "Seconds from a job's submission until its peer took it.", "peer", buckets=SLOW
        )
        self._refusals = counter("handoff_refusals", "Jobs that a peer would not take.", "peer", "code")
        self._redrives = counter("handoff_redrives", "Deliveries that were not the first of their job.", "peer")
        self._failures = counter("peer_call_failures", "Calls to a peer without a usable answer.", "peer", "call")
        self._admitted = counter("received_jobs", "Jobs that were taken from a cluster.", "requester")
        self._declined = counter("received_refusals", "Jobs that were not taken.", "requester", "code")
        self._duplicates = counter(
            "received_duplicates", "Handoffs that arrived again and started nothing.", "requester"
        )
        self._lag_seconds = histogram("event_loop_lag_seconds", "Seconds by which a timer of the event loop was late.")

    def committed(self, seconds: float, writes: int) -> None:
        self._commit_seconds.observe(seconds)
        self._writes.inc(writes)

    def called(self, method: str, code: str, seconds: float) -> None:
        self._calls.labels(method, code).inc()
        self._call_seconds.labels(method).observe(seconds)

    def handed_off(self, peer: str, seconds: float) -> None:
        self._handoff_seconds.labels(peer).observe(seconds)

    def refused(self, peer: str, code: str) -> None:
        self._refusals.labels(peer, code).inc()

    def redriven(self, peer: str) -> None:
        self._redrives.labels(peer).inc()

    def call_failed(self, peer: str, call: str) -> None:
        self._failures.labels(peer, call).inc()

    def admitted(self, requester: str) -> None:
        self._admitted.labels(requester).inc()

    def declined(self, requester: str, code: str) -> None:
        self._declined.labels(requester, code).inc()

    def duplicate_suppressed(self, requester: str) -> None:
        self._duplicates.labels(requester).inc()

    def looped(self, late_s: float) -> None:
        self._lag_seconds.observe(late_s)
