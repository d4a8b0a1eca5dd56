"""A PostgreSQL server of the tests' own: in a temporary directory, on a socket there and on loopback, as nobody.

The binaries are Debian's where they are, else those of the PyPI wheel that `make test-postgres` installs.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg
from psycopg import sql

from amends.journal.postgres.address import PostgresAddress
from amends.journal.postgres.database import migrate

ROOT = Path(__file__).resolve().parents[2]
USER = "amends_tests"
START_S = 60.0


def binaries() -> Path:
    """The directory of initdb, postgres and pg_basebackup."""
    debians = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda one: int(one.parts[-3]))
    wheels = list(ROOT.glob(".venv.*/lib/python3*/site-packages/*/pginstall/bin/postgres"))
    found = [*debians[::-1], *wheels]
    if not found:
        raise RuntimeError("there is no PostgreSQL here: run make test-postgres, or apt-get install postgresql")
    return found[0].parent


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class PostgresServer:
    """`durable`: it waits for its disk, as in real use. Killed and started again it keeps its port."""

    def __init__(self, *, durable: bool = True, standby_of: "PostgresServer | None" = None) -> None:
        self.port = free_port()
        self._durable = durable
        self._bin = binaries()
        self._uid = 65534 if os.geteuid() == 0 else os.geteuid()
        self.place = Path(tempfile.mkdtemp(prefix="amends-pg-"))
        self.place.chmod(0o755)
        self.data = self.place / "data"
        self._process: subprocess.Popen[bytes] | None = None
        self._databases = 0
        self._gid = self._uid if os.geteuid() == 0 else os.getegid()
        os.chown(self.place, self._uid, self._gid)
        if standby_of is None:
            self._run("initdb", "-D", str(self.data), "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "-N")
            with (self.data / "pg_hba.conf").open("a") as rules:
                rules.write("host replication all 127.0.0.1/32 trust\n")
        else:
            whole = f"host=127.0.0.1 port={standby_of.port} user={USER} application_name=standby"
            self._run("pg_basebackup", "-D", str(self.data), "-R", "-X", "stream", "-c", "fast", "-d", whole)

    def _run(self, program: str, *words: str) -> None:
        done = subprocess.run(
            [str(self._bin / program), *words],
            capture_output=True,
            timeout=120,
            cwd="/",
            check=False,
            user=self._uid,
            group=self._gid,
        )
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stderr.decode(errors='replace')}")

    def start(self, *settings: str) -> None:
        words = [str(self._bin / "postgres"), "-D", str(self.data), "-p", str(self.port), "-k", str(self.place)]
        fixed = ["listen_addresses=127.0.0.1", "max_connections=200", "shared_buffers=64MB", "log_min_messages=fatal"]
        if not self._durable:
            fixed += ["fsync=off", "full_page_writes=off", "autovacuum=off"]
        for setting in (*fixed, *settings):
            words += ["-c", setting]
        log = (self.place / "log").open("ab")
        with log:
            self._process = subprocess.Popen(words, stdout=log, stderr=log, cwd="/", user=self._uid, group=self._gid)
        ends = time.monotonic() + START_S
        while True:
            with suppress(psycopg.OperationalError):
                psycopg.connect(self.admin, connect_timeout=2).close()
                return
            if time.monotonic() > ends or self._process.poll() is not None:
                raise RuntimeError(
                    f"PostgreSQL did not start: {(self.place / 'log').read_text(errors='replace')[-2000:]}"
                )
            time.sleep(0.02)

    @property
    def admin(self) -> str:
        return f"postgresql://{USER}@127.0.0.1:{self.port}/postgres"

    def url(self, database: str, *, port: int | None = None) -> str:
        return f"postgresql://{USER}@127.0.0.1:{port or self.port}/{database}"

    def kill(self) -> None:
        """SIGKILL of the server and of all that it has started."""
        process = self._require_process()
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.send_signal(signal.SIGSTOP)  # it starts no other one meanwhile
        for pid in children:
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        process.kill()
        process.wait(30)
        self._process = None

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(60)
            self._process = None

    def promote(self) -> None:
        self._run("pg_ctl", "promote", "-D", str(self.data), "-w", "-t", "60")

    @property
    def pid(self) -> int:
        return self._require_process().pid

    def _require_process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "it runs"
        return self._process

    def execute(self, statement: str, database: str = "postgres") -> None:
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            connection.execute(statement.encode())

    def make_database(self) -> str:
        """An empty database with a journal made in it; its name."""
        with psycopg.connect(self.admin, autocommit=True) as connection:
            if not self._databases:
                connection.execute("CREATE DATABASE amends_template")
                migrate(PostgresAddress(self.url("amends_template")))
            self._databases += 1
            name = f"journal_{self._databases}"
            connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE amends_template").format(sql.Identifier(name)))
        return name

    def drop_database(self, name: str) -> None:
        with psycopg.connect(self.admin, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))

    @contextmanager
    def journal(self) -> Generator[str]:
        name = self.make_database()
        try:
            yield self.url(name)
        finally:
            with suppress(psycopg.OperationalError):
                self.drop_database(name)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        shutil.rmtree(self.place, ignore_errors=True)
