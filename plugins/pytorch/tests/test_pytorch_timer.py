"""The backend and its timer, as the engine uses them."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata

import numpy as np
import pytest
import torch
from dlbricks_pytorch.backend import PytorchBackend
from dlbricks_pytorch.tensors import from_numpy

from dlbricks_core.backends import BackendSettings, Network
from dlbricks_core.errors import BackendError, PluginError, UnsupportedError
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec


def spec(*shape: int, dtype: str = "float32") -> TensorSpec:
    return TensorSpec(dtype, shape)


CONV = {"kernel_shape": (3, 3), "strides": (1, 1), "dilations": (1, 1), "pads": (1, 1, 1, 1),
        "group": 1}  # fmt: skip


@pytest.fixture
def network() -> Network:
    layers = (
        Layer("Conv", ("x", "w", "b"), ("c",), CONV),
        Layer("Relu", ("c",), ("r",)),
        Layer("Add", ("r", "two"), ("s",)),
        Layer("GlobalAveragePool", ("s",), ("y",)),
    )
    tensors = {
        "x": spec(1, 3, 8, 8), "w": spec(4, 3, 3, 3), "b": spec(4), "c": spec(1, 4, 8, 8),
        "r": spec(1, 4, 8, 8), "two": spec(), "s": spec(1, 4, 8, 8), "y": spec(1, 4, 1, 1),
    }  # fmt: skip
    rng = np.random.default_rng(0)

    def draw(name: str) -> np.ndarray:
        return rng.standard_normal(tensors[name].sizes).astype(np.float32)

    weights = {"w": draw("w"), "b": draw("b"), "two": np.array(2, np.float32)}
    model = CanonicalModel("small", layers, ("x",), ("y", "s"), tensors, frozenset(weights))
    return Network(model, weights, {"x": draw("x")})


def outputs(network: Network, **options: str) -> dict[str, np.ndarray]:
    timer = PytorchBackend().timer(BackendSettings(threads=1, options=options))
    try:
        loaded = timer.load(network)
        timer.warm_io(loaded)
        timer.run(loaded)
        timer.synchronize(loaded)
        results = dict(timer.outputs(loaded))
        timer.unload(loaded)
    finally:
        timer.close()
    return results


def test_results_are_those_of_the_framework(network):
    results = outputs(network)
    w, b, x = (torch.from_numpy(a) for a in
               (network.weights["w"], network.weights["b"], network.inputs["x"]))  # fmt: skip
    expected = torch.relu(torch.conv2d(x, w, b, padding=1)) + 2
    np.testing.assert_allclose(results["s"], expected.numpy(), rtol=1e-5)
    np.testing.assert_allclose(results["y"], expected.mean((2, 3), keepdim=True), rtol=1e-5)


def test_channels_last_changes_the_layout_and_not_the_result(network):
    plain, last = outputs(network), outputs(network, memory_format="channels_last")
    np.testing.assert_allclose(plain["s"], last["s"], rtol=1e-5, atol=1e-6)
    timer = PytorchBackend().timer(
        BackendSettings(threads=1, options={"memory_format": "channels_last"})
    )
    loaded = timer.load(network)
    timer.run(loaded)
    assert loaded.inputs[0].is_contiguous(memory_format=torch.channels_last)
    assert loaded.results[1].is_contiguous(memory_format=torch.channels_last)
    timer.close()


def test_inputs_and_weights_are_copies_that_warming_leaves_as_they_are(network):
    timer = PytorchBackend().timer(BackendSettings(threads=1))
    loaded = timer.load(network)
    before = loaded.inputs[0].clone()
    timer.warm_io(loaded)
    assert torch.equal(before, loaded.inputs[0])
    network.inputs["x"][:] = 0
    assert torch.equal(before, loaded.inputs[0])
    timer.close()


def test_the_run_is_in_inference_mode_with_the_threads_asked_for(network):
    timer = PytorchBackend().timer(BackendSettings(threads=2))
    assert torch.get_num_threads() == 2
    loaded = timer.load(network)
    timer.run(loaded)
    assert loaded.results[0].is_inference()
    timer.close()
    assert not torch.is_inference_mode_enabled()
    torch.set_num_threads(1)


def test_an_unloaded_network_does_not_run(network):
    timer = PytorchBackend().timer(BackendSettings(threads=1))
    loaded = timer.load(network)
    timer.unload(loaded)
    with pytest.raises(BackendError):
        timer.run(loaded)
    timer.close()


@pytest.mark.parametrize(
    ("mode", "asked"), [("off", []), ("default", ["default"]), ("max-autotune", ["max-autotune"])]
)
def test_torch_is_asked_to_compile_in_the_mode_of_the_option(network, monkeypatch, mode, asked):
    given = []

    def compiled(forward, **how):
        given.append(how)
        return forward

    monkeypatch.setattr(torch, "compile", compiled)
    outputs(network, compile=mode)
    assert given == [{"mode": each, "dynamic": False, "fullgraph": True} for each in asked]


def test_compiling_without_a_compiler_says_so(network, monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(BackendError, match="compiler"):
        outputs(network, compile="default")


def test_unknown_options_are_refused():
    with pytest.raises(BackendError, match="memory_format=nchw"):
        PytorchBackend().timer(BackendSettings(options={"memory_format": "nchw"}))
    with pytest.raises(BackendError, match="speed=high"):
        PytorchBackend().timer(BackendSettings(options={"speed": "high"}))


def test_the_environment_names_the_threads():
    environment = PytorchBackend().environment(BackendSettings(threads=3))
    assert environment["OMP_NUM_THREADS"] == environment["MKL_NUM_THREADS"] == "3"


_MANY_CONVOLUTIONS = """
import torch
for _ in range(2):
    print("pass", flush=True)
    for width in range(9, 609):
        torch.conv2d(torch.ones(1, 8, 9, width), torch.ones(8, 8, 5, 5))
