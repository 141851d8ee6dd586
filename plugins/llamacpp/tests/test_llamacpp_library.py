"""The real library: files of every family run, types are llama-quantize's, estimates end to end."""

from __future__ import annotations

import ctypes
import json
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed: it has to be built")

from dlbricks_llamacpp import files, library
from dlbricks_llamacpp.architecture import Architecture
from dlbricks_llamacpp.backend import LlamaBackend
from dlbricks_llamacpp.files import Block
from dlbricks_llamacpp.weights import MIXTURES, is_fine

from dlbricks_core.backends import BackendSettings
from dlbricks_core.errors import PluginError
from dlbricks_core.measure.worker import BackendWorker, WorkerSettings

TARGET = "dlbricks_llamacpp.backend:LlamaBackend"

LLAMA = Architecture("llama", 256, 512, 4, 2, 64, 64, 1e-5, 1e4, tied=False)

FAMILIES = {
    "llama": LLAMA,
    "llama3": replace(LLAMA, factors=1),
    "qwen2": replace(LLAMA, family="qwen2", biased=True),
    "qwen3": replace(LLAMA, family="qwen3", normed=True),
    "phi3": replace(LLAMA, family="phi3", joined=True, factors=2, kv_heads=4),
    "gemma": replace(LLAMA, family="gemma", tied=True),
    "gemma2": replace(LLAMA, family="gemma2", tied=True, post_normed=True, attention_cap=50.0,
                      cap=30.0, window=8, every=2),
    "gemma3": replace(LLAMA, family="gemma3", tied=True, normed=True, post_normed=True,
                      local_theta=1e4, window=8, every=6),
    "hunyuan-dense": replace(LLAMA, family="hunyuan-dense", normed=True),
    "olmo2": replace(LLAMA, family="olmo2", normed=True, jointly=True, pre_normed=False,
                     post_normed=True),
    "smollm3": replace(LLAMA, family="smollm3"),
    "ernie4_5": replace(LLAMA, family="ernie4_5"),
    "granite": replace(LLAMA, family="granite", scales={
        "logit_scale": 8.0, "residual_scale": 0.22, "embedding_scale": 12.0,
        "attention.scale": 0.015}),
    "olmoe": replace(LLAMA, family="olmoe", normed=True, jointly=True, kv_heads=4,
                     experts=8, used=2, expert_width=512),
    "qwen2moe": replace(LLAMA, family="qwen2moe", biased=True, experts=6, used=2,
                        expert_width=256, shared_width=512),
    "qwen3moe": replace(LLAMA, family="qwen3moe", normed=True, experts=8, used=2,
                        expert_width=256),
}  # fmt: skip


@pytest.fixture(scope="module")
def worker():
    settings = WorkerSettings(BackendSettings(1, {"dtype": "f16", "attention": "auto"}))
    with BackendWorker(TARGET, LlamaBackend(), settings) as running:
        running.start()
        yield running


def logits(folder: str, of: Architecture, dtype: str, tokens: int, past: int) -> list[float]:
    """Logits of a file with two blocks, in a process of its own: the library may end it."""
    path = Path(folder) / "two.gguf"
    files.write(path, of, [Block(True, of.has_window(0)), Block()], dtype, 64)
    opened = library.Context(library.Library(), path, 1, "auto", tokens, past)
    opened.prepare(tokens, "last")
    for _ in range(3):
        opened.run()
        opened.wait()
    found = opened.logits().tolist()
    opened.close()
    return found


_CALL = """
import json, sys
sys.path.insert(0, sys.argv[1])
from test_llamacpp_library import FAMILIES, logits
family, dtype, tokens, past, folder = sys.argv[2:]
print(json.dumps(logits(folder, FAMILIES[family], dtype, int(tokens), int(past))))
"""


