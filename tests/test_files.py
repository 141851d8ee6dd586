"""Files that users name: regular ones only, of a limited size."""

import os

import pytest

from dlbricks_core.files import content


def test_content_of_limited_size(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert content(path, 5) == b"12345"
    with pytest.raises(OSError, match="too large"):
        content(path, 4)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["pipe", "folder"])
def test_only_regular_files_are_opened(tmp_path, make):
    make(tmp_path / "file")
    with pytest.raises(OSError, match="not a regular file"):
        content(tmp_path / "file", 5)
