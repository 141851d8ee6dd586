"""Defaults of transformers for fields that a configuration leaves out.

``tests/make_defaults.py`` writes them. Only those are listed that the function of a family does not
state itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

_TABLES: Mapping[str, Mapping[str, Mapping[str, Any]]] = json.loads(
    files("dlbricks_decoders.families").joinpath("defaults.json").read_text("utf-8")
)

SIZES = _TABLES["sizes"]
"""Sizes that every file states that describes nothing but text, by ``model_type``.

A file that describes more than text has the language model under ``text_config``, with only the
fields that differ from the family's defaults.
"""

USUAL = _TABLES["usual"]
"""Further fields by ``model_type``."""
