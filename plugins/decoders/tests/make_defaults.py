"""Writes families/defaults.json: defaults of transformers that families do not state themselves.

The tests need no transformers; this script does: ``python make_defaults.py``. Each field of the
configurations beside this file is left out in turn, and compared with the value that transformers
gives it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from completed import completed, outcome, their_class
from dlbricks_decoders import families
from dlbricks_decoders.families import encoders

HERE = Path(__file__).parent
CONFIGURATIONS = sorted((HERE / "configurations").glob("*.json"))
TABLES = Path(families.__file__).with_name("defaults.json")

SIZES = ("vocab_size", "hidden_size", "n_embd", "d_model", "num_hidden_layers", "n_layer",
         "n_layers", "num_layers", "num_attention_heads", "n_head", "n_heads", "num_heads",
         "attention_heads")  # fmt: skip
"""Names of sizes that every file states that describes nothing but text."""

DERIVED = ("layer_types", "layers_block_type", "mlp_layer_types", "per_layer_config",
           "rope_parameters")  # fmt: skip
"""Fields that transformers fills in from others."""


ALWAYS = ("num_key_value_heads",)
"""Fields whose default of transformers may be the one of a small configuration by chance."""


def missing(config: Mapping[str, Any]) -> dict[str, Any]:
    """Defaults of transformers that change the decoder of a configuration without the field."""
    found = {}
    stated = () if config["model_type"] in encoders.FAMILIES else SIZES
    defaults = completed({"model_type": config["model_type"]})
    aliases = their_class(config["model_type"]).attribute_map
    for name in completed(config):
        names = {name, *(alias for alias, own in aliases.items() if own == name)}
        without = {key: value for key, value in config.items() if key not in names}
        if name in ("model_type", *stated, *DERIVED) or defaults.get(name) is None:
            continue
        try:
            theirs = completed(without)
        except ValueError:
            continue
        if theirs.get(name) != defaults[name]:
            continue
        ours = outcome(without)
        if name in ALWAYS or ours != outcome({**without, name: theirs[name]}):
            found[name] = defaults[name]
    return found


def main() -> None:
    families.USUAL.clear()
    sizes: dict[str, dict[str, Any]] = {}
    usual: dict[str, dict[str, Any]] = {}
    for path in CONFIGURATIONS:
        config = json.loads(path.read_text())
        family = config["model_type"]
        usual.setdefault(family, {}).update(missing(config))
        if family not in encoders.FAMILIES:
            defaults = completed({"model_type": family})
            sizes[family] = {name: defaults[name] for name in SIZES if name in defaults}
    tables = {"sizes": sizes, "usual": {name: row for name, row in usual.items() if row}}
    lines = [
        f'"{name}": {{\n' + ",\n".join(f'"{family}": {json.dumps(row, sort_keys=True)}'
                                       for family, row in sorted(rows.items())) + "\n}"
        for name, rows in tables.items()
    ]  # fmt: skip
    TABLES.write_text("{" + ",\n".join(lines) + "}\n")


if __name__ == "__main__":
    main()
