"""Messages as bytes: numbers, texts, bytes, lists and mappings of them, and nothing else.

Reading them runs no code of the sender, unlike reading pickles.
"""

from __future__ import annotations

from typing import Any

import msgpack


def packed(message: Any) -> bytes:
    """A message as bytes.

    Raises:
        TypeError: If the message contains other values than plain data.
    """
    return bytes(msgpack.packb(message, default=_plain, use_bin_type=True))


def unpacked(data: bytes | memoryview) -> Any:
    """Reverses :func:`packed`. Lists become tuples.

    Raises:
        ValueError: If the bytes are no message.
    """
    try:
        return msgpack.unpackb(data, use_list=False, raw=False, strict_map_key=False)
    except TypeError as error:
        raise ValueError("a key of the message is a mapping") from error


def _plain(value: Any) -> Any:
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} is not plain data")
