"""The suite finds what is wrong: backends that break one rule each."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from dlbricks_testing import BackendConformance, CollectionConformance

from dlbricks_core.importers.light import LightModels

TEMPLATE = Path(__file__).parents[2] / "examples" / "backend" / "src"
HELPERS = Path(__file__).parents[1] / "helpers"

SOURCE = """
from dataclasses import replace
import numpy as np
from dlbricks_core.backends import Profile, ProfiledLayer, Traits
from dlbricks_core.bricks import native
from dlbricks_core.errors import BackendError, UnsupportedError
from dlbricks_reference.backend import ReferenceBackend
from dlbricks_reference.timer import ReferenceTimer

class SoundTimer(ReferenceTimer):
    def profile(self, network, runs):
        layers = [ProfiledLayer("", e.op, e.outputs, 0.1) for e in network.model.layers]
        return Profile(layers, 1.0)

class Sound(ReferenceBackend):
    traits = Traits(rewrites=True)
    def rewrite(self, model, settings, seed):
        return native(model.as_raw(), "reference", model.constants)
    Timer = SoundTimer
    def timer(self, settings):
        return self.Timer()

def with_timer(**methods):
    return type("Timer", (SoundTimer,), methods)

class WrongResult(Sound):
    Timer = with_timer(outputs=lambda self, loaded: {
        k: (v + 0.01).astype(v.dtype) for k, v in ReferenceTimer.outputs(self, loaded).items()})

class WrongOrder(Sound):
    Timer = with_timer(outputs=lambda self, loaded: dict(
        reversed(list(ReferenceTimer.outputs(self, loaded).items()))))

class WarmingChanges(Sound):
    def warm_io(self, loaded):
        for array in loaded.inputs.values():
            np.logical_not(array, out=array) if array.dtype == bool else np.add(array, 1, out=array)
    Timer = with_timer(warm_io=warm_io)

class Lazy(Sound):
    def outputs(self, loaded):
        ReferenceTimer.run(self, loaded)
        return ReferenceTimer.outputs(self, loaded)
    Timer = with_timer(run=lambda self, loaded: None, outputs=outputs)

kept = []
class Leaks(Sound):
    Timer = with_timer(unload=lambda self, loaded: kept.append(loaded))

class Views(Sound):
    buffer = {}
    def outputs(self, loaded):
        for name, value in ReferenceTimer.outputs(self, loaded).items():
            if name not in Views.buffer or Views.buffer[name].shape != value.shape:
                Views.buffer[name] = value
            Views.buffer[name][...] = value
        return {name: Views.buffer[name] for name in loaded.evaluator.output_names}
    def run(self, loaded):
        ReferenceTimer.run(self, loaded)
        self.outputs(loaded)
    Timer = with_timer(outputs=outputs, run=run)

class ChecksNothing(Sound):
    def check(self, model):
        return {}

class OtherError(Sound):
    def load(self, network):
        try:
            return ReferenceTimer.load(self, network)
        except UnsupportedError as error:
            raise BackendError("no") from error
    Timer = with_timer(load=load)

class BadOption(Sound):
    from dlbricks_core.backends import BackendOption
    options = {"mode": BackendOption("c", ("a", "b"), "How.")}

class Crashes(Sound):
    def run(self, loaded):
        import os
        os.abort()
    Timer = with_timer(run=run)

class OverInput(Sound):
    # Relu in place: run twice, it gives the same.
    def run(self, loaded):
        ReferenceTimer.run(self, loaded)
        for place in loaded.inputs.values():
            if len(loaded.results) == 1 and loaded.results[0].shape == place.shape:
                place[...] = loaded.results[0]
                loaded.results = [place]
                return
    Timer = with_timer(run=run, outputs=lambda self, loaded: dict(
        zip(loaded.evaluator.output_names, map(np.asarray, loaded.results))))

