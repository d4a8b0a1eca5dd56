"""The program that a tool is started by. It runs alone, in a Python of its own, and imports nothing of amends.

    launch.py LIFELINE REPORT SPEC COMMAND...

It makes a mount and a pid namespace (and, for an ordinary user, a user namespace), mounts the views over the trees'
own paths, and starts the command as a child of process 1 of that namespace. When process 1 ends, the kernel ends all
the others, whatever they did to get away; and it ends when the command does, when LIFELINE is closed, which is also
what happens when the runtime is killed, or when this program dies.

A confined command sees the whole file system read-only but for the views and a folder for scratch, a proc that it
cannot write to, and nothing of the paths that SPEC masks. It has no capabilities, and gets none by what it starts.

Without namespaces it does the same as well as it can: it adopts orphans, and kills whatever descends from it; where
SPEC says so, only after it has asked the command's process group to end, and given it some seconds.

SPEC is an open file of JSON, in which paths are bytes in latin-1. REPORT gets one line: `exit 3`, `signal 9`, or
`error` and what could not be done.
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

NEWNS, NEWUSER, NEWPID, NEWNET = 0x00020000, 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 8, 0x1000, 0x4000, 0x40000
PR_SET_PDEATHSIG, PR_CAPBSET_READ, PR_CAPBSET_DROP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 23, 24, 36, 38
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
CAP_SYS_ADMIN, CAP_VERSION_3, MOST_CAPS = 21, 0x20080522, 64
INET, DATAGRAM, SIOCSIFFLAGS, UP_AND_RUNNING = 2, 2, 0x8914, b"\x41\0"
DEVICES = (b"null", b"zero", b"full", b"random", b"urandom", b"tty")
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


def enter_namespaces(*, with_user: bool, with_network: bool) -> None:
    """`with_network`: it has that of the machine; otherwise one of its own, with a loopback and nothing else."""
    uid, gid = os.geteuid(), os.getegid()
    kinds = NEWNS | NEWPID | (0 if with_network else NEWNET)
    if not with_user:
        called("unshare", libc.unshare(kinds))
        return
    called("unshare", libc.unshare(kinds | NEWUSER))
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)


def mount_view(view: Spec) -> None:
    target = view["target"].encode("latin-1")
    if "bind" in view:
        mount(view["bind"].encode("latin-1"), target, None, MS_BIND | MS_REC)
        return
    os.chdir(view["scratch"].encode("latin-1"))  # short names, and none that the option's commas and colons could break
    lowers = ":".join([*map(str, range(view["lowers"])), *(["m"] if view["masked"] else []), "b"])
    options = f"lowerdir={lowers},upperdir=u,workdir=inner,userxattr"
    try:
        mount(b"overlay", target, b"overlay", 0, f"{options},volatile".encode())
    except OSError:
        mount(b"overlay", target, b"overlay", 0, options.encode())


def confine(spec: Spec) -> None:
    """Make all but the views read-only, mask what nobody may read, and give room that nobody outside sees.

    That room lies over a folder of ours, which is hidden by it: `tmp` in it can be written to.
    """
    writable = [view["target"].encode("latin-1") for view in spec["views"]]
    room = spec["room"].encode("latin-1")
    mount(b"tmpfs", room, b"tmpfs", MS_NOSUID | MS_NODEV, b"mode=0711")
    masks = [path.encode("latin-1") for path in spec["masks"]]
    empty = room + b"/masked"
    os.close(os.open(empty, os.O_CREAT | os.O_WRONLY, 0))
    for path in masks:
        mask(path, empty)
    if os.geteuid() == 0:
        leave_plain_devices(room + b"/dev")
    os.mkdir(room + b"/tmp")
    for place in (room + b"/tmp", b"/dev/shm"):
        if os.path.isdir(place):
            mount(b"tmpfs", place, b"tmpfs", MS_NOSUID | MS_NODEV)
            writable.append(place)
    set_read_only(b"/", read_only=True)
    for place in writable:
        set_read_only(place, read_only=False)


def mask(path: bytes, empty: bytes) -> None:
    """Let nobody read what is there: a folder is empty, a file is one that may not be opened."""
    if os.path.islink(path):
        return
    if os.path.isdir(path):
        mount(b"tmpfs", path, b"tmpfs", MS_NOSUID | MS_NODEV, b"mode=0000")
    elif os.path.exists(path):
        mount(empty, path, None, MS_BIND)


def leave_plain_devices(room: bytes) -> None:
    """Root may write to a disk's device without any capability, and on a read-only file system too: leave it none."""
    if not os.path.isdir(b"/dev"):
        return
    os.mkdir(room)
    mount(b"tmpfs", room, b"tmpfs", MS_NOSUID, b"mode=0755")
    for name in DEVICES:
        if os.path.exists(b"/dev/" + name):
            os.close(os.open(room + b"/" + name, os.O_CREAT | os.O_WRONLY, 0o600))
            mount(b"/dev/" + name, room + b"/" + name, None, MS_BIND)
    for name in (b"shm", b"pts"):
        os.mkdir(room + b"/" + name)
    if os.path.isdir(b"/dev/pts"):
        mount(b"/dev/pts", room + b"/pts", None, MS_BIND | MS_REC)
    links = {b"fd": b"/proc/self/fd", b"ptmx": b"pts/ptmx"}
    links |= {b"std" + name: b"/proc/self/fd/%d" % number for number, name in enumerate((b"in", b"out", b"err"))}
    for name, target in links.items():
        os.symlink(target, room + b"/" + name)
    mount(room, b"/dev", None, MS_BIND | MS_REC)


