"""Identities of hosts, by which a fleet recognizes a host that leaves and joins again."""

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
    """Identity of a host. No other worker has the same identity while the context lasts.

    The identity is kept in a locked file of the host's spool. The kernel unlocks the file when the
    process ends, even after a crash. A second worker with the same spool has a second identity.

    Args:
        spool: Folder of the host's store.

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
