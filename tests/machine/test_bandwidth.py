"""Bandwidth of memory."""

from dlbricks_sizes.machine_speed import read_bandwidth


def test_memory_delivers_between_a_tenth_and_a_thousand_gigabytes_a_second():
    assert 1e8 < read_bandwidth(2, nbytes=2**26, rounds=2) < 1e12
