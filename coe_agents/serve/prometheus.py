"""Owns the server's metrics for Prometheus: those of `CoETelemetry`, and the requests."""

from collections.abc import Callable, Iterable

from starlette.requests import Request
from starlette.responses import Response

try:
    from opentelemetry.exporter.prometheus import PrometheusMetricReader
    from opentelemetry.metrics import CallbackOptions, Observation
    from opentelemetry.sdk.metrics import MeterProvider
    from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
except ModuleNotFoundError as error:
    raise ImportError(
        'metrics need OpenTelemetry and its exporter; pip install "coe-agents[serve]"'
    ) from error

from coe_agents import _ring

_BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)


class Metrics:
    """The metrics of one server; no question, response or error message is among them. Pass `telemetry` to each run."""

    def __init__(self, count_in_flight: Callable[[], int]) -> None:
        self._registry = CollectorRegistry()
        reader = PrometheusMetricReader(
            disable_target_info=True, scope_info_enabled=False, registry=self._registry
        )
        provider = MeterProvider([reader])
        create_telemetry = _ring.load("observability:CoETelemetry")
        self.telemetry = create_telemetry(meter_provider=provider)

        meter = provider.get_meter("coe_agents.serve")
        self._seconds = meter.create_histogram(
            "coe.request.duration",
            unit="s",
            description="Seconds of a request, by address and status",
            explicit_bucket_boundaries_advisory=_BUCKETS,
        )

        def observe(_: CallbackOptions) -> Iterable[Observation]:
            return [Observation(count_in_flight())]

        meter.create_observable_gauge(
            "coe.questions.in_flight",
            [observe],
            unit="{question}",
            description="Questions being answered",
        )

    def note_request(self, path: str, status: int, seconds: float) -> None:
        self._seconds.record(seconds, {"path": path, "status": str(status)})

    async def show(self, request: Request) -> Response:
        return Response(generate_latest(self._registry), media_type=CONTENT_TYPE_LATEST)
