"""Whose is it, and who else can change it: asked before amends opens a file, makes one, or believes what it says.

One rule for all: a thing belongs to this user or to root, and nobody else can write it. It is asked of the thing and
of every directory and link on the way to it, from the root directory on, because whoever can rename a directory on the
way can put another thing in its place.

| kind     | what it is                                  | links    | nobody else may | its directory                  |
|----------|---------------------------------------------|----------|-----------------|--------------------------------|
| JOURNAL  | the journal, its -wal, -shm and -journal    | refused  | read or write   | FOLDER                         |
| FOLDER   | the directory of a journal                  | followed | write           | others may write, where sticky |
| KEY      | the key beside a journal                    | refused  | read or write   | FOLDER                         |
| SECRET   | a key or a secret at a path that was chosen | followed | read or write   | others may write, where sticky |
| DOCUMENT | amends.toml, a policy, a saga's file        | followed | write           | others may write, where sticky |
| STATE    | the state directory of changesets           | refused  | write           | others may write, where sticky |

In a sticky directory others can make files, but not rename or remove ours. That is enough for a file that amends opens
by its one name, and not for a journal: SQLite replays a log that somebody put beside it. SQLite opens its files by
name, some of them much later, so a look at them cannot be the last word; the rule for the directories is what closes
it: who cannot make a name there can put nothing under it, then or later. What amends reads itself is looked at once
more when it is open, by its descriptor.

Three ways to mean others on purpose:

- a group that shares a journal (`journal_group`): its members may own and write the journal and its directory, which
  has to hand its group on (setgid), or SQLite's own files would get another one;
- a directory of another user that this one trusts, as a checkout in a container: AMENDS_SAFE_DIRECTORIES, or
  `safe_directories` in the user's own config.toml. Who owns such a directory is trusted for what is in it. What lies in
  a checkout never says so of itself;
- the group of a user's own, of the same name and without other members, as many systems make it: it is nobody else.

An access list shows in the bits of the group. Where these are allowed, a list must not be there.
"""

from __future__ import annotations

import errno
import os
import shlex
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from amends.errors import AmendsError, InputError

SAFE: Final = "AMENDS_SAFE_DIRECTORIES"
SAFE_KEY: Final = "safe_directories"
BESIDE: Final = ("-wal", "-shm", "-journal")
"""The files that SQLite keeps beside its own, and believes."""

_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_ANY: Final = stat.S_IRWXG | stat.S_IRWXO
_ROOT: Final = 0
_MOST_LINKS: Final = 40
_HANDED: Final = ("/dev/fd/", "/proc/self/fd/")
_LIST: Final = "system.posix_acl_access"


class PrivateKind(NamedTuple):
    """`closed`: the bits of its mode that nobody else may have. `because`: why, as the end of a sentence."""

    word: str
    because: str
    closed: int = _WRITE
    follows_links: bool = True
    is_directory: bool = False


JOURNAL: Final = PrivateKind("a journal", "a journal holds what they must not see or change", _ANY, follows_links=False)
FOLDER: Final = PrivateKind(
    "the directory of a journal", "whoever can make a file beside a journal can change it", is_directory=True
)
KEY: Final = PrivateKind("a key", "whoever reads it can sign", _ANY, follows_links=False)
SECRET: Final = PrivateKind("a secret", "whoever reads it can sign", _ANY)
DOCUMENT: Final = PrivateKind("a file", "amends would do as it says")
STATE: Final = PrivateKind(
    "the state of changesets", "what lies there is put into the tree", follows_links=False, is_directory=True
)
_WAY: Final = PrivateKind(
    "a directory", "whoever can rename what is in it can put something else there", is_directory=True
)


class OwnershipFault(NamedTuple):
    """Why a thing is not believed, and what to do about it, with the command where there is one."""

    path: str
    what: str
    do: str

    def __str__(self) -> str:
        return f"{self.what}; {self.do}"


