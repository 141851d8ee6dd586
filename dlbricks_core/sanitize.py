"""Text that others wrote, as it may be shown on a terminal or in a page."""

from __future__ import annotations

import re
from unicodedata import category

_RAW_BYTES = range(0xDC80, 0xDD00)
"""Stand for bytes that are no UTF-8, in names of files and from the command line."""


def sanitized(text: str) -> str:
    r"""The text with everything that cannot be printed written as an escape.

    Control characters drive a terminal, marks of direction turn the order of what is read, and
    line breaks imitate further output. Letters, signs and blanks of any script stay as they are.

    >>> sanitized("a[/b] ünï 士 \x1b[31m\n\u202e\udce9")
    'a[/b] ünï 士 \\x1b[31m\\n\\u202e\\xe9'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or category(c) == "Zs" else _escaped(c) for c in text)


# Each of the patterns looks at a character a bounded number of times: a name may have millions of
# them. Hence the possessive quantifiers, and beginnings that only the begin of a word matches.
_SCHEME = (
    r"(?:(?<![a-z0-9+.-])[a-z0-9+.-]*+:/+"
    r"|(?<![^\s'\"=(\[,/])(?=\w*(?:sql|post|pg))[\w+.-]*+[:;/|\\]++)"
)
"""Begins a URL, whatever its scheme is, or something with a database in its name that is mistyped:
``postgresql:me@host``, ``postgresql;//me@host``."""

_PASSWORD = re.compile(rf"({_SCHEME}[^\s/:@]*+):.*@", re.IGNORECASE)
"""A database's URL up to its last @: a password that is not escaped may hold others."""

_QUERY = re.compile(r"(?<!\w)((?=\w*postgres)\w*+(?:\+\w++)?:/+[^\s?]*+)\?\S*", re.IGNORECASE)

_ANY_WORD = re.compile(r"\S++")

_SECRET_FIELD = re.compile(r"([?&;](?=\w*(?:pass|key|secret|token))\w*+=)[^\s&;]+", re.IGNORECASE)
"""A field of a query, of any URL, that may be a secret by its name."""


def without_secrets(text: str) -> str:
    """The text without passwords and options of database URLs, mistyped ones included.

    Where a command expects a path, a URL is shortened to one slash.

    >>> without_secrets("postgresql+psycopg:/me:s3cret@host/results?sslkey=a is no file")
    'postgresql+psycopg:/me:***@host/results?... is no file'
    >>> without_secrets("postgresql:me:s3cret@host/results")
    'postgresql:me:***@host/results'
    """
    text = "\n".join(map(_without_passwords, text.split("\n")))
    return _SECRET_FIELD.sub(r"\1***", _ANY_WORD.sub(_without_query, text))


# Both give a pattern a text in which its matches can end: none looks for its end in vain.
def _without_query(word: re.Match[str]) -> str:
    return _QUERY.sub(r"\1?...", word[0]) if "?" in word[0] else word[0]


def _without_passwords(line: str) -> str:
    head, at, rest = line.rpartition("@")
    return _PASSWORD.sub(r"\1:***@", head + at) + rest


_MOST_LETTERS = 300


def shortened(text: str, most: int = _MOST_LETTERS) -> str:
    """The text, with an ellipsis in the middle if it is long, because both ends distinguish names.

    >>> shortened("abcdefghij", 7)
    'abc...hij'
    """
    half = most // 2
    return text if len(text) <= most else f"{text[:half]}...{text[-half:]}"


_WORD = re.compile(rf"\S{{{_MOST_LETTERS + 1},}}")


def shortened_words(text: str) -> str:
    """The text with each word of it shortened: names of files, layers and models."""
    return _WORD.sub(lambda word: shortened(word[0]), text)


_RUN_BY_A_SPREADSHEET = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def cell(text: str) -> str:
    """The text as a cell of a file that spreadsheets open, none of which runs it as a formula.

    >>> cell("=1+1"), cell("-1.5"), cell("resnet-50")
    ("'=1+1", '-1.5', 'resnet-50')
    """
    if not text.startswith(_RUN_BY_A_SPREADSHEET) or _NUMBER.fullmatch(text):
        return text
    return f"'{text}"


_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


def _escaped(character: str) -> str:
    if ord(character) in _RAW_BYTES:
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape").decode("ascii")
