"""What a backend has to define, and what its base class provides."""

from collections.abc import Mapping

import pytest

from dlbricks_core.backends import Backend, BackendOption, BackendSettings, CpuTimer, Traits
from dlbricks_core.errors import BackendError, PluginError


class Timer(CpuTimer):
    def load(self, network):
        return []

    def run(self, loaded):
        loaded.append("ran")

    def warm_io(self, loaded):
        pass

    def outputs(self, loaded):
        return {}


class Small(Backend):
    name = "small"
    distribution = "numpy"

    def version(self):
        return self.installed_version()

    def timer(self, settings):
        self.check_options(settings)
        return Timer()

    def check(self, model):
        return {}


def test_seven_methods_make_a_backend():
    assert Backend.__abstractmethods__ | CpuTimer.__abstractmethods__ == {
        "version", "timer", "check", "load", "run", "warm_io", "outputs"
    }  # fmt: skip
    backend, timer = Small(), Small().timer(BackendSettings())
    loaded = timer.load(None)
    timer.run(loaded)
    timer.synchronize(loaded)
    timer.release(loaded)
    timer.unload(loaded)
    timer.close()
    assert loaded == ["ran"]
    assert backend.environment(BackendSettings()) == {}
    assert backend.traits == Traits()
    assert not backend.native("anything")


def test_the_version_is_that_of_the_distribution_or_an_error_with_the_cure():
    assert Small().version()[0].isdigit()

    class Missing(Small):
        distribution = "no-such-distribution"

    with pytest.raises(PluginError, match="small needs no-such-distribution") as caught:
        Missing().version()
    assert caught.value.hint == "pip install no-such-distribution"
    with pytest.raises(PluginError) as caught:
        Missing().installed_version("pip install 'it<2'")
    assert caught.value.hint == "pip install 'it<2'"


@pytest.mark.parametrize("options", [{"mode": "c"}, {"speed": "a"}])
def test_options_that_are_not_declared_are_refused(options):
    class Choosy(Small):
        options: Mapping[str, BackendOption] = {"mode": BackendOption("a", ("a", "b"), "How.")}

    Choosy().timer(BackendSettings(1, {"mode": "b"}))
    with pytest.raises(BackendError, match="small has no option") as caught:
        Choosy().timer(BackendSettings(1, options))
    assert caught.value.hint == "Use mode=a|b."
    with pytest.raises(BackendError) as caught:
        Small().timer(BackendSettings(1, options))
    assert caught.value.hint == "It has none."
