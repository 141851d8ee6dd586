"""Small files that expand: each reader stops at a limit that has a name, and can be raised."""

import io
import json
import re
import zipfile
import zlib
from pathlib import Path

import pytest
import zstandard
from dlbricks_prediction import Contribution
from dlbricks_records.contents import read_stream
from dlbricks_records.record import read_record
from dlbricks_study.record import STUDIES, read_studies

from dlbricks_core.errors import DLBricksError, StoreError
from dlbricks_core.limits import EXPORTED, JSON_TEXT, LIMITS, UNPACKED, LimitError, parsed, unpacked

EVERY = (*LIMITS, STUDIES)
PAGE = Path(__file__).parents[1] / "docs" / "reference" / "limits.md"
FIRST = b'{"dlbricks_measurements":3,"written_by":"0.1.0"}\n'
LINE = b'{"quantity":{"name":"latency","unit":"ms","composition":"sum","meaning":"m"}}\n'


@pytest.fixture
def set_to(monkeypatch):
    """Sets a limit to a number."""
    return lambda limit, number: monkeypatch.setenv(limit.variable, str(number))


def compressed(*parts):
    """An exported file of parts, each with the number of times that it stands there."""
    file = io.BytesIO()
    with zstandard.ZstdCompressor().stream_writer(file, closefd=False) as writer:
        for part, times in parts:
            for _ in range(times):
                writer.write(part)
    return file.getvalue()


def refused(content):
    """The error that reading of an exported file from a pipe ends with."""
    with pytest.raises(StoreError) as caught:
        list(read_stream(io.BytesIO(content), "standard input"))
    assert "\n" not in caught.value.message
    return caught.value


def test_an_export_stops_at_its_limit(set_to):
    set_to(EXPORTED, 1)
    content = compressed((FIRST, 1), (LINE, 200_000))
    assert len(content) < 10_000
    error = refused(content)
    assert "more than 1 MiB, the limit DLBRICKS_MOST_EXPORTED_MIB" in error.message
    assert "DLBRICKS_MOST_EXPORTED_MIB" in error.hint


def test_a_line_of_an_export_stops_at_its_limit(set_to):
    set_to(JSON_TEXT, 1)
    error = refused(compressed((FIRST, 1), (b"[" * 2**16, 64)))
    assert "DLBRICKS_MOST_JSON_MIB" in error.message


@pytest.mark.long
def test_lines_that_never_end_are_not_copied_again_and_again():
    record = {"rewrite": {"graph": "A" * 2**25}}
    content = compressed((FIRST, 1), (json.dumps(record).encode() + b"\n", 1))
    assert "record 1 is damaged" in refused(content).message


@pytest.mark.parametrize("text", [b"[", b"[[],", b'{"a":1}'])
def test_json_on_standard_input_stops_at_its_limit(set_to, text):
    set_to(JSON_TEXT, 1)
    endless = io.BytesIO(text * (2**21 // len(text)))
    with pytest.raises(StoreError, match="DLBRICKS_MOST_JSON_MIB"):
        list(read_stream(endless, "standard input"))
    assert endless.tell() <= 2**20 + 8


@pytest.mark.parametrize("text", ["[" + "[]," * 2**19 + "[]]", "[" + "0," * 2**19 + "0]"])
def test_values_of_json_are_counted_before_they_are_made(monkeypatch, text):
    monkeypatch.setenv("DLBRICKS_MOST_JSON_VALUES", str(2**18))
    for each in (text, text.encode()):
        with pytest.raises(LimitError, match="DLBRICKS_MOST_JSON_VALUES"):
            parsed(each)
    monkeypatch.setenv("DLBRICKS_MOST_JSON_VALUES", str(2**22))
    assert len(parsed(text)) == 2**19 + 1


@pytest.mark.parametrize("read", [read_record, read_studies])
def test_files_of_results_are_refused_by_the_number_of_their_values(tmp_path, monkeypatch, read):
    monkeypatch.setenv("DLBRICKS_MOST_JSON_VALUES", "1000")
    path = tmp_path / "results.json"
    path.write_text('{"a":[' + "[]," * 30_000 + "[]]}")
    with pytest.raises(DLBricksError, match="DLBRICKS_MOST_JSON_VALUES"):
        read(path)


def test_many_small_studies_are_read_in_one_pass(tmp_path):
    path = tmp_path / "study.json"
    path.write_text('{"a": 1}\n ' * 200_000)
    with pytest.raises(DLBricksError, match="holds no study"):
        read_studies(path)


def test_a_field_unpacks_to_its_limit_and_no_further(set_to):
    set_to(UNPACKED, 1)
    assert unpacked(zlib.compress(bytes(2**20))) == bytes(2**20)
    with pytest.raises(LimitError, match="DLBRICKS_MOST_UNPACKED_MIB"):
        unpacked(zlib.compress(bytes(2**20 + 1)))
    with pytest.raises(LimitError, match="DLBRICKS_MOST_STORE_MIB"):
        unpacked(zlib.compress(bytes(1000)), left=999)
    with pytest.raises(zlib.error):
        unpacked(zlib.compress(bytes(1000))[:-3])


def test_a_contribution_stops_at_its_limit(tmp_path, monkeypatch):
    monkeypatch.setenv("DLBRICKS_MOST_CONTRIBUTION_MIB", "1")
    path = tmp_path / "own.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("counts.npy", bytes(2**21))
    with pytest.raises(DLBricksError, match="DLBRICKS_MOST_CONTRIBUTION_MIB"):
        Contribution.read(path)


@pytest.mark.parametrize("text", ["many", "-1", "0", "1.5", "9" * 30, "²"])
def test_a_limit_that_is_not_a_number_is_refused(monkeypatch, text):
    for each in EVERY:
        monkeypatch.setenv(each.variable, text)
        with pytest.raises(DLBricksError, match=each.variable) as caught:
            _ = each.most
        assert caught.value.hint


def test_every_limit_is_documented():
    rows = re.findall(r"^\| `(\w+)` \| ([\d,]+) (.+?) \|", PAGE.read_text("utf-8"), re.MULTILINE)
    limits = [(each.variable, f"{each.usual:,}", each.unit) for each in EVERY]
    assert sorted(rows) == sorted(limits)
