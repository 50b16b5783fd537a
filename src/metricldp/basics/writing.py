"""All writing of files: a name gets its new content whole, or keeps the old one.

Bytes go into a hidden file in the same folder and on to the disk; then it takes the name in one
step. Of two writers of one name the last wins. What a killed writer left behind the next one
removes: a living one holds a lock on its file.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import secrets
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO

from metricldp.basics.errors import MetricLdpError
from metricldp.basics.text import guess, shown

try:
    import fcntl
except ImportError:  # Windows, where leftovers stay
    fcntl = None  # type: ignore[assignment]

_MOST_ENTRIES = 1_000
"""Files of a directory among which the name that was meant is looked for."""
_PART = ".metricldp-"
"""How the names of files begin that are being written."""
PRIVATE, PRIVATE_FOLDER = 0o600, 0o700
"""Modes of files and folders that only their owner can read."""
Refusal = Callable[[str], MetricLdpError]
"""Makes the exception of a message."""


@contextlib.contextmanager
def replacing(
    path: str | Path,
    refusal: Refusal,
    what: str = "",
    endings: Sequence[str] = (),
    *,
    private: bool = False,
) -> Iterator[BinaryIO]:
    """A file to write into, which takes the name of `path` if all goes well.

    Everything else leaves an old file as it was. `what` it is goes with `endings` of its name.
    What is `private` only its owner can read.
    """
    target = _target(path, refusal, what, endings)
    try:
        with _beside(target, private=private) as (file, part):
            yield file
            file.flush()
            os.fsync(file.fileno())
            if fcntl is None:
                file.close()
            part.replace(target)
        sync(target.parent)
    except OSError as wrong:
        raise refusal(f"cannot write {path}: {why_not(wrong)}") from None


def why_not(wrong: Exception) -> str:
    """What the system or a library says of a file, in one line."""
    said = getattr(wrong, "strerror", None) or str(wrong) or type(wrong).__name__
    return str(said).splitlines()[0]


def near_file(path: str | Path) -> str:
    """The rest of a sentence about a missing file: the name nearby that was probably meant."""
    place = Path(path)
    try:
        with os.scandir(place.parent) as entries:
            names = [entry.name for entry in itertools.islice(entries, _MOST_ENTRIES)]
    except (FileNotFoundError, NotADirectoryError):
        return f"; there is no directory {place.parent}"
    except OSError:
        names = []
    # Of surveys only: other files nearby may hold raw data, which nobody should name as reports.
    alike = [name for name in names if Path(name).suffix == place.suffix in (".toml", ".json")]
    return guess(place.name, alike) or "; check the path"


def path_of(path: object, refusal: Refusal) -> Path:
    """The path of a file; a refusal of what can be none."""
    try:
        found = Path(path)  # type: ignore[arg-type]
    except TypeError:
        found = None
    if found is None or any(letter < " " for letter in str(found)):
        raise refusal(f"a file is named by one line of text or a Path, not by {shown(path)}")
    return found


def create_private(path: Path) -> None:
    """An empty file that only its owner can read, for a library that writes it.

    An old one gets the same mode. It is not opened: closing it again would release the locks that
    SQLite has on it.
    """
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE))
    except FileExistsError:
        make_private(path)


def make_private(path: Path) -> None:
    """Let only the owner read a file that may have been created with another mode, if it exists."""
    with contextlib.suppress(FileNotFoundError):
        if path.stat().st_mode & 0o077:
            path.chmod(PRIVATE)


def scratch(folder: str | Path) -> BinaryIO:
    """A file without a name, for what does not fit the memory; gone with the process."""
    return tempfile.TemporaryFile(dir=folder)


def check_apart(
    output: str | Path,
    inputs: Iterable[str | Path],
    refusal: Refusal,
    what: str = "",
    endings: Sequence[str] = (),
) -> None:
    """Refuse to replace what is read, under whichever of its names.

    With `endings` also what `replacing` would refuse, before there is work to be lost.
    """
    if endings:
        _target(output, refusal, what, endings)
    for path in map(Path, inputs):
        if path.exists() and Path(output).exists() and path.samefile(output):
            raise refusal(f"{output} would replace {path}; name another file")


def made(folder: str | Path, refusal: Refusal) -> Path:
    """A folder to write into, which is there from now on."""
    place = path_of(folder, refusal)
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as wrong:
        why = f"cannot write into {folder}: {why_not(wrong)}; name another folder"
        raise refusal(why) from None
    return place


def _target(path: str | Path, refusal: Refusal, what: str, endings: Sequence[str]) -> Path:
    """The file itself, where the path is a link; a refusal if it can be none."""
    path_of(path, refusal)
    why = ""
    try:
        found = Path(os.path.realpath(path))
        if found.is_dir():
            why = "it is a directory; name a file in it"
        elif not found.parent.is_dir():
            why = f"there is no directory {Path(path).parent}"
        elif found.exists() and not found.is_file():
            why = "it is a device; name a file"
    except (OSError, ValueError) as wrong:  # no name that the system can have
        why = why_not(wrong)
    if not why and endings and Path(path).suffix.lower() not in endings:
        why = f"a {what} file ends in {' or '.join(endings)}"
    if why:
        raise refusal(f"cannot write {path}: {why}")
    return found


@contextlib.contextmanager
def _beside(target: Path, *, private: bool) -> Iterator[tuple[BinaryIO, Path]]:
    """A new file in the folder of the target, with the mode of the old one, gone at the end."""
    # Names of one length, so that a long one does not grow too long.
    name = hashlib.sha256(os.fsencode(target.name)).hexdigest()[:16]
    prefix = f"{_PART}{name}-"
    remove_leftovers(target.parent, prefix)
    file, part = _created(target.parent, prefix, PRIVATE if private else 0o666)
    try:
        with file:
            if target.exists() and not private:
                part.chmod(stat.S_IMODE(target.stat().st_mode))
            yield file, part
    finally:
        part.unlink(missing_ok=True)


def _created(folder: Path, prefix: str, mode: int) -> tuple[BinaryIO, Path]:
    while True:
        part = folder / f"{prefix}{secrets.token_hex(8)}"
        file = open(part, "x+b", opener=partial(os.open, mode=mode))  # noqa: SIM115
        if fcntl is not None:
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(file, fcntl.LOCK_EX)
        if part.exists():  # else another writer took it for a leftover, before the lock
            return file, part
        file.close()


def remove_leftovers(folder: Path, prefix: str = _PART) -> int:
    """Remove files of writers that are no more, for they hold no lock; how many they were."""
    count = 0
    if fcntl is None:
        return count
    with contextlib.suppress(OSError):
        for part in folder.glob(f"{prefix}*"):
            with contextlib.suppress(OSError), part.open("rb+") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                part.unlink()
                count += 1
    return count


def sync(folder: Path) -> None:
    """The new name itself to the disk, where a folder can be opened."""
    with contextlib.suppress(PermissionError):
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
