"""Builds of llama.cpp that end their process are found before anything is timed."""

import pytest
from dlbricks_llamacpp import library

from dlbricks_core.errors import PluginError

FAULT = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"


@pytest.fixture(autouse=True)
def anew(monkeypatch):
    library.try_out.cache_clear()
    monkeypatch.setattr(library, "_TRY", FAULT)
    yield
    library.try_out.cache_clear()


def test_a_build_that_faults_is_one_line_with_another_build(monkeypatch, processes):
    monkeypatch.setattr(library, "built_for", lambda: ("AVX512", "AMX_INT8"))
    with pytest.raises(PluginError, match=r"uses AMX, cannot run q8_0: .*signal 11") as caught:
        library.try_out("q8_0")
    assert "\n" not in caught.value.message
    assert "GGML_NATIVE=OFF" in caught.value.hint


def test_other_builds_are_not_tried(monkeypatch):
    started = []
    monkeypatch.setattr(library, "built_for", lambda: ("AVX512",))
    monkeypatch.setattr(library.subprocess, "run", lambda *_, **__: started.append(1))
    library.try_out("q8_0")
    assert not started
