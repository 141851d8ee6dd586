"""Fields that a configuration leaves out have the values that transformers gives them."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from dlbricks_decoders.families import encoders

pytest.importorskip("transformers")

from completed import completed, outcome
from make_defaults import CONFIGURATIONS, SIZES


@pytest.mark.parametrize("path", CONFIGURATIONS, ids=lambda path: path.stem)
def test_a_field_that_is_left_out_has_the_value_of_transformers(path: Path):
    logging.getLogger("transformers").setLevel(logging.CRITICAL)
    config = json.loads(path.read_text())
    stated = () if config["model_type"] in encoders.FAMILIES else SIZES
    differing = {}
    for name in config.keys() - {"model_type", *stated}:
        without = {key: value for key, value in config.items() if key != name}
        try:
            theirs = completed(without)
        except ValueError:
            continue  # transformers does not accept it either
        ours, given = outcome(without), outcome(theirs)
        if not isinstance(ours, str) and ours != given:
            differing[name] = given if isinstance(given, str) else ours
    assert not differing
