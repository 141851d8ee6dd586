"""Layers of a profile are held against runs, and a profile that is wrong is found."""

from __future__ import annotations

from time import perf_counter

import pytest
from dlbricks_testing.laboratory import layers_sum_up_to_a_run

from dlbricks_core.backends import Profile, ProfiledLayer

RUN_MS = 2.0


def busy(ms):
    """Computes for some time, and tells how long it really was."""
    begin = perf_counter()
    while (taken := (perf_counter() - begin) * 1e3) < ms:
        pass
    return taken


class Claiming:
    """A timer that claims a multiple of the time that its two layers take.

    Args:
        share: What the layers are said to take, relative to the run that is profiled.
        slower: Time of a profiled run, relative to one without the profiler.
    """

    def __init__(self, share=1.0, slower=1.0):
        self.share, self.slower = share, slower

    def load(self, network):
        return network

    def run(self, loaded):
        busy(RUN_MS)

    def synchronize(self, loaded):
        pass

    def unload(self, loaded):
        pass

    def profile(self, network, runs):
        taken = busy(RUN_MS * self.slower)
        layers = [ProfiledLayer("", "Relu", (name,), self.share * taken / 2) for name in "ab"]
        return Profile(layers, taken)


@pytest.mark.parametrize("timer", [Claiming(), Claiming(0.9), Claiming(slower=1.3)])
def test_layers_that_take_as_long_as_a_run_agree(timer):
    assert layers_sum_up_to_a_run(timer, None, "plain")


@pytest.mark.parametrize("share", [0.5, 0.7, 1.4, 2.0])
def test_layers_that_take_another_time_than_their_run_do_not(share):
    assert not layers_sum_up_to_a_run(Claiming(share), None, "plain")


@pytest.mark.parametrize("slower", [0.25, 4.0])
def test_layers_of_a_run_unlike_any_without_the_profiler_do_not(slower):
    assert not layers_sum_up_to_a_run(Claiming(slower=slower), None, "plain")