def narrowed(wide, narrow):
    def run(self, loaded):
        given = {k: v.astype(narrow) if v.dtype == wide else v for k, v in loaded.inputs.items()}
        results = loaded.evaluator.run(None, given)
        loaded.results = [np.asarray(r).astype(wide) if r.dtype == narrow else r for r in results]
    return with_timer(run=run)

class NarrowIntegers(Sound):
    Timer = narrowed(np.int64, np.int32)

class SinglePrecision(Sound):
    Timer = narrowed(np.float64, np.float32)

class SharesInputs(Sound):
    # A buffer for each shape, filled when a network is loaded or warmed.
    buffers = {}
    def load(self, network):
        loaded = ReferenceTimer.load(self, network)
        loaded.own = loaded.inputs
        loaded.inputs = {
            k: SharesInputs.buffers.setdefault((k, v.shape), v.copy())
            for k, v in loaded.inputs.items()
        }
        return loaded
    def warm_io(self, loaded):
        for name, value in loaded.own.items():
            loaded.inputs[name][...] = value
    Timer = with_timer(load=load, warm_io=warm_io)

class CopySpoils(Sound):
    def load_copy(self, network, loaded, *, private_cache_bytes):
        copy = self.load(network)
        for name, value in copy.inputs.items():
            loaded.inputs[name][...] = value
        return copy
    Timer = with_timer(load_copy=load_copy)

class BricksDiffer(Sound):
    # Rewritten layers compute something else when they are alone.
    def run(self, loaded):
        ReferenceTimer.run(self, loaded)
        if len(loaded.evaluator.nodes_) == 1:
            loaded.results = [result * 1.1 for result in loaded.results]
    Timer = with_timer(run=run)

class DiesAtLast(Sound):
    def close(self):
        import atexit, os
        atexit.register(os.abort)
    Timer = with_timer(close=close)

class ProfilesOthers(Sound):
    def profile(self, network, runs):
        return Profile([ProfiledLayer("a", "Relu", ("elsewhere",), 0.1)], 1.0)
    Timer = with_timer(profile=profile)

class AcceptsValues(Sound):
    pass

class RefusesValues(Sound):
    def load(self, network):
        if any(np.abs(v.astype(float)).max() > 2**31 for v in network.inputs.values()):
            raise UnsupportedError("integers have 32 bits")
        return ReferenceTimer.load(self, network)
    Timer = with_timer(load=load)
