"""The model's file is described as it is, and read once."""

import hashlib
import os
from types import SimpleNamespace

import onnx
import pytest

from dlbricks_core.commands.options import invocation
from dlbricks_core.commands.options.invocation import ModelFacts


@pytest.fixture
def reads(monkeypatch):
    found, notes = [], invocation._notes
    monkeypatch.setattr(invocation, "_notes", lambda *given: found.append(given) or notes(*given))
    return found


def saved(path, producer):
    text = f'<ir_version: 8, opset_import: ["" : 17], producer_name: "{producer}">'
    text += "g (float[2] x) => (float[2] y) { y = Relu(x) }"
    onnx.save(onnx.parser.parse_model(text), path)
    return SimpleNamespace(source=str(path))


def test_a_file_is_described_once_until_it_is_written(reads, tmp_path):
    path = tmp_path / "net.onnx"
    model = saved(path, "one")
    found = [ModelFacts.of(model), ModelFacts.of(model)]
    assert found[0] == found[1]
    assert found[0].sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert (found[0].size, found[0].notes.producer) == (path.stat().st_size, "one")
    assert len(reads) == 1
    before = path.stat()
    saved(path, "two")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    again = ModelFacts.of(model)
    assert again.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert again.notes.producer == "two"
