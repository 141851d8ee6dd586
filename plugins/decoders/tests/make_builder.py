"""Writes what the builder of onnxruntime-genai makes of ``configurations/``: its operators.

Run it where transformers and onnxruntime-genai are installed:
``python make_builder.py [FAMILY...]``.
Of some operators it keeps the attributes as well.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import onnx
import torch
from dlbricks_decoders.genai import FAMILIES
from onnxruntime_genai.models.builder import create_model, parse_extra_options
from test_genai import ATTRIBUTES, HERE, wider
from tokenizers import Tokenizer, models
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

PRECISIONS = ("fp32", "int4", "int8")


def saved(family: str, folder: Path) -> None:
    """Saves a model of drawn weights with a tokenizer of its words."""
    config = AutoConfig.for_model(**wider(family))
    model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for each in model.parameters():  # the builder leaves out biases of zeros
            each.normal_(std=0.02)
    model.config.architectures = [type(model).__name__]
    model.save_pretrained(folder)
    words = {f"w{number}": number for number in range(config.get_text_config().vocab_size)}
    plain = Tokenizer(models.WordLevel(words, unk_token="w0"))
    special = {f"{kind}_token": f"w{number}" for number, kind in enumerate(("unk", "bos", "eos"))}
    PreTrainedTokenizerFast(tokenizer_object=plain, **special).save_pretrained(folder)


def attributes(graph: onnx.GraphProto) -> dict[str, list[dict[str, Any]]]:
    """Attributes of operators that have any that matter, each value once."""
    found: dict[str, list[dict[str, Any]]] = {}
    for node in graph.node:
        if node.op_type in ATTRIBUTES:
            given = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
            kept = {
                name: given.get(name, usual) for name, usual in ATTRIBUTES[node.op_type].items()
            }
            kept = {name: round(x, 6) if isinstance(x, float) else x for name, x in kept.items()}
            seen = found.setdefault(node.op_type, [])
            if kept not in seen:
                seen.append(kept)
    return found


def main() -> None:
    path, told = HERE / "builder_operators.json", HERE / "builder_attributes.json"
    counts, kept = (json.loads(each.read_text()) if each.exists() else {} for each in (path, told))
    for family in sys.argv[1:] or sorted(FAMILIES):
        with TemporaryDirectory() as folder:
            source, out = Path(folder, "model"), Path(folder, "written")
            saved(family, source)
            for precision in PRECISIONS:
                case = f"{family}/{precision}"
                try:
                    given = ("", str(source), str(out), precision, "cpu", folder)
                    create_model(*given, **parse_extra_options(*given, []))
                except Exception as error:  # noqa: BLE001 - the builder's own failures
                    print(case, "fails:", error)
                    continue
                graph = onnx.load(out / "model.onnx", load_external_data=False).graph
                found = dict(sorted(Counter(node.op_type for node in graph.node).items()))
                if case in counts and counts[case] != found:
                    print(case, "had", counts[case])
                print(case, found)
                counts[case], kept[case] = found, attributes(graph)
    path.write_text(json.dumps(dict(sorted(counts.items())), indent=1) + "\n")
    told.write_text(json.dumps(dict(sorted(kept.items())), indent=1) + "\n")


if __name__ == "__main__":
    main()