"""

#: What backends declare, as source text.
DECLARED = dict.fromkeys(
    ("AcceptsValues", "RefusesValues"), "    unsupported_values = {'large_integers': 'narrow'}\n"
)

#: Backend, and the test that has to fail because of it.
FAULTS = {
    "WrongResult": "test_common_network[gemm]",
    "WrongOrder": "test_common_network[several_outputs]",
    "WarmingChanges": "test_warming_and_running_again_give_the_same[not]",
    "Lazy": "test_the_timed_region_covers_the_work",
    "Leaks": "test_unload_frees_memory",
    "Views": "test_outputs_stay_what_they_were",
    "ChecksNothing": "test_unknown_operators_are_refused_by_name",
    "OtherError": "test_a_refusal_leaves_the_timer_usable",
    "BadOption": "test_options_are_well_formed",
    "Crashes": "test_common_network[gemm]",
    "OverInput": "test_common_network[relu]",
    "NarrowIntegers": "test_uncommon_network[large_integers]",
    "SinglePrecision": "test_uncommon_network[double_precision]",
    "SharesInputs": "test_common_network[softmax]",
    "CopySpoils": "test_a_copy_leaves_the_other_network_alone[gemm]",
    "BricksDiffer": "test_bricks_of_a_rewritten_graph_compute_what_it_computes[convolutions-1]",
    "DiesAtLast": "test_close_ends_the_timer",
    "ProfilesOthers": "test_a_profile_has_every_layer_that_is_executed",
    "AcceptsValues": "test_uncommon_network[large_integers]",
}


def run_suite(folder: Path, names: list[str], tests: list[str]) -> tuple[str, str]:
    """Passed and failed tests of the suite for backends of ``SOURCE``."""
    (folder / "bad_backends.py").write_text(SOURCE)
    classes = "".join(
        f"class Test{name}(BackendConformance):\n"
        f"    plugin = bad_backends.{name}\n    framework_modules = ()\n"
        f"{DECLARED.get(name, '')}"
        for name in names
    )
    (folder / "test_bad.py").write_text(
        f"import bad_backends\nfrom dlbricks_testing import BackendConformance\n{classes}"
    )
    places = (folder, TEMPLATE, HELPERS, *sys.path)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-rA", "-q", "-p", "no:cacheprovider", "--tb=short",
         "-p", "forked_workers", *(f"test_bad.py::{test}" for test in tests)],
        cwd=folder, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, places))},
    )  # fmt: skip
    kinds = [
        "\n".join(re.findall(rf"^{kind} test_bad.py::(\S+)", done.stdout, re.MULTILINE))
        for kind in ("PASSED", "FAILED")
    ]
    assert any(kinds), done.stdout + done.stderr
    return kinds[0], kinds[1]


@pytest.fixture(scope="module")
def results(processes: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    wanted = [f"Test{name}::{test}" for name, test in FAULTS.items()]
    wanted += [f"TestSound::{test}" for test in dict.fromkeys(FAULTS.values())]
    return run_suite(tmp_path_factory.mktemp("bad"), ["Sound", *FAULTS], wanted)


@pytest.mark.process
@pytest.mark.parametrize("name", FAULTS)
def test_a_backend_that_breaks_a_rule_fails(results: tuple[str, str], name: str) -> None:
    assert f"Test{name}::{FAULTS[name]}" in results[1].splitlines()


def test_a_sound_backend_passes_the_same_tests(results: tuple[str, str]) -> None:
    passed = {line for line in results[0].splitlines() if "Sound" in line}
    assert passed == {f"TestSound::{test}" for test in FAULTS.values()}


@pytest.mark.process
def test_values_that_are_declared_and_refused_pass(tmp_path: Path) -> None:
    test = "TestRefusesValues::test_uncommon_network[large_integers]"
    assert run_suite(tmp_path, ["RefusesValues"], [test]) == (test, "")


@pytest.mark.process
def test_a_suite_that_is_skipped_in_part_fails(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "import pytest\n"
        "def pytest_collection_modifyitems(items):\n"
        "    for item in items:\n"
        "        if 'gemm' in item.name: item.add_marker(pytest.mark.skip)\n"
    )
    tests = ["test_no_test_of_the_suite_is_missing", "test_common_network[gemm]"]
    passed, failed = run_suite(tmp_path, ["Sound"], [f"TestSound::{test}" for test in tests])
    assert failed == f"TestSound::{tests[0]}"
    assert not passed


@pytest.mark.process
def test_workers_of_the_suite_need_no_pytest() -> None:
    code = "import sys, dlbricks_testing.laboratory; sys.exit('pytest' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_tests_of_the_suite_cannot_be_replaced() -> None:
    with pytest.raises(TypeError, match=r"replaces BackendConformance\.test_unload_frees_memory"):

        class Forgetful(BackendConformance):
            plugin = LightModels
            framework_modules = ()
            test_unload_frees_memory = None

    with pytest.raises(TypeError, match=r"replaces ConformanceSuite\.test_no_test"):

        class Bold(CollectionConformance):
            plugin = LightModels
            framework_modules = ()
            sample = "light_squeezenet"

            def test_no_test_of_the_suite_is_missing(self) -> None:
                pass


def test_a_mixin_cannot_replace_tests_either() -> None:
    class Mixin:
        def test_unload_frees_memory(self) -> None:
            pass

    with pytest.raises(TypeError, match="test_unload_frees_memory"):

        class Mixed(Mixin, BackendConformance):
            plugin = LightModels
            framework_modules = ()


def test_questions_have_to_be_answered() -> None:
    with pytest.raises(TypeError, match="does not set plugin, framework_modules"):

        class Silent(BackendConformance):
            pass
