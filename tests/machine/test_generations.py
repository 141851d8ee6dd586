"""Generations of processors: told by maker, family and model."""

import pytest

from dlbricks_core.machine.speed import UNKNOWN, generation_of

AMD, INTEL = "AuthenticAMD", "GenuineIntel"


@pytest.mark.parametrize(
    ("processor", "name"),
    [
        ((AMD, "23", "1"), "zen"),
        ((AMD, "23", "49"), "zen2"),
        ((AMD, "25", "1"), "zen3"),
        ((AMD, "25", "17"), "zen4"),
        ((AMD, "25", "33"), "zen3"),
        ((AMD, "25", "97"), "zen4"),
        ((AMD, "26", "2"), "zen5"),
        ((INTEL, "6", "63"), "haswell"),
        ((INTEL, "6", "85"), "skylake_avx512"),
        ((INTEL, "6", "106"), "icelake"),
        ((INTEL, "6", "143"), "sapphirerapids"),
    ],
)
def test_a_generation_is_told_by_its_numbers(processor, name):
    assert generation_of(*processor).name == name


@pytest.mark.parametrize(
    "processor", [("", "", ""), (INTEL, "6", ""), (INTEL, "5", "63"), ("ARM", "8", "0xd40")]
)
def test_of_others_nothing_is_known(processor):
    assert generation_of(*processor) is UNKNOWN


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ((AMD, "23", "49"), (AMD, "25", "1")),
        ((AMD, "25", "1"), (AMD, "25", "17")),
        ((AMD, "25", "17"), (AMD, "26", "2")),
        ((INTEL, "6", "85"), (INTEL, "6", "143")),
    ],
)
def test_a_newer_generation_is_faster(older, newer):
    before, after = generation_of(*older), generation_of(*newer)
    assert after.ghz * after.instructions > before.ghz * before.instructions
    assert after.transfers >= before.transfers
