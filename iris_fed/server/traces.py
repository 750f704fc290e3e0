"""Whether jobs are traced: as OpenTelemetry's own variables say."""

from collections.abc import Mapping

from iris_fed.errors import ConfigError
from iris_fed.tracing import Tracing

SWITCH = "OTEL_TRACES_EXPORTER"


def open_tracing(cluster: str, environ: Mapping[str, str]) -> Tracing:
    """`otlp` switches it on; absent or `none` = off. Raises ConfigError for anything else, and without the extra."""
    wanted = environ.get(SWITCH, "none").strip().lower()
    if wanted in ("", "none") or environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return Tracing()
    if wanted != "otlp":
        raise ConfigError(f"{SWITCH} is {wanted[:80]!r}; iris-fed knows `otlp` and `none`")
    try:
        from iris_fed.server.otel import otlp_tracing
    except ImportError as error:
        raise ConfigError(f"{SWITCH} asks for traces; they need: pip install 'iris-fed[otel]' ({error})") from error
    return otlp_tracing(cluster, environ)
