"""Exports that the environment asks for, by OpenTelemetry's own variables. Imports nothing of OpenTelemetry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

NEEDED: Final = "opentelemetry-sdk and opentelemetry-exporter-otlp-proto-http, which the extra amends[otel] has"
_OTLP: Final = "OTEL_EXPORTER_OTLP"
_PROTOCOLS: Final[Mapping[str, str]] = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}
_ANY: Final = tuple(_PROTOCOLS.values())
_PACKAGES: Final[Mapping[str, str]] = {
    "otlp_proto_http": "opentelemetry-exporter-otlp-proto-http",
    "otlp_proto_grpc": "opentelemetry-exporter-otlp-proto-grpc",
}


class WantedExporter(NamedTuple):
    """One exporter: which variable asks for it, for what, and by which names it may be installed, the best first."""

    variable: str
    signal: str
    names: tuple[str, ...]

    @property
    def package(self) -> str:
        """The package that has it, as far as a name can tell."""
        return _PACKAGES.get(self.names[0], f"opentelemetry-exporter-{self.names[0].replace('_', '-')}")


def wanted(environ: Mapping[str, str]) -> tuple[WantedExporter, ...]:
    """Exports that are asked for: none where no variable says where to. Raises ValueError for an unknown protocol.

    An empty variable is as good as none. Where only an endpoint is given, spans and metrics go to it by OTLP.
    """
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return ()
    return tuple(each for signal in ("traces", "metrics") for each in _wanted_of(signal, environ))


def _wanted_of(signal: str, environ: Mapping[str, str]) -> tuple[WantedExporter, ...]:
    variable = f"OTEL_{signal.upper()}_EXPORTER"
    said = environ.get(variable, "").strip()
    if not said:
        ends = (f"{_OTLP}_{signal.upper()}_ENDPOINT", f"{_OTLP}_ENDPOINT")
        variable = next((end for end in ends if environ.get(end, "").strip()), "")
        said = "otlp" if variable else "none"
    names = dict.fromkeys(name.strip() for name in said.split(","))
    return tuple(
        WantedExporter(variable, signal, _installed_as(name, signal, environ))
        for name in names
        if name not in {"", "none"}
    )


def _installed_as(name: str, signal: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    if name != "otlp":
        return (name,)
    for variable in (f"{_OTLP}_{signal.upper()}_PROTOCOL", f"{_OTLP}_PROTOCOL"):
        protocol = environ.get(variable, "").strip()
        if protocol and protocol not in _PROTOCOLS:
            raise ValueError(f"{variable} is {protocol!r}; write {' or '.join(_PROTOCOLS)}")
        if protocol:
            return (_PROTOCOLS[protocol],)
    return _ANY


def carrier(environ: Mapping[str, str]) -> dict[str, str]:
    """The place in a trace that this process was started in, as one process hands it to the next."""
    found = {name: environ.get(name.upper(), "").strip() for name in ("traceparent", "tracestate")}
    return {name: value for name, value in found.items() if value}