@pytest.mark.parametrize(
    ("family", "dtype", "tokens", "past"),
    [*((family, "f16", 5, 0) for family in FAMILIES), *(("llama", d, 1, 20) for d in MIXTURES),
     ("gemma3", "q8_0", 1, 20)],
)  # fmt: skip
def test_files_of_all_families_and_types_run(family, dtype, tokens, past, tmp_path: Path):
    arguments = [family, dtype, str(tokens), str(past), str(tmp_path)]
    found = subprocess.run(
        [sys.executable, "-c", _CALL, str(Path(__file__).parent), *arguments],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert not found.returncode, found.stderr[-2000:]
    values = json.loads(found.stdout)
    assert len(values) == 32
    assert np.isfinite(values).all()
    assert np.std(values) > 0


def types_in(path: Path) -> dict[str, int]:
    """Number of the type of each matrix in a file."""
    data = path.read_bytes()
    _, _, tensors, fields = struct.unpack_from("<4sIQQ", data)
    place = 24

    def text() -> str:
        nonlocal place
        (size,) = struct.unpack_from("<Q", data, place)
        place += 8 + size
        return data[place - size : place].decode()

    def skip(kind: int) -> None:
        nonlocal place
        if kind == 8:
            text()
        elif kind == 9:
            inner, count = struct.unpack_from("<IQ", data, place)
            place += 12
            for _ in range(count):
                skip(inner)
        else:
            place += {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}[kind]

    for _ in range(fields):
        text()
        (kind,) = struct.unpack_from("<I", data, place)
        place += 4
        skip(kind)
    found = {}
    for _ in range(tensors):
        name = text()
        (axes,) = struct.unpack_from("<I", data, place)
        (kind,) = struct.unpack_from("<I", data, place + 4 + 8 * axes)
        place += 4 + 8 * axes + 12
        if axes > 1:
            found[name] = kind
    return found


@pytest.mark.parametrize(
    ("dtype", "number"), [("q8_0", 7), ("q4_0", 2), ("q4_k_m", 15), ("q5_k_m", 17), ("q6_k", 18)]
)
@pytest.mark.parametrize("family", ["llama", "phi3", "gemma"])
@pytest.mark.parametrize("hidden", [256, 160])
def test_types_are_those_that_llama_cpp_chooses(family, hidden, dtype, number, tmp_path: Path):
    """What ``llama_model_quantize`` makes of the same file with 16-bit weights."""
    of = replace(FAMILIES[family], hidden=hidden, head_dim=hidden // 4, turned=hidden // 4,
                 factors=0)  # fmt: skip
    blocks = [Block(is_fine(index, 9)) for index in range(9)]
    plain, made = tmp_path / "plain.gguf", tmp_path / "made.gguf"
    files.write(plain, of, blocks, "f16", 64)
    code = (
        "import ctypes, sys, llama_cpp as api\n"
        "p = api.llama_model_quantize_default_params()\n"
        "p.ftype, p.nthread = int(sys.argv[3]), 1\n"
        "sys.exit(api.llama_model_quantize(sys.argv[1].encode(), sys.argv[2].encode(), "
        "ctypes.byref(p)))"
    )
    subprocess.run(
        [sys.executable, "-c", code, str(plain), str(made), str(number)],
        check=True, capture_output=True,
    )  # fmt: skip
    expected = {
        each.name: each.kind.number for each in files.tensors_of(of, blocks, dtype) if each.rows
    }
    assert types_in(made) == expected


def test_a_worker_times_the_cost_of_a_call(worker):
    worker.measure_call(3, warm_io=True)
    assert worker.call_ms is not None
    assert 0 < worker.call_ms < 100


def test_a_library_that_does_not_load_is_one_line(tmp_path: Path, monkeypatch):
    (tmp_path / "libllama.so").write_text("no library")
    monkeypatch.setenv("LLAMA_CPP_LIB_PATH", str(tmp_path))
    library.built_for.cache_clear()
    with pytest.raises(PluginError, match="does not load") as caught:
        library.built_for()
    library.built_for.cache_clear()
    assert "\n" not in caught.value.message
    assert "GGML_NATIVE=OFF" in caught.value.hint


def test_the_version_names_what_the_library_was_built_for():
    assert "(" in LlamaBackend().version()
    assert ctypes.sizeof(ctypes.c_void_p) == 8


def test_advice_names_what_the_processor_has_beyond_the_build(monkeypatch):
    flags = ["avx2", "avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512_vnni"]
    assert library.unused(flags, ["AVX2"]) == ["AVX512", "AVX512_VNNI"]
    assert library.unused(flags, ["AVX2", "AVX512", "AVX512_VNNI"]) == []
    monkeypatch.setattr(library, "unused", lambda flags, built: ["AVX512"])
    (line,) = LlamaBackend().advice()
    assert line.partition(": ")[0].endswith("AVX512, which this processor has")


def test_an_estimate_names_the_engine_and_its_file(tmp_path: Path):
    config = {
        "model_type": "llama", "vocab_size": 512, "hidden_size": 256, "intermediate_size": 512,
        "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
        "hidden_act": "silu", "rms_norm_eps": 1e-5, "tie_word_embeddings": True,
        "max_position_embeddings": 512,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    found = subprocess.run(
        [sys.executable, "-m", "dlbricks_core.cli", "estimate", f"llm:{tmp_path}/config.json",
         "--backend", "llamacpp", "--dtype", "q8_0", "--measure", "--runs", "2", "--prompt", "16",
         "--generate", "4", "--threads", "1", "--busy", "accept", "--json", "-", "-q",
         "--store", str(tmp_path / "s.sqlite")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    data = json.loads(found.stdout)
    (answer,) = data["answers"]
    assert answer["ttft"]["estimate"] > 0
    assert answer["tpot"]["estimate"] > 0
    assert "llama.cpp on a file of q8_0 weights" in json.dumps(data)
