"""Kinds of layers that share an operator, but not a kernel."""

import pytest

from dlbricks_core.predict.baseline import Processor, expected_ms
from dlbricks_core.predict.features import Features
from dlbricks_core.testing import cases


def depthwise(channels, spatial="9,9", window="3,3"):
    text = (
        f"(float[1,{channels},{spatial}] x, float[{channels},1,{window}] w1) => (y)"
        f"{{ y = Conv<group={channels}>(x, w1) }}"
    )
    return Features.of(cases.build(text).model)


@pytest.mark.parametrize(
    ("channels", "kind"),
    [(8, ""), (72, ""), (112, ""), (4, "-fours"), (116, "-fours"), (58, "-odd"), (27, "-odd")],
)
def test_channels_that_do_not_fill_vectors_are_of_a_kind_of_their_own(channels, kind):
    assert depthwise(channels).kinds == (f"convolution:depthwise{kind}",)
    volume = depthwise(channels, "9,9,9", "3,3,3")
    assert volume.kinds == (f"convolution:depthwise{kind}-volume",)


def test_a_loop_over_such_channels_is_expected_to_be_slower(system):
    processor = Processor.of(system(), 1)
    full, fours, odd = (expected_ms(depthwise(n), processor)[0] / n for n in (800, 796, 798))
    assert odd > fours > full
