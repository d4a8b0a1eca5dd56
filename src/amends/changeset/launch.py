"""The program that a tool is started by. It runs alone, in a Python of its own, and imports nothing of amends.

    launch.py LIFELINE REPORT SPEC COMMAND...

It makes a mount and a pid namespace (and, for an ordinary user, a user namespace), mounts the views over the trees'
own paths, and starts the command as a child of process 1 of that namespace. When process 1 ends, the kernel ends all
the others, whatever they did to get away; and it ends when the command does, when LIFELINE is closed, which is also
what happens when the runtime is killed, or when this program dies.

Without namespaces it does the same as well as it can: it adopts orphans, and kills whatever descends from it; where
SPEC says so, only after it has asked the command's process group to end, and given it some seconds.

REPORT gets one line: `exit 3`, `signal 9`, or `error` and what could not be done. Paths in SPEC are bytes in latin-1.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import sys

TYPE_CHECKING = False  # typing costs as much to import as all the rest, and this program starts for every command
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, NoReturn

    Spec = dict[str, Any]

NEWNS, NEWUSER, NEWPID = 0x00020000, 0x10000000, 0x20000000
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 8, 0x1000, 0x4000, 0x40000
PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 24, 36, 38
CAP_SYS_ADMIN = 21
MOUNT_SETATTR, AT_RECURSIVE, RDONLY = 442, 0x8000, 1
HERE = -100
LOOK_S = 0.05

libc = ctypes.CDLL(None, use_errno=True)


def called(what: str, result: int) -> None:
    """Raise what the C library says went wrong."""
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def mount(source: bytes, target: bytes, kind: bytes | None, flags: int, data: bytes | None = None) -> None:
    called(f"mount on {target!r}", libc.mount(source, target, kind, ctypes.c_ulong(flags), data))


class MountAttr(ctypes.Structure):
    _fields_ = (
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns", ctypes.c_uint64),
    )


def set_read_only(path: bytes, *, read_only: bool) -> None:
    """All that is mounted at and below a path, or one mount back."""
    attr = MountAttr(RDONLY, 0, 0, 0) if read_only else MountAttr(0, RDONLY, 0, 0)
    flags = AT_RECURSIVE if read_only else 0
    result = libc.syscall(MOUNT_SETATTR, HERE, path, flags, ctypes.byref(attr), ctypes.sizeof(attr))
    called("mount_setattr", result)


def enter_namespaces(*, with_user: bool) -> None:
    uid, gid = os.geteuid(), os.getegid()
    if not with_user:
        called("unshare", libc.unshare(NEWNS | NEWPID))
        return
    called("unshare", libc.unshare(NEWUSER | NEWNS | NEWPID))
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)


def mount_view(view: Spec) -> None:
    target = view["target"].encode("latin-1")
    if "bind" in view:
        mount(view["bind"].encode("latin-1"), target, None, MS_BIND | MS_REC)
        return
    os.chdir(view["scratch"].encode("latin-1"))  # short names, and none that the option's commas and colons could break
    lowers = ":".join([*map(str, range(view["lowers"])), "b"])
    options = f"lowerdir={lowers},upperdir=u,workdir=inner,userxattr"
    try:
        mount(b"overlay", target, b"overlay", 0, f"{options},volatile".encode())
    except OSError:
        mount(b"overlay", target, b"overlay", 0, options.encode())


def confine(spec: Spec) -> None:
    """Make all but the views read-only; give scratch space that nobody outside sees."""
    writable = [view["target"].encode("latin-1") for view in spec["views"]]
    for place in (spec["tmp"].encode("latin-1"), b"/dev/shm"):
        if os.path.isdir(place):
            mount(b"tmpfs", place, b"tmpfs", MS_NOSUID | MS_NODEV)
            writable.append(place)
    set_read_only(b"/", read_only=True)
    for place in writable:
        set_read_only(place, read_only=False)
    called("prctl", libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


def set_up(spec: Spec) -> None:
    """As process 1 of the new namespaces."""
    mount(b"none", b"/", None, MS_REC | MS_PRIVATE)
    for view in spec["views"]:
        mount_view(view)
    if spec["confine"]:
        confine(spec)
    with contextlib.suppress(OSError):  # a container may forbid it; then its /proc shows the processes outside
        mount(b"proc", b"/proc", b"proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    if os.geteuid() == 0:  # root could undo the mounts otherwise
        called("prctl", libc.prctl(PR_CAPBSET_DROP, CAP_SYS_ADMIN, 0, 0, 0))


def start(spec: Spec, command: list[bytes], report: int) -> int:
    child = os.fork()
    if child:
        return child
    try:
        for number in (signal.SIGPIPE, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        os.setsid()
        os.chdir(spec["cwd"].encode("latin-1"))
        os.execvp(command[0], command)  # noqa: S606 - the user's own command, without a shell
    except OSError as exc:
        os.write(report, f"error {os.fsdecode(command[0])}: {exc.strerror}\n".encode("utf-8", "backslashreplace"))
    os._exit(127)


def wait_for(child: int, lifeline: int, woken: int, report: int) -> bool:
    """Until the command ends, or nobody wants its end any more: True. Orphans are buried on the way."""
    while True:
        ready, _, _ = select.select([lifeline, woken], [], [])
        if lifeline in ready:
            return True
        os.read(woken, 512)
        for pid, status in buried():
            if pid == child:
                code = os.waitstatus_to_exitcode(status)
                os.write(report, f"exit {code}\n".encode() if code >= 0 else f"signal {-code}\n".encode())
                return False


def buried() -> Iterator[tuple[int, int]]:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, status


def ask_to_end(child: int, woken: int, grace_s: float) -> None:
    """Let the command and its group put things in order, for a while."""
    with contextlib.suppress(OSError):
        try:
            os.killpg(child, signal.SIGTERM)
        except ProcessLookupError:  # it has only just been forked, and has no group of its own yet
            os.kill(child, signal.SIGTERM)
    for _ in range(round(grace_s / LOOK_S)):
        ready, _, _ = select.select([woken], [], [], LOOK_S)
        if ready:
            os.read(woken, 512)
        if any(pid == child for pid, _ in buried()):
            return


def descendants(of: int) -> list[int]:
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat", "rb") as file:
                parents[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
    found, fresh = set[int](), {of}
    while fresh:
        fresh = {pid for pid, parent in parents.items() if parent in fresh and pid not in found}
        found |= fresh
    return sorted(found)


def kill_all(child: int) -> None:
    """End whatever descends from here, until there is nothing left."""
    while True:
        with contextlib.suppress(OSError):
            os.killpg(child, signal.SIGKILL)
        for pid in descendants(os.getpid()) if os.path.isdir("/proc/self") else []:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def ignore(number: int, frame: object) -> None:
    """A signal that has to be caught, so that the pipe is written to."""


def wakeup() -> int:
    """A pipe that something can be read from once a child has ended."""
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC) if hasattr(os, "pipe2") else os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)
    signal.signal(signal.SIGCHLD, ignore)
    return reading


def first_of_namespace(spec: Spec, command: list[bytes], lifeline: int, report: int) -> NoReturn:
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    try:
        set_up(spec)
        woken = wakeup()
        wait_for(start(spec, command, report), lifeline, woken, report)
    except OSError as exc:
        os.write(report, f"error {exc.strerror}\n".encode("utf-8", "backslashreplace"))
    os._exit(0)


def in_namespaces(spec: Spec, command: list[bytes], lifeline: int, report: int) -> None:
    with_user = spec["userns"] or os.geteuid() != 0
    try:
        try:
            enter_namespaces(with_user=with_user)
        except PermissionError:
            if with_user:
                raise
            enter_namespaces(with_user=True)
    except OSError as exc:
        os.write(report, f"error {exc.strerror}\n".encode())
        return
    child = os.fork()
    if not child:
        first_of_namespace(spec, command, lifeline, report)
    os.waitpid(child, 0)


def in_the_open(spec: Spec, command: list[bytes], lifeline: int, report: int) -> None:
    if sys.platform == "linux":
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    woken = wakeup()
    child = start(spec, command, report)
    if wait_for(child, lifeline, woken, report) and spec.get("grace_s"):
        ask_to_end(child, woken, spec["grace_s"])
    kill_all(child)


def main() -> None:
    lifeline, report = int(sys.argv[1]), int(sys.argv[2])
    for each in (lifeline, report):
        os.set_inheritable(each, False)  # noqa: FBT003 - as the call wants it
    spec: Spec = json.loads(sys.argv[3])
    command = [os.fsencode(word) for word in sys.argv[4:]]
    run = in_namespaces if spec["namespaces"] else in_the_open
    run(spec, command, lifeline, report)


if __name__ == "__main__":
    main()
