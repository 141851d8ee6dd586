"""Identities: by which a fleet knows a host that leaves and joins again."""

from __future__ import annotations

import fcntl
import platform
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path


@contextmanager
def identity(spool: Path) -> Iterator[str]:
    """Identity of a host, which nobody else has as long as the context lasts.

    It is kept in a file of the host's spool, which the kernel unlocks when the process ends,
    however it ends. A second worker with the same spool has an identity of its own.

    Args:
        spool: Folder in which the host keeps what it measures.

    Raises:
        OSError: If the folder cannot be written.
    """
    for number in count():
        with (spool / f"host-{number}").open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            file.seek(0)
            known = file.read().strip()
            if not known:
                known = uuid.uuid4().hex
                file.write(known)
                file.flush()
            yield f"{platform.node()}-{known}"
            return