class CapHeader(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


def drop_capabilities() -> None:
    """Have none, and get none by starting a program: all sets are emptied, and the bound on what could come back."""
    header, sets = CapHeader(CAP_VERSION_3, 0), (ctypes.c_uint32 * 6)()
    called("capget", libc.capget(ctypes.byref(header), sets))
    if not any(sets):
        return  # an ordinary user has none; what a program with powers of its own gives them is the system's business
    libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    for number in range(MOST_CAPS):
        is_in = libc.prctl(PR_CAPBSET_READ, number, 0, 0, 0)
        if is_in < 0:
            break
        if is_in and libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0) < 0:
            called("prctl", libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))  # the other way to get none back
            break
    called("capset", libc.capset(ctypes.byref(header), (ctypes.c_uint32 * 6)()))


def raise_loopback() -> None:
    """In a network of its own a command can talk to itself."""
    file = libc.socket(INET, DATAGRAM, 0)
    if file >= 0:
        libc.ioctl(file, ctypes.c_ulong(SIOCSIFFLAGS), b"lo".ljust(16, b"\0") + UP_AND_RUNNING.ljust(24, b"\0"))
        os.close(file)


def set_up(spec: Spec) -> None:
    """As process 1 of the new namespaces."""
    mount(b"none", b"/", None, MS_REC | MS_PRIVATE)
    for view in spec["views"]:
        mount_view(view)
    if not spec["network"]:
        raise_loopback()
    flags = MS_NOSUID | MS_NODEV | MS_NOEXEC
    if spec["confine"]:
        confine(spec)
        flags |= MS_RDONLY
    with contextlib.suppress(OSError):  # a container may forbid it; then its /proc shows the processes outside
        mount(b"proc", b"/proc", b"proc", flags)
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
        if spec["confine"]:
            called("prctl", libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        if spec["powerless"] and sys.platform == "linux":
            drop_capabilities()
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
            enter_namespaces(with_user=with_user, with_network=spec["network"])
        except PermissionError:
            if with_user:
                raise
            enter_namespaces(with_user=True, with_network=spec["network"])
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
    with open(int(sys.argv[3]), "rb") as file:
        spec: Spec = json.load(file)
    command = [os.fsencode(word) for word in sys.argv[4:]]
    run = in_namespaces if spec["namespaces"] else in_the_open
    run(spec, command, lifeline, report)


if __name__ == "__main__":
    main()