def require(
    path: str | bytes | os.PathLike[str],
    kind: PrivateKind,
    *,
    error: Callable[[str], AmendsError],
    group: int | None = None,
) -> None:
    """Raise `error`, with all that a person has to know, where the thing is not to be believed.

    A thing that is not there is no fault of anybody's, and the directories on the way to it are asked about all the
    same. `group`: the number of the group that shares it, on purpose.
    """
    found = fault(path, kind, group=group)
    if found is not None:
        raise error(str(found))


def fault(
    path: str | bytes | os.PathLike[str], kind: PrivateKind, *, group: int | None = None
) -> OwnershipFault | None:
    """The fault of a thing, or of the way to it; None where there is none, or where it cannot be reached at all: then
    opening it says why.
    """
    given = os.fsdecode(path)
    return None if _is_handed(given) else _Look(given, kind, group).fault()


def journal_faults(path: str | os.PathLike[str], *, group: int | None = None) -> Iterator[OwnershipFault]:
    """All that is wrong with a journal, its directory first: where that is open to others, nothing in it is safe."""
    whole = _whole(os.fsdecode(path))
    folder = os.path.dirname(whole)
    found = fault(folder, FOLDER, group=group)
    if found is not None:
        yield found
    for each in (whole, *(f"{whole}{end}" for end in BESIDE)):
        found = fault(each, JOURNAL, group=group)
        if found is not None:
            yield found


def require_own_journal(
    path: str | os.PathLike[str], *, error: Callable[[str], AmendsError], group: int | None = None
) -> None:
    """Raise `error` at the first of its faults."""
    for found in journal_faults(path, group=group):
        raise error(str(found))


def read_own(
    path: str | os.PathLike[str],
    kind: PrivateKind,
    *,
    most: int,
    error: Callable[[str], AmendsError],
    group: int | None = None,
) -> bytes:
    """So many bytes of a file at most, once it is certain whose it is. Raises `error`, and OSError where it cannot be
    read.

    Once it is open it is looked at again, because the name may have got another file meanwhile.
    """
    require(path, kind, error=error, group=group)
    given, links = os.fsdecode(path), 0 if kind.follows_links else os.O_NOFOLLOW
    file = os.open(given, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY | links)
    try:
        os.set_blocking(file, True)
        found = None if _is_handed(given) else _Look(given, kind, group).fault_of(os.fstat(file))
        if found is not None:
            raise error(str(found))
        pieces = list[bytes]()
        while most > 0 and (piece := os.read(file, most)):
            pieces.append(piece)
            most -= len(piece)
        return b"".join(pieces)
    finally:
        os.close(file)


def group_number(name: str) -> int:
    """The number of a group, by its name or as it is. Raises InputError."""
    import grp

    if name.isascii() and name.isdecimal():
        return int(name)
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        raise InputError(
            f"journal_group: there is no group {name!r} on this machine; make it (groupadd {shlex.quote(name)}), or "
            "name another"
        ) from None


class _Step(NamedTuple):
    """One thing on the way: a directory, a link, or at last what was asked for."""

    path: str
    about: os.stat_result
    is_last: bool


