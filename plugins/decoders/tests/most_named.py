"""Prints the architectures for text that most files of transformers name, and which are read.

Run it where transformers is installed: ``python most_named.py``. An architecture counts once for
each file outside its own folder that imports from it or has its name as a text.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import transformers
from dlbricks_decoders.families import FAMILIES
from transformers.models.auto.configuration_auto import SPECIAL_MODEL_TYPE_TO_MODULE_NAME
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

MOST = 60

NAMED = re.compile(r"""(?:\bmodels\.|\.\.)(\w+)|["']([\w-]+)["']""")

NO_DECODERS = frozenset({
    "bart", "beam", "bert", "big_bird", "camembert", "electra", "ernie", "git", "got_ocr2",
    "marian", "mbart", "musicgen", "musicgen_melody", "pegasus", "roberta", "whisper", "xlm",
    "xlm_roberta", "xlnet",
})  # fmt: skip
"""Encoders, and decoders that need an encoder or complete no text."""


def most_named() -> tuple[list[str], list[str]]:
    """Architectures that are read and those that are not, most named first."""
    folder = Path(transformers.__file__).parent
    kinds: dict[str, set[str]] = {}
    for kind in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        module = SPECIAL_MODEL_TYPE_TO_MODULE_NAME.get(kind, kind.replace("-", "_"))
        kinds.setdefault(module, {module}).add(kind)
    files = Counter()
    for path in folder.rglob("*.py"):
        if "auto" not in path.parts:
            named = {name for both in NAMED.findall(path.read_text()) for name in both}
            files.update(each for each, own in kinds.items()
                         if own & named and each not in path.parts)  # fmt: skip
    ranked = [each for each, _ in files.most_common() if each not in NO_DECODERS][:MOST]
    texts = {each: {each, f"{each}_text", f"{each}_text_model", *kinds[each]} for each in ranked}
    read = [each for each in ranked if texts[each] & FAMILIES.keys()]
    return read, [each for each in ranked if each not in read]


def main() -> None:
    read, unread = most_named()
    print(f"{len(read)} of {MOST} are read:", ", ".join(read))
    print("not read:", ", ".join(unread))


if __name__ == "__main__":
    main()
