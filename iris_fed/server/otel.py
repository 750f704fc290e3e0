"""Traces by OpenTelemetry, from the extra `otel`; imported only where it is switched on (docs/metrics.md)."""

import asyncio
import os
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from connectrpc.request import RequestContext
from connectrpc_otel import OpenTelemetryInterceptor
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import get_current_span, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from iris_fed import __version__
from iris_fed.tracing import Tracing

MAX_REMEMBERED = 10_000
CLOSE_WITHIN_S = 2.0
TRACED = frozenset({"LaunchJob", "TerminateJob", "ExecInContainer"})
"""Calls that change something. What pages and peers ask all the time would bury them."""


class OtelTracing(Tracing):
    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("iris_fed", __version__)
        self._known: OrderedDict[str, Context] = OrderedDict()

    def remember(self, key: str) -> None:
        span = get_current_span()
        if not span.get_span_context().is_valid:
            # Of an earlier job of this name.
            self._known.pop(key, None)
            return
        self._known[key] = set_span_in_context(span, Context())
        self._known.move_to_end(key)
        while len(self._known) > MAX_REMEMBERED:
            self._known.popitem(last=False)

    @contextmanager
    def span(self, name: str, key: str, **attributes: str) -> Iterator[None]:
        within = self._known.get(key)
        if within is None:
            yield
            return
        with self._tracer.start_as_current_span(name, context=within, attributes=attributes):
            yield

    def interceptors(self, *, client: bool) -> list[Any]:
        interceptor = OpenTelemetryInterceptor(
            tracer_provider=self._provider, propagator=TraceContextTextMapPropagator(), client=client
        )
        return [_Chosen(interceptor)]

    async def close(self) -> None:
        # It waits for the network, on its own thread's terms rather than ours.
        closing = asyncio.to_thread(self._provider.shutdown)
        await asyncio.wait({asyncio.ensure_future(closing)}, timeout=CLOSE_WITHIN_S)


class _Chosen:
    def __init__(self, inner: OpenTelemetryInterceptor) -> None:
        self._inner = inner

    async def on_start(self, ctx: RequestContext[Any, Any]) -> Any:
        return await self._inner.on_start(ctx) if ctx.method.name in TRACED else None

    async def on_end(self, token: Any, ctx: RequestContext[Any, Any], error: Exception | None, /) -> None:
        if token is not None:
            await self._inner.on_end(token, ctx, error)


def otlp_tracing(cluster: str, environ: Mapping[str, str] = os.environ) -> OtelTracing:
    """Sends to where the standard variables say (`OTEL_EXPORTER_OTLP_ENDPOINT`, ...), over HTTP."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return traced_to(OTLPSpanExporter(), cluster, environ)


def traced_to(exporter: SpanExporter, cluster: str, environ: Mapping[str, str] = os.environ) -> OtelTracing:
    """Spans bear `service.name` and `service.instance.id`, the cluster's name."""
    name = environ.get("OTEL_SERVICE_NAME", "iris-fed")
    resource = Resource.create({"service.name": name, "service.instance.id": cluster, "service.version": __version__})
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return OtelTracing(provider)