class _Look:
    """One look at one thing, along its way."""

    def __init__(self, given: str, kind: PrivateKind, group: int | None) -> None:
        self._whole = _whole(given)
        self._kind = kind
        self._group = group
        self._me = os.geteuid()
        self._safe: tuple[str, ...] | None = None

    def fault(self, *, safe: tuple[str, ...] | None = None) -> OwnershipFault | None:
        """`safe`: the directories that are trusted, if not those that the user named."""
        self._safe = safe
        for step in self._way():
            found = self.fault_of(step.about, step.path) if step.is_last else self._fault_on_the_way(step)
            if found is not None:
                return found
        return None

    def fault_of(self, about: os.stat_result, path: str | None = None) -> OwnershipFault | None:
        """Of the thing itself: what it is, whose, and who else may use it."""
        path = self._whole if path is None else path
        if stat.S_ISLNK(about.st_mode):
            return self._a_link(path)
        if stat.S_ISDIR(about.st_mode) != self._kind.is_directory:
            if self._kind is DOCUMENT and stat.S_ISDIR(about.st_mode):
                return None  # reading it says so
            wanted = "a directory" if self._kind.is_directory else "a regular file"
            return OwnershipFault(path, f"{path} is not {wanted}", f"{self._kind.word} is one; give another path")
        if not self._kind.is_directory and not stat.S_ISREG(about.st_mode):
            return OwnershipFault(path, f"{path} is not a regular file", f"{self._kind.word} is one; give another path")
        if not self._is_ours(about, path):
            return self._foreign(path, about)
        return self._too_open(path, about)

    def _fault_on_the_way(self, step: _Step) -> OwnershipFault | None:
        if not self._is_ours(step.about, step.path):
            return self._foreign(step.path, step.about)
        if stat.S_ISLNK(step.about.st_mode) or step.about.st_mode & stat.S_ISVTX:
            return None
        open_bits = self._open_bits(step.about, step.path, _WRITE)
        return self._writable(step.path, step.about, _WAY, open_bits) if open_bits else None

    def _way(self) -> Iterator[_Step]:
        """From the root directory on, through links; what is not there, or cannot be looked at, ends it."""
        yield _Step("/", os.lstat("/"), is_last=False)
        with suppress(OSError):
            yield from self._found()

    def _found(self) -> Iterator[_Step]:
        here, links = "/", 0
        ahead = [name for name in reversed(self._whole.split("/")) if name not in {"", "."}]
        while ahead:
            name = ahead.pop()
            if name == "..":
                here = os.path.dirname(here)
                continue
            path = os.path.join(here, name)
            about = os.lstat(path)
            if not stat.S_ISLNK(about.st_mode) or not (ahead or self._kind.follows_links):
                yield _Step(path, about, not ahead)
                here = path
                if ahead:
                    continue
                return
            yield _Step(path, about, is_last=False)
            links += 1
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), self._whole)
            target = os.readlink(path)
            here = "/" if target.startswith("/") else here
            ahead += [part for part in reversed(target.split("/")) if part not in {"", "."}]
        yield _Step(here, os.lstat(here), is_last=True)  # it ends in `..`, in a link to such, or is the root itself

    # -- whose --------------------------------------------------------------------------------------------------------

    def _is_ours(self, about: os.stat_result, path: str) -> bool:
        return about.st_uid in {self._me, _ROOT} or self._is_shared(about) or about.st_uid in self._trusted(path)

    def _is_shared(self, about: os.stat_result) -> bool:
        """Only members of a group, and root, can make a file be of that group."""
        is_meant = self._kind is JOURNAL or stat.S_ISDIR(about.st_mode)
        return self._group is not None and about.st_gid == self._group and is_meant

    def _trusted(self, path: str) -> set[int]:
        """Owners of the safe directories around it; and of the journal's, if it is shared, for the way there."""
        if self._safe is None:
            self._safe = safe_directories()
        places = (path, self._whole, os.path.realpath(self._whole))
        safe = [each for each in self._safe if any(_is_within(place, each) for place in places)]
        found = [_about(each) for each in safe]
        folder = _about(self._place()) if self._group is not None else None
        found += [folder] if folder is not None and folder.st_gid == self._group else []
        return {about.st_uid for about in found if about is not None}

    def _place(self) -> str:
        """The directory that it is about, through all links."""
        real = os.path.realpath(self._whole)
        return real if self._kind.is_directory else os.path.dirname(real)

    def _foreign(self, path: str, about: os.stat_result) -> OwnershipFault:
        """Somebody else's. Where they own the directory too, that can be trusted; else the file has to change hands."""
        mode, quoted, theirs = stat.S_IMODE(about.st_mode), shlex.quote(path), user(about.st_uid)
        nor = "not to root" if self._me == _ROOT else f"neither to you, {user(self._me)}, nor to root"
        what = f"{path} belongs to {theirs} (mode {mode:o}), and {nor}: {self._kind.because}"
        sudo, link = "" if self._me == _ROOT else "sudo ", "-h " if stat.S_ISLNK(about.st_mode) else ""
        ways = [f"if it is yours, run: {sudo}chown {link}{self._me} {quoted}"]
        if not stat.S_ISDIR(about.st_mode):
            away = f"mv {quoted} {shlex.quote(f'{path}.refused')}"
            ways = [f"move it away: {away}"] if path.endswith(BESIDE) else [*ways, f"if not, move it away: {away}"]
        around, place = _about(self._place()), self._place()
        if around is None or around.st_uid != about.st_uid:
            place = path if stat.S_ISDIR(about.st_mode) else ""
        if place and not path.endswith(BESIDE):
            ways.append(
                f"if you trust {theirs} with what you do there: export {SAFE}={shlex.quote(place)}, or name it under "
                f"{SAFE_KEY} in {user_file()}"
            )
        if self._group is not None:
            share = f"chmod {'2770' if stat.S_ISDIR(about.st_mode) else '660'}"
            ways.append(f"if its group is to share it: chgrp {group_name(self._group)} {quoted} && {share} {quoted}")
        return OwnershipFault(path, what, "; ".join(ways))

    # -- who else -----------------------------------------------------------------------------------------------------

    def _open_bits(self, about: os.stat_result, path: str, closed: int) -> int:
        """The bits that others have and may not: those of the group do not count where it is meant, or nobody else."""
        found = about.st_mode & closed
        of_group = found & stat.S_IRWXG
        if not of_group or _has_list(path):
            return found
        if self._is_shared(about) or (closed == _WRITE and _is_own_group(about.st_uid, about.st_gid)):
            return found & ~of_group
        return found

    def _too_open(self, path: str, about: os.stat_result) -> OwnershipFault | None:
        open_bits = self._open_bits(about, path, self._kind.closed)
        if not open_bits:
            return self._unshared(path, about)
        if self._kind.is_directory:
            return self._writable(path, about, self._kind, open_bits)
        only_list = _has_list(path) and open_bits & stat.S_IRWXG
        mend = f"{'setfacl -b ' + shlex.quote(path) + ' && ' if only_list else ''}chmod {self._right_mode()}"
        return OwnershipFault(
            path,
            f"{path} is open to other users (mode {stat.S_IMODE(about.st_mode):o}), and {self._kind.because}",
            f"run: {mend} {shlex.quote(path)}",
        )

    def _right_mode(self) -> str:
        if self._kind.closed == _WRITE:
            return "go-w"
        return "660" if self._group is not None and self._kind is JOURNAL else "600"

    def _unshared(self, path: str, about: os.stat_result) -> OwnershipFault | None:
        """A directory of the group that shares the journal has to let it in, and to hand it on to what is made there.

        One of another group is this user's alone, and so is a journal in it.
        """
        wanted = stat.S_ISGID | stat.S_IRWXG
        if self._group is None or self._kind is not FOLDER or about.st_gid != self._group:
            return None
        if about.st_mode & wanted == wanted:
            return None
        return OwnershipFault(
            path,
            f"{path} is of group {group_name(self._group)}, which is to share the journal, and does not let it in or "
            f"does not hand it on (mode {stat.S_IMODE(about.st_mode):o})",
            f"run: chmod 2770 {shlex.quote(path)}",
        )

    def _writable(self, path: str, about: os.stat_result, kind: PrivateKind, open_bits: int) -> OwnershipFault:
        quoted, is_group = shlex.quote(path), not open_bits & stat.S_IRWXO
        who = f"group {group_name(about.st_gid)}" if is_group else "other users"
        what = f"{path} can be written by {who} (mode {stat.S_IMODE(about.st_mode):o}), and {kind.because}"
        mend = f"chmod {'g-w' if is_group else 'go-w'} {quoted}"
        if _has_list(path) and open_bits & stat.S_IRWXG:
            mend = f"setfacl -b {quoted} && {mend}"
        do = f"run: {mend}"
        if about.st_mode & stat.S_ISVTX:
            own = shlex.quote(os.path.join(path, f"amends-{self._me}"))
            do = f"use a directory of your own, such as: mkdir -m 700 {own}"
        elif self._me not in {about.st_uid, _ROOT}:
            do = f"use a directory of your own, or have {user(about.st_uid)} run: {mend}"
        shared = f"; if that group is to share the journal, say so: journal_group = {group_name(about.st_gid)!r}"
        return OwnershipFault(path, what, f"{do}{shared if is_group and kind is FOLDER else ''}")

    def _a_link(self, path: str) -> OwnershipFault:
        to = os.path.realpath(path)
        return OwnershipFault(
            path, f"{path} is a symbolic link", f"{self._kind.word} is no link: name what it means, {to}"
        )


