import json

import pytest
import zstandard


@pytest.fixture
def lines_of():
    """Reads the lines of an exported file."""

    def read(path):
        with zstandard.open(path, "rt") as file:
            return [json.loads(line) for line in file]

    return read


@pytest.fixture
def write_lines():
    """Writes an exported file line by line."""

    def write(path, lines):
        text = "".join(f"{json.dumps(line)}\n" for line in lines)
        path.write_bytes(zstandard.ZstdCompressor(write_checksum=True).compress(text.encode()))

    return write
