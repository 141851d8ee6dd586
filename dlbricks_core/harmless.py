"""Text that others wrote, as it may be shown on a terminal or in a page."""

from __future__ import annotations

import re
from unicodedata import category

_RAW_BYTES = range(0xDC80, 0xDD00)
"""Stand for bytes that are no UTF-8, in names of files and from the command line."""


def harmless(text: str) -> str:
    r"""The text with everything that cannot be printed written as an escape.

    Control characters drive a terminal, marks of direction turn the order of what is read, and
    line breaks imitate further output. Letters, signs and blanks of any script stay as they are.

    >>> harmless("a[/b] ünï 士 \x1b[31m\n\u202e\udce9")
    'a[/b] ünï 士 \\x1b[31m\\n\\u202e\\xe9'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or category(c) == "Zs" else _escaped(c) for c in text)


_PASSWORD = re.compile(r"(postgres\w*(?:\+\w+)?:/+[^\s/:@]*):.*@", re.IGNORECASE)
"""A database's URL up to its last @: a password that is not escaped may hold others."""

_QUERY = re.compile(r"(postgres\w*(?:\+\w+)?:/+[^\s?]*)\?\S+", re.IGNORECASE)


def without_secrets(text: str) -> str:
    """The text without passwords and options of database URLs.

    Where a command expects a path, a URL is shortened to one slash.

    >>> without_secrets("postgresql+psycopg:/me:s3cret@host/results?sslkey=a is no file")
    'postgresql+psycopg:/me:***@host/results?... is no file'
    """
    return _QUERY.sub(r"\1?...", _PASSWORD.sub(r"\1:***@", text))


def _escaped(character: str) -> str:
    if ord(character) in _RAW_BYTES:
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape").decode("ascii")
