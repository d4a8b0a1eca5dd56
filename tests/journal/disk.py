"""A disk that notes every operation, fails where a test says so, and can be rebuilt as a power cut would leave it."""

import random
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Literal

import apsw

Kind = Literal["open", "read", "write", "sync", "truncate", "delete"]
Damage = Literal["kept", "lost", "torn", "reordered"]

SECTOR = 512
_numbers = count(1)


@dataclass(frozen=True)
class Operation:
    """`data` is what was written, `offset` where; of a truncation the new size; of a deletion 1 if it was synced."""

    kind: Kind
    file: str
    offset: int = 0
    data: bytes = b""


Fault = Callable[[int, Operation], apsw.Error | None]


def nothing(_number: int, _operation: Operation) -> None:
    """No fault."""


class Disk(apsw.VFS):
    """The real file system, watched. `fault` is asked before each operation, and may answer with an error."""

    def __init__(self) -> None:
        self.name = f"watched-{next(_numbers)}"
        self.log: list[Operation] = []
        self.fault: Fault = nothing
        super().__init__(self.name, "")

    def note(self, operation: Operation) -> None:
        trouble = self.fault(len(self.log), operation)
        self.log.append(operation)
        if trouble is not None:
            raise trouble

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> "WatchedFile":  # noqa: N802 - apsw's name
        return WatchedFile(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802 - apsw's name
        self.note(Operation("delete", Path(filename).name, int(syncdir)))
        super().xDelete(filename, syncdir)

    def excepthook(
        self, etype: type[BaseException] | None, evalue: BaseException | None, etraceback: TracebackType | None
    ) -> bool:
        """SQLite is told by an error code; the traceback would only be noise."""
        return True


class WatchedFile(apsw.VFSFile):
    def __init__(self, disk: Disk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        path = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        self.disk = disk
        self.file = Path(path).name
        disk.note(Operation("open", self.file))
        super().__init__("", name, flags)

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802 - apsw's name
        self.disk.note(Operation("read", self.file, offset))
        return super().xRead(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - apsw's name
        self.disk.note(Operation("write", self.file, offset, bytes(data)))
        super().xWrite(data, offset)  # pyright: ignore[reportUnknownMemberType] - apsw's stubs need Python 3.12

    def xSync(self, flags: int) -> None:  # noqa: N802 - apsw's name
        self.disk.note(Operation("sync", self.file))
        super().xSync(flags)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802 - apsw's name
        self.disk.note(Operation("truncate", self.file, newsize))
        super().xTruncate(newsize)

    def excepthook(
        self, etype: type[BaseException] | None, evalue: BaseException | None, etraceback: TracebackType | None
    ) -> bool:
        return True


@contextmanager
def watched() -> Generator[Disk]:
    disk = Disk()
    try:
        yield disk
    finally:
        disk.unregister()


def after_power_cut(log: Sequence[Operation], damage: Damage, seed: int) -> dict[str, bytes]:
    """The files as they may be found: what was synced is there; of the rest all, nothing, some sectors, or some writes
    in another order.
    """
    chance = random.Random(seed)
    durable: dict[str, bytearray] = {}
    pending: dict[str, list[Operation]] = {}
    named: set[str] = set()
    for operation in log:
        match operation.kind:
            case "open":
                durable.setdefault(operation.file, bytearray())
                pending.setdefault(operation.file, [])
            case "write" | "truncate":
                pending[operation.file].append(operation)
            case "sync":
                for each in pending[operation.file]:
                    apply(durable[operation.file], each)
                pending[operation.file] = []
                named.add(operation.file)
            case "delete" if operation.offset or damage != "lost":
                del durable[operation.file], pending[operation.file]
                named.discard(operation.file)
            case _:
                pass
    for file, operations in pending.items():
        if damage == "reordered":
            chance.shuffle(operations)
        for each in operations:
            if damage == "kept" or (damage == "reordered" and chance.random() < 0.7):
                apply(durable[file], each)
            elif damage == "torn":
                for part in sectors(each):
                    if chance.random() < 0.5:
                        apply(durable[file], part)
    return {file: bytes(data) for file, data in durable.items() if damage != "lost" or file in named}


def sectors(operation: Operation) -> Iterator[Operation]:
    if operation.kind == "truncate":
        yield operation
    for start in range(0, len(operation.data), SECTOR):
        part = operation.data[start : start + SECTOR]
        yield Operation("write", operation.file, operation.offset + start, part)


def apply(content: bytearray, operation: Operation) -> None:
    if operation.kind == "truncate":
        del content[operation.offset :]
        return
    end = operation.offset + len(operation.data)
    content.extend(bytes(max(0, end - len(content))))
    content[operation.offset : end] = operation.data
