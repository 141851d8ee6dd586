"""Pipes and folders in place of files: a command says so at once, and waits for nobody."""

import os

import pytest

pytestmark = pytest.mark.process

LINES = [
    ("show", "pipe.onnx"),
    ("show", "llm:pipe.json"),
    ("results", "record", "pipe.json"),
    ("results", "repeat", "pipe.json"),
    ("study", "--from", "pipe.json"),
    ("results", "import", "pipe.json", "--store", "s.sqlite"),
    ("results", "merge", "pipe.json", "--store", "s.sqlite"),
    ("advise", "onnx:light_squeezenet", "--prices", "pipe.json", "--store", "s.sqlite"),
    ("estimate", "onnx:light_squeezenet", "--results", "pipe.json", "--backend", "onnxruntime"),
]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("line", LINES, ids=lambda line: " ".join(line[:2]))
def test_a_pipe_in_place_of_a_file_is_refused(dlbricks, tmp_path, line):
    for name in ("pipe.onnx", "pipe.json"):
        os.mkfifo(tmp_path / name)
    done = dlbricks(*line)
    assert done.status == 2
    assert "regular file" in done.err or "pipe, not a file" in done.err
    assert done.err.startswith("Error: ")