# -- people -----------------------------------------------------------------------------------------------------------


def user(number: int) -> str:
    """A user, as a person knows them."""
    import pwd

    try:
        return f"{pwd.getpwuid(number).pw_name} (uid {number})"
    except KeyError:
        return f"uid {number}"


def group_name(number: int) -> str:
    import grp

    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


def _is_own_group(owner: int, number: int) -> bool:
    """Whether a group is its owner's own, with nobody else in it; root's is not: containers put anybody into it."""
    import grp
    import pwd

    try:
        person, group = pwd.getpwuid(owner), grp.getgrgid(number)
    except KeyError:
        return False
    return (
        number != _ROOT
        and person.pw_gid == number
        and person.pw_name == group.gr_name
        and set(group.gr_mem) <= {person.pw_name}
    )


def _has_list(path: str) -> bool:
    """Whether it has an access list, whose widest right shows as the group's."""
    try:
        return bool(os.getxattr(path, _LIST))
    except (OSError, AttributeError):
        return False


# -- directories that are safe because the user said so ---------------------------------------------------------------


def user_file() -> str:
    """Where a user says what holds for all that they do; never a file of the project."""
    above = os.environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(above):
        above = os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(above, "amends", "config.toml")


def safe_directories() -> tuple[str, ...]:
    """The directories of other users that this one trusts, as the environment and the user's own file name them.

    Those that are not there are left out. Raises InputError for what is no list of whole paths.
    """
    said = [(SAFE, each) for each in os.environ.get(SAFE, "").split(os.pathsep) if each]
    file = user_file()
    if os.path.lexists(file):
        said += [(file, each) for each in _listed(file)]
    found = list[str]()
    for where, each in said:
        whole = os.path.expanduser(each)
        if not os.path.isabs(whole):
            raise InputError(f"{where}: {each!r} is no whole path; a safe directory is named from / on")
        real = os.path.realpath(whole)
        found += [real] if os.path.isdir(real) else []
    return tuple(found)


