"""`amends run` and its like export what the OTEL variables ask for, to a collector that is really listening."""

import signal
import threading
import time
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, Any, cast

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.cli.shell import PATIENCE_S, Shell

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
BUY = ("run", "shop:buy", "--id", "b", "--input", '{"item": "cup", "cents": 5}')
TELLS = """
import sys
from amends import Work, saga


@saga("tells")
async def tells(s: Work) -> list[str]:
    return sorted(name for name in sys.modules if name.partition(".")[0] == "opentelemetry")
"""
OWN = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

from shop import buy

provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(formatter=lambda span: f"mine: {span.name}\\n")))
trace.set_tracer_provider(provider)
"""


class Collector:
    """Receives OTLP over HTTP on this machine, and can be silent."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.resources: list[dict[str, str]] = []
        self.metrics: set[str] = set()
        self.is_silent = False
        self.goes_on = threading.Event()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if collector.is_silent:
                    collector.goes_on.wait(PATIENCE_S)
                    return
                collector.receive(self.path, body)
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """Into nobody's output."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}"

    def receive(self, path: str, body: bytes) -> None:
        assert path in {"/v1/traces", "/v1/metrics"}
        if path == "/v1/metrics":
            told: Any = ExportMetricsServiceRequest.FromString(body)
            scopes = [scope for each in told.resource_metrics for scope in each.scope_metrics]
            self.metrics.update(metric.name for scope in scopes for metric in scope.metrics)
            return
        asked: Any = ExportTraceServiceRequest.FromString(body)
        for each in asked.resource_spans:
            self.resources.append({pair.key: pair.value.string_value for pair in each.resource.attributes})
            self.spans.extend(span for scope in each.scope_spans for span in scope.spans)

    @property
    def names(self) -> list[str]:
        return [span.name for span in self.spans]

    def one(self, name: str) -> Any:
        (found,) = (span for span in self.spans if span.name == name)
        return found


@pytest.fixture
def amends(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.fixture
def collector() -> Generator[Collector]:
    made = Collector()
    serving = threading.Thread(target=made.server.serve_forever)
    serving.start()
    yield made
    made.goes_on.set()
    made.server.shutdown()
    serving.join()
    made.server.server_close()


def attribute(span: Any, name: str) -> str:
    return next((pair.value.string_value for pair in span.attributes if pair.key == name), "")


def test_a_run_is_exported_as_the_environment_says(amends: Shell, collector: Collector) -> None:
    said = amends(
        *BUY,
        OTEL_EXPORTER_OTLP_ENDPOINT=collector.endpoint,
        OTEL_SERVICE_NAME="till",
        OTEL_RESOURCE_ATTRIBUTES="team=shops",
        TRACEPARENT=f"00-{TRACE}-{PARENT}-01",
    )
    assert (said.code, said.err) == (0, "")
    assert collector.names.count("saga shop.buy") == 1
    assert {"execute_tool stock.reserve", "execute_tool payments.charge"} <= set(collector.names)
    root = collector.one("saga shop.buy")
    assert (root.trace_id.hex(), root.parent_span_id.hex()) == (TRACE, PARENT)
    assert collector.one("execute_tool stock.reserve").parent_span_id == root.span_id
    assert (collector.resources[0]["service.name"], collector.resources[0]["team"]) == ("till", "shops")
    assert {"amends.sagas.started", "amends.steps"} <= collector.metrics


def test_a_service_that_nobody_named_is_called_as_the_program(amends: Shell, collector: Collector) -> None:
    assert amends(*BUY, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=f"{collector.endpoint}/v1/traces").code == 0
    assert collector.resources[0]["service.name"] == "amends"
    assert not collector.metrics


def test_a_rolled_back_run_is_exported_too(amends: Shell, collector: Collector) -> None:
    dear = (*BUY[:-1], '{"item": "cup", "cents": 5000}')
    assert amends(*dear, OTEL_EXPORTER_OTLP_ENDPOINT=collector.endpoint, OTEL_METRICS_EXPORTER="none").code == 3
    assert {"compensate stock.reserve", "saga shop.buy"} <= set(collector.names)
    assert not collector.metrics


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_what_is_stopped_is_exported_as_far_as_it_went(
    amends: Shell, collector: Collector, monkeypatch: pytest.MonkeyPatch, stop: signal.Signals
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint)
    with amends.awaiting_lorry("deliver", "--id", "d") as process:
        process.send_signal(stop)
        amends.let_lorry_come()
        process.communicate(timeout=PATIENCE_S)
    assert "execute_tool stock.reserve" in collector.names
    assert attribute(collector.one("saga shop.deliver"), "amends.saga.status") in {"open", "completed"}


def test_what_is_resumed_goes_on_in_its_trace(amends: Shell, collector: Collector) -> None:
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint}
    assert amends("run", "shop:lend", "--id", "l", "--input", '{"item": "ladder"}', stdin=b"", **env).code == 6
    assert amends("saga", "signal", "l", "returned", "--payload", '"whole"').code == 0
    assert amends("resume", "shop", stdin=b"", **env).code == 0
    begun, resumed = collector.one("saga shop.lend"), collector.one("resume shop.lend")
    assert attribute(begun, "amends.saga.status") == "open"
    assert attribute(resumed, "amends.saga.status") == "completed"
    assert (resumed.trace_id, resumed.parent_span_id) == (begun.trace_id, begun.span_id)


def test_a_worker_exports_what_it_drives(amends: Shell, collector: Collector) -> None:
    amends.kill_in_the_middle("d")
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint}
    with amends.started("work", "--module", "shop", "--json", **env) as process:
        out = cast("IO[str]", process.stdout)
        assert '"d"' in out.readline()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)
    assert "resume shop.deliver" in collector.names


@pytest.mark.parametrize("is_silent", [True, False])
def test_a_collector_that_is_not_there_neither_fails_nor_holds_up_a_run(
    amends: Shell, collector: Collector, is_silent: bool
) -> None:
    collector.is_silent = is_silent
    endpoint = collector.endpoint if is_silent else "http://127.0.0.1:1"
    began = time.monotonic()
    said = amends(*BUY, OTEL_EXPORTER_OTLP_ENDPOINT=endpoint)
    assert said.code == 0
    assert time.monotonic() - began < 30
    (told,) = said.err.splitlines()
    assert told.startswith("amends: telemetry is not exported, and the saga does not mind: ")


def test_what_is_not_installed_is_named_once_and_the_run_goes_on(amends: Shell) -> None:
    without = amends.place / "without" / "opentelemetry"
    without.mkdir(parents=True)
    (without / "__init__.py").write_text("raise ModuleNotFoundError(\"No module named 'opentelemetry'\")\n")
    env = {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_METRICS_EXPORTER": "otlp", "PYTHONPATH": str(without.parent)}
    said = amends(*BUY, stdin=b"", **env)
    assert said.code == 0
    assert said.err == (
        "amends: OTEL_TRACES_EXPORTER is set, and nothing is exported (No module named 'opentelemetry'): install "
        "opentelemetry-sdk and opentelemetry-exporter-otlp-proto-http, which the extra amends[otel] has\n"
    )


@pytest.mark.parametrize(
    ("env", "told"),
    [
        (
            {"OTEL_TRACES_EXPORTER": "zipkin"},
            "OTEL_TRACES_EXPORTER is set, and traces are not exported: install opentelemetry-exporter-zipkin",
        ),
        (
            {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "OTEL_TRACES_EXPORTER is set, and traces are not exported: install opentelemetry-exporter-otlp-proto-grpc",
        ),
        (
            {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "pigeon"},
            "telemetry is not exported: OTEL_EXPORTER_OTLP_PROTOCOL is 'pigeon'; write http/protobuf or grpc",
        ),
    ],
)
def test_a_wrong_variable_is_told_and_the_run_goes_on(amends: Shell, env: dict[str, str], told: str) -> None:
    said = amends(*BUY, stdin=b"", **env)
    assert (said.code, said.err) == (0, f"amends: {told}\n")


def test_the_console_is_an_exporter_and_json_stays_json(amends: Shell) -> None:
    said = amends(*BUY, "--json", OTEL_TRACES_EXPORTER="console")
    assert said.code == 0
    assert said.of_type("ended")
    assert '"name": "saga shop.buy"' in said.err


@pytest.mark.parametrize("env", [{}, {"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "otlp"}])
def test_who_asks_for_nothing_pays_nothing(amends: Shell, env: dict[str, str]) -> None:
    (amends.place / "tells.py").write_text(TELLS, encoding="utf-8")
    with amends.started("run", "tells:tells", **env) as process:  # a process that has imported nothing yet
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert out.splitlines()[-1].endswith("completed: []")


def test_a_module_s_own_setup_stays(amends: Shell, collector: Collector) -> None:
    (amends.place / "own.py").write_text(OWN, encoding="utf-8")
    said = amends("run", "own:buy", *BUY[2:], OTEL_EXPORTER_OTLP_ENDPOINT=collector.endpoint)
    assert said.code == 0
    assert "mine: saga shop.buy" in said.out
    assert not collector.spans
