"""Mutations of files that are not ONNX: JSON, exports, databases, messages."""

from __future__ import annotations

import random
import re
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import mutate_json
import zstandard
from fuzzing.drawn import Files, Mutation


def one_file(change: Callable[[bytes, random.Random], bytes], *names: str) -> Mutation:
    """Mutates one of the files of these names; of any name if there are none."""

    def mutation(files: Files, rng: random.Random) -> Files:
        name = rng.choice(sorted(names or files))
        return {**files, name: change(files[name], rng)}

    return mutation


def json_bytes(content: bytes, rng: random.Random) -> bytes:
    """A JSON document with one to three changes, or other bytes where it is none any more."""
    try:
        return mutate_json.mutated(content, rng)
    except (ValueError, IndexError, RecursionError):
        return any_bytes(content, rng)


def any_bytes(content: bytes, rng: random.Random) -> bytes:
    """Other bytes somewhere."""
    at = rng.randrange(len(content) + 1)
    return content[:at] + rng.randbytes(rng.randrange(0, 5)) + content[at + rng.randrange(0, 5) :]


_TOML = (
    *(b"nan", b"inf", b"-1", b"0", b"1e400", b"9" * 400, b"0x" + b"f" * 400, b"[]", b"{}", b'""'),
    *(b"=", b"1979-05-27", b"true", b"[" * 5000, b"\n[per_hour]", b"\n[[accuracy]]", b"'" * 3),
    *(b"a." * 3000, b'"' + b"n" * 10_000 + b'"', b'"=1+1"', b"\x1b[31m", "\u202e".encode()),
)


def toml_text(content: bytes, rng: random.Random) -> bytes:
    """A TOML document with another word, or other bytes, somewhere."""
    if rng.random() < 0.2:
        return any_bytes(content, rng)
    words = re.split(rb"([\s=\[\]]+)", content)
    words[rng.randrange(len(words))] = rng.choice(_TOML)
    return b"".join(words)


def export_lines(content: bytes, rng: random.Random) -> bytes:
    """An exported file with another line, one less, or one more; seldom with other bytes."""
    if rng.random() < 0.1:
        return any_bytes(content, rng)
    try:
        lines = zstandard.decompress(content, max_output_size=1 << 26).splitlines()
    except zstandard.ZstdError:
        return any_bytes(content, rng)
    at = rng.randrange(len(lines) or 1)
    action = rng.choice(("change", "change", "change", "drop", "twice"))
    if lines and action == "change":
        lines[at] = json_bytes(lines[at], rng).replace(b"\n", b" ")
    elif lines and action == "drop":
        del lines[at]
    elif lines:
        lines.insert(at, lines[at])
    return zstandard.compress(b"".join(line + b"\n" for line in lines))


_ODD = (
    None,
    -1,
    0,
    2**31,
    2**62,
    -(2**63),
    1.5,
    float("inf"),
    "",
    "x",
    "\x1b[31m",
    b"\xff\x00",
    "{}",
    "[]",
    '{"a": [1',
    "1" * 400,
    "a" * 20_000,
    "[[[[0]]]]",
    "float32[1x-1]",
)


def database_rows(content: bytes, rng: random.Random) -> bytes:
    """A store with another value in a cell, a row less or more, or a table less."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "store.sqlite")
        path.write_bytes(content)
        try:
            _change_database(path, rng)
        except (sqlite3.Error, UnicodeError):  # other bytes have damaged it before
            return any_bytes(content, rng)
        return path.read_bytes()


def _change_database(path: Path, rng: random.Random) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("PRAGMA ignore_check_constraints = ON")
        found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        counts = {
            name: connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0]
            for (name,) in found.fetchall()
        }
        table = rng.choice(sorted(name for name, count in counts.items() if count) or [""])
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        column, row = rng.choice(columns), rng.randrange(counts[table])
        where = f"WHERE rowid = (SELECT rowid FROM {table} LIMIT 1 OFFSET {row})"
        action = rng.random()
        if action < 0.7:
            old = connection.execute(f"SELECT {column} FROM {table} {where}").fetchone()[0]
            new = _changed_cell(old, rng)
            connection.execute(f"UPDATE {table} SET {column} = ? {where}", (new,))
        elif action < 0.85:
            connection.execute(f"DELETE FROM {table} {where}")
        elif action < 0.95:
            connection.execute(f"UPDATE {table} SET {column} = ?", (rng.choice(_ODD),))
        else:
            connection.execute(f"DROP TABLE {table}")


def _changed_cell(old: object, rng: random.Random) -> object:
    if isinstance(old, str) and old[:1] in ("{", "[") and rng.random() < 0.7:
        return json_bytes(old.encode(), rng).decode(errors="replace")
    return rng.choice(_ODD)
