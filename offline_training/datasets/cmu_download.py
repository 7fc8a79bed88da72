"""Downloads a subject of the CMU motion capture database: its skeleton and motions, for ``siha train body --data``.

One file after the other. Files that are there already are kept, one that broke off goes on where it stopped, and a file
has its name only when it is complete and can be read.
"""

from __future__ import annotations

import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from pathlib import Path

from offline_training.datasets.cmu_mocap import MocapError, Skeleton, read_motion, read_skeleton

SITE = "http://mocap.cs.cmu.edu"
LAST_SUBJECT, LAST_TRIAL = 144, 99
MISSING_IN_A_ROW = 5  # trial numbers that are not there, after which a subject is taken to have no more
TIMEOUT = 30.0  # s
BLOCK = 1 << 16
NOT_FOUND, RANGE_REFUSED, PARTIAL = 404, 416, 206


class DownloadError(OSError):
    """What could not be downloaded; the message is one line: address, what happened."""


def download_subject(
    subject: int,
    folder: Path,
    trials: Iterable[int] | None = None,
    *,
    site: str = SITE,
    say: Callable[[str], object] = print,
) -> list[Path]:
    """Files of a subject, in ``folder``: ``35.asf`` and ``35_01.amc`` .. of the trials, all that there are by default.

    Raises DownloadError, in one line; what is complete by then stays.
    """
    if not 1 <= subject <= LAST_SUBJECT:
        raise DownloadError(f"subject {subject}: expected 1 to {LAST_SUBJECT}")
    folder.mkdir(parents=True, exist_ok=True)
    name, base = f"{subject:02d}", f"{site.rstrip('/')}/subjects/{subject:02d}"
    asf = folder / f"{name}.asf"
    if not _fetch(f"{base}/{asf.name}", asf, read_skeleton, say):
        raise DownloadError(f"{base}/{asf.name}: not found (404), so there is no subject {subject}")
    skeleton = read_skeleton(asf)
    files = [asf]
    missing: list[int] = []
    for trial in trials or range(1, LAST_TRIAL + 1):
        amc = folder / f"{name}_{trial:02d}.amc"
        if _fetch(f"{base}/{amc.name}", amc, lambda path: _read_motion(path, skeleton), say):
            files.append(amc)
            missing.clear()
        elif trials:
            raise DownloadError(f"{base}/{amc.name}: not found (404), so subject {subject} has no trial {trial}")
        else:
            missing.append(trial)
            if len(missing) == MISSING_IN_A_ROW:
                break
    if len(files) == 1:
        raise DownloadError(f"{base}: no trial found, the first {len(missing)} numbers are not there")
    return files


def _read_motion(path: Path, skeleton: Skeleton) -> None:
    read_motion(path, skeleton)


def _fetch(address: str, file: Path, check: Callable[[Path], object], say: Callable[[str], object]) -> bool:
    """Download one file unless it is there; False where the site has none of that name."""
    if file.exists():
        return True
    part = file.with_name(file.name + ".part")
    have = part.stat().st_size if part.exists() else 0
    try:
        complete = _download(address, part, have)
    except urllib.error.HTTPError as error:
        if error.code == RANGE_REFUSED and have:  # nothing is left to send, or the file has changed: from the start
            part.unlink()
            return _fetch(address, file, check, say)
        if error.code == NOT_FOUND:
            return False
        raise DownloadError(f"{address}: the server says {error.code} {error.reason}") from None
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        kept = " (what has come is kept, try again)" if part.exists() else ""
        raise DownloadError(f"{address}: {reason}{kept}") from None
    if not complete:
        raise DownloadError(f"{address}: broke off after {part.stat().st_size} bytes (they are kept, try again)")
    try:
        check(part)
    except MocapError as error:
        part.unlink()
        raise DownloadError(f"{address}: what came cannot be read: {error}") from None
    os.replace(part, file)
    say(f"{file} ({file.stat().st_size} bytes)")
    return True


def _download(address: str, part: Path, have: int) -> bool:
    """Append to ``part`` what is missing of it after ``have`` bytes; whether it is as long as the server said."""
    request = urllib.request.Request(address, headers={"Range": f"bytes={have}-"} if have else {})
    with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
        begin = have if answer.status == PARTIAL else 0
        length = answer.headers.get("Content-Length")
        with part.open("ab" if begin else "wb") as out:
            while block := answer.read(BLOCK):
                out.write(block)
    return length is None or part.stat().st_size == begin + int(length)