"""


def test_what_many_networks_need_of_onednn_is_kept():
    environment = PytorchBackend().environment(BackendSettings(threads=1))
    done = subprocess.run([sys.executable, "-c", _MANY_CONVOLUTIONS], capture_output=True,
                          text=True, check=True,
                          env={**os.environ, **environment, "ONEDNN_VERBOSE": "2"})  # fmt: skip
    _, first, second = done.stdout.split("pass\n")
    assert first.count("create:cache_miss") > 1024
    assert second.count("create:cache_hit") > 1024
    assert "create:cache_miss" not in second


def test_without_torch_the_cure_is_named(monkeypatch):
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    for use in (PytorchBackend().version, lambda: PytorchBackend().timer(BackendSettings())):
        with pytest.raises(PluginError, match="not installed") as error:
            use()
        assert "pip install torch" in error.value.hint


def test_the_entry_point_names_the_backend():
    (entry,) = metadata.entry_points(group="dlbricks.backends", name="pytorch")
    assert entry.load() is PytorchBackend
    assert PytorchBackend.name == entry.name


def test_check_names_what_torch_lacks_and_needs_no_weights():
    layers = (
        Layer("Relu", ("x",), ("a",)),
        Layer("RoiAlign", ("a", "x", "x"), ("b",)),
        Layer("NoSuchOperator", ("b",), ("c",)),
        Layer("Add", ("u", "u"), ("v",)),
        Layer("If", ("c",), ("d",), opaque="it has subgraphs"),
    )
    tensors = {n: spec(2, 2) for n in "xabcd"} | {n: spec(2, dtype="uint16") for n in "uv"}
    model = CanonicalModel("odd", layers, ("x", "u"), ("d", "v"), tensors)
    reasons = PytorchBackend().check(model)
    assert set(reasons) == {1, 2, 3, 4}
    assert "torchvision" in reasons[1]
    assert "not implemented for 'UInt16'" in reasons[3]
    assert "subgraphs" in reasons[4]
    timer = PytorchBackend().timer(BackendSettings(threads=1))
    with pytest.raises(UnsupportedError, match="RoiAlign"):
        timer.load(Network(model, {}, {}))
    timer.close()


def test_large_weights_are_not_read_for_the_check():
    rows = 200_000_000
    tensors = {"i": spec(1, 4, dtype="int64"), "w": spec(rows, 64), "y": spec(1, 4, 64)}
    model = CanonicalModel(
        "huge",
        (Layer("Gather", ("w", "i"), ("y",), {"axis": 0}),),
        ("i",),
        ("y",),
        tensors,
        frozenset({"w"}),
    )
    assert PytorchBackend().check(model) == {}


def test_tensors_begin_on_a_cache_line():
    memory = np.zeros(4 * 1024 + 64, np.uint8)
    start = -memory.ctypes.data % 64 + 16
    between = memory[start : start + 4 * 1000].view(np.float32)
    assert between.ctypes.data % 64 == 16
    assert from_numpy(between).data_ptr() % 64 == 0


@pytest.mark.parametrize("transposed", [False, True])
def test_a_weight_is_copied_once_while_it_is_loaded(transposed):
    layer = Layer("Gemm", ("x", "w"), ("y",), {"transB": 0 if transposed else 1, "transA": 0,
                                               "alpha": 1.0, "beta": 1.0})  # fmt: skip
    tensors = {"x": spec(1, 512), "w": spec(512, 512), "y": spec(1, 512)}
    model = CanonicalModel("m", (layer,), ("x",), ("y",), tensors, frozenset({"w"}))
    weight = np.random.default_rng(0).random((512, 512), np.float32)
    inputs = {"x": np.ones((1, 512), np.float32)}
    timer = PytorchBackend().timer(BackendSettings(1, {}))
    with torch.profiler.profile(profile_memory=True) as taken:
        loaded = timer.load(Network(model, {"w": weight}, inputs))
    allocated = sum(max(each.self_cpu_memory_usage, 0) for each in taken.key_averages())
    assert weight.nbytes <= allocated < 1.5 * weight.nbytes
    expected = inputs["x"] @ (weight if transposed else weight.T)
    weight[:] = 0
    timer.run(loaded)
    np.testing.assert_allclose(timer.outputs(loaded)["y"], expected, rtol=1e-5)
    timer.close()


def test_layers_without_elements_run() -> None:
    layers = (
        Layer("Relu", ("x",), ("r",)),
        Layer("MatMul", ("r", "w"), ("m",)),
        Layer("Softmax", ("m",), ("y",), {"axis": 1}),
    )
    tensors = {"x": spec(0, 4), "w": spec(4, 8), "r": spec(0, 4), "m": spec(0, 8), "y": spec(0, 8)}
    model = CanonicalModel("none", layers, ("x",), ("y",), tensors, frozenset({"w"}))
    timer = PytorchBackend().timer(BackendSettings(1, {}))
    loaded = timer.load(
        Network(model, {"w": np.ones((4, 8), np.float32)}, {"x": np.ones((0, 4), np.float32)})
    )
    timer.warm_io(loaded)
    timer.run(loaded)
    assert timer.outputs(loaded)["y"].shape == (0, 8)
