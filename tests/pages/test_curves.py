"""Plots of several curves: all of them in sight, side by side."""

from __future__ import annotations

import re

from dlbricks_pages.html.plots import Curve, curves


def test_curves_with_intervals_stand_beside_each_other_within_the_axes():
    one = Curve({1: 3.0, 16: 4.0}, intervals={1: (2.0, 5.0), 16: (3.0, 5.0)})
    other = Curve({1: 3.1, 16: 4.1}, intervals={1: (2.0, 5.0), 16: (3.0, 5.0)})
    plot = str(curves("net", {"one": one, "other": other}, "size", "ms", "Latency by size"))
    first_screen = plot[: plot.index("</svg>")]
    assert {"2.0", "5.0"} <= set(re.findall(r">([\d.]+)</text>", first_screen))
    lines = re.findall(r'd="M ([\d.]+) [\d.]+ \nL ([\d.]+) [\d.]+ \n"', first_screen)
    places = {float(begin) for begin, end in lines if begin == end != "0"}
    assert len(places) == 4
