import math

import pytest

from dlbricks_core.facts import Pulse
from dlbricks_core.machine.load import FOLDER, LoadWatch
from dlbricks_core.machine.pulse import between_moments, pulse_ms, pulse_of, slow_now


def test_a_pulse_takes_less_than_a_millisecond():
    assert 0 < pulse_ms() < 5


@pytest.mark.parametrize("pulses", [(), (0.05,), (0.05, 0.05, 0.05)])
def test_equal_pulses_widen_nothing(pulses: tuple[float, ...]):
    assert between_moments([Pulse(each) for each in pulses]) == 0


def test_a_host_that_halves_its_speed_widens_intervals():
    seen = between_moments([Pulse(each) for each in (0.05, 0.1, 0.05, 0.1)])
    assert 0.2 < seen < math.log(2)
    assert between_moments([Pulse(each) for each in (0.5, 1, 0.5, 1)]) == pytest.approx(seen)


def test_a_speed_that_changes_within_a_session_widens_intervals():
    def seen(pulses):
        return between_moments([pulse_of(pulses)])

    assert seen([0.05, 0.1] * 10) > 0.2
    assert seen([0.05] * 20 + [0.5]) == 0  # an interrupt
    assert seen([0.05, 0.1]) == 0  # too few


def test_a_slow_session_has_a_warning():
    (found,) = slow_now(Pulse(0.1), [Pulse(0.05), Pulse(0.08)])
    assert found.code == "machine-slower-now"
    assert found.values["share"] == 0.5
    assert not slow_now(Pulse(0.06), [Pulse(0.05)])
    assert not slow_now(Pulse(0.06), [])


def test_a_watch_takes_a_pulse_at_each_look(monkeypatch, tmp_path):
    monkeypatch.setenv(FOLDER, str(tmp_path / "turns"))
    watch = LoadWatch()
    assert watch.pulse is None
    watch.lately()
    assert watch.pulse.ms == watch.pulses_ms[0] > 0
