"""Stacks of the threads that OpenVINO starts."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

_BYTES = 1 << 20
"""Size of a small stack. OpenVINO starts two threads for each network. They only hand tasks on, and
a worker's limit of memory counts their whole stacks, 8 MiB each by default.
"""

_ATTRIBUTES_BYTES = 256
"""Size of a buffer that holds ``pthread_attr_t`` on any processor."""


@contextmanager
def small_stacks() -> Iterator[None]:
    """Gives small stacks to threads that start meanwhile, unless whoever starts one sets its size.

    Raises:
        OSError: If the C library refuses.
    """
    before = _default()
    small = ctypes.create_string_buffer(before.raw, _ATTRIBUTES_BYTES)
    _checked("pthread_attr_setstacksize", small, ctypes.c_size_t(_BYTES))
    _checked("pthread_setattr_default_np", small)
    try:
        yield
    finally:
        _checked("pthread_setattr_default_np", before)


def _default() -> ctypes.Array[ctypes.c_char]:
    """Attributes of a new thread, as the GNU C library keeps them for the process."""
    attributes = ctypes.create_string_buffer(_ATTRIBUTES_BYTES)
    _checked("pthread_getattr_default_np", attributes)
    return attributes


def _checked(function: str, *arguments: object) -> None:
    if status := getattr(ctypes.CDLL(None), function)(*arguments):
        raise OSError(status, function)