def _listed(file: str) -> list[str]:
    """Directories that the user's own file lists. It has to be theirs as anything else, and cannot make itself safe."""
    import tomllib

    wrong = _Look(file, DOCUMENT, None).fault(safe=())
    if wrong is not None:
        raise InputError(str(wrong))
    try:
        with open(file, "rb") as opened:
            said = tomllib.load(opened)
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
        raise InputError(f"{file} cannot be read: {exc}") from None
    unknown = [key for key in said if key != SAFE_KEY]
    if unknown:
        raise InputError(f"{file}: unknown key {unknown[0]!r}; known: {SAFE_KEY}")
    listed: object = said.get(SAFE_KEY, [])
    if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):  # pyright: ignore[reportUnknownVariableType] any TOML
        raise InputError(f'{file}: {SAFE_KEY} has to be a list of paths, such as ["/src/checkout"], not {listed!r}')
    return [str(each) for each in listed]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] any TOML


def _whole(path: str) -> str:
    """From / on, with its links and its `..`, which behind a link mean another place."""
    try:
        return path if os.path.isabs(path) else os.path.join(os.getcwd(), path)
    except FileNotFoundError:
        return path  # the working directory is gone: nothing can be opened there


def _about(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None


def _is_handed(path: str) -> bool:
    """Whether it names a descriptor: who started this process opened it, and handed it over."""
    return path == "/dev/stdin" or path.startswith(_HANDED)


def _is_within(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")
