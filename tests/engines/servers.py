"""Restate's server and Temporal's, as processes of the tests: on loopback, in a directory of their own, ended by id."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import Self

ROOT = Path(__file__).resolve().parents[2]
START_S = 90.0


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens at now; all of them are held until all are found."""
    held = [socket.socket() for _ in range(count)]
    try:
        for one in held:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in held]
    finally:
        for one in held:
            one.close()


def ask(url: str, document: object = None) -> bytes:
    """A request of a few seconds on loopback. Raises OSError."""
    body = None if document is None else json.dumps(document).encode()
    wanted = urllib.request.Request(url, data=body, headers={"content-type": "application/json"})
    with urllib.request.urlopen(wanted, timeout=20) as answer:
        content: bytes = answer.read()
    return content


def until_true(true: object, within_s: float, what: str) -> None:
    """Ask again and again: a server of others tells nobody when it is ready."""
    assert callable(true)
    ends = time.monotonic() + within_s
    while not true():
        if time.monotonic() > ends:
            raise RuntimeError(what)
        time.sleep(0.05)


class ServerProcess(ABC):
    """One server. It may be killed, stopped for a while, started again with what it has stored, or without."""

    def __init__(self) -> None:
        self.place = Path(tempfile.mkdtemp(prefix="amends-engine-"))
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def words(self) -> list[str]: ...

    @property
    @abstractmethod
    def address(self) -> str:
        """Where it is told of sagas."""

    @abstractmethod
    def is_ready(self) -> bool: ...

    def environment(self) -> dict[str, str]:
        return {}

    def start(self) -> None:
        assert self._process is None, "it runs"
        with (self.place / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self.words(),
                stdout=log,
                stderr=log,
                cwd=self.place,
                env={
                    "PATH": os.environ["PATH"],
                    "HOME": str(self.place),
                    "TMPDIR": str(self.place),
                    **self.environment(),
                },
            )

    def wait(self) -> None:
        """Until it answers. Raises RuntimeError with the end of its log."""

        def is_up() -> bool:
            assert self._process is not None
            if self._process.poll() is not None:
                raise RuntimeError(f"{self.words()[0]} ended: {self.log()}")
            return self.is_ready()

        try:
            until_true(is_up, START_S, f"{self.words()[0]} is not ready")
        except RuntimeError as exc:
            raise RuntimeError(f"{exc}: {self.log()}") from None

    def log(self) -> str:
        return (self.place / "log").read_text(errors="replace")[-3000:]

    @property
    def pid(self) -> int:
        assert self._process is not None, "it runs"
        return self._process.pid

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(30)
            self._process = None

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(5)
            self.kill()

    def wipe(self) -> None:
        """Forget everything: as on a new disk."""
        assert self._process is None, "a server that runs has its files open"
        for each in self.place.iterdir():
            if each.name != "log":
                shutil.rmtree(each) if each.is_dir() else each.unlink()

    def __enter__(self) -> Self:
        try:
            self.start()
            self.wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        shutil.rmtree(self.place, ignore_errors=True)


def restate_program() -> Path:
    found = sorted(ROOT.glob(".venv.engines/node/node_modules/@restatedev/restate-server-*/bin/restate-server"))
    if not found:
        raise RuntimeError("there is no Restate here: run make test-engines, which installs it")
    return found[0]


def temporal_program() -> Path:
    return Path(sys.executable).with_name("temporal")


class RestateServer(ServerProcess):
    """A node of Restate; `peers` are the internal ports of all nodes of its cluster, its own among them."""

    def __init__(self, *, number: int = 1, peers: list[int] | None = None) -> None:
        super().__init__()
        self._number = number
        self._ingress, self._admin, own = free_ports(3)
        self._peers = peers or [own]

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._ingress}"

    @property
    def admin(self) -> str:
        return f"http://127.0.0.1:{self._admin}"

    def words(self) -> list[str]:
        return [str(restate_program()), "--no-logo", "--base-dir", str(self.place / "data")]

    def environment(self) -> dict[str, str]:
        own = self._peers[self._number - 1]
        several = len(self._peers) > 1
        return {
            "RESTATE_LISTEN_MODE": "tcp",
            "RESTATE_CLUSTER_NAME": "amends-tests",
            "RESTATE_NODE_NAME": f"node-{self._number}",
            "RESTATE_FORCE_NODE_ID": str(self._number),
            "RESTATE_AUTO_PROVISION": str(self._number == 1).lower(),
            "RESTATE_BIND_ADDRESS": f"127.0.0.1:{own}",
            "RESTATE_ADVERTISED_ADDRESS": f"http://127.0.0.1:{own}",
            "RESTATE_INGRESS__BIND_ADDRESS": f"127.0.0.1:{self._ingress}",
            "RESTATE_INGRESS__ADVERTISED_ADDRESS": self.address,
            "RESTATE_ADMIN__BIND_ADDRESS": f"127.0.0.1:{self._admin}",
            "RESTATE_ADMIN__ADVERTISED_ADDRESS": self.admin,
            "RESTATE_METADATA_CLIENT__ADDRESSES": json.dumps([f"http://127.0.0.1:{port}" for port in self._peers]),
            "RESTATE_DEFAULT_REPLICATION": "2" if several else "1",
            "RESTATE_DEFAULT_NUM_PARTITIONS": "4",
            "RESTATE_DISABLE_TELEMETRY": "true",
            "RESTATE_ROCKSDB_TOTAL_MEMORY_SIZE": "256 MiB",
            "RESTATE_LOG_FILTER": "warn",
        }

    def is_ready(self) -> bool:
        try:
            ask(f"{self.admin}/health")
            ask(f"{self.address}/restate/health")
        except OSError:
            return False
        return True

    def register(self, worker: str) -> None:
        """Tell it where its workers are."""

        def is_told() -> bool:
            try:
                ask(f"{self.admin}/deployments", {"uri": worker, "force": True})
            except urllib.error.HTTPError as exc:
                said = exc.read().decode(errors="replace")
                if "META0003" in said:  # the worker does not listen yet
                    return False
                raise RuntimeError(said) from None
            except OSError:
                return False
            return True

        until_true(is_told, START_S, f"Restate does not take {worker}")


class TemporalServer(ServerProcess):
    """Temporal's development server, with what it stores in a file."""

    def __init__(self) -> None:
        super().__init__()
        self.port, self._http, self._metrics = free_ports(3)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def words(self) -> list[str]:
        return [
            *(str(temporal_program()), "server", "start-dev", "--headless"),
            *("--ip", "127.0.0.1", "--port", str(self.port), "--http-port", str(self._http)),
            *("--metrics-port", str(self._metrics), "--db-filename", str(self.place / "temporal.db")),
            *("--log-level", "error"),
        ]

    def is_ready(self) -> bool:
        with suppress(OSError):
            return b"SERVING" in ask(f"http://127.0.0.1:{self._http}/api/v1/namespaces/default") or True
        return False
