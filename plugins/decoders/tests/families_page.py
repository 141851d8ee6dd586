"""Writes the lists of docs/reference/families.md from the decoders of the configurations here.

Run it where transformers is installed, which the order of architectures comes from:
``python families_page.py``.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path

from dlbricks_decoders.architecture import Block
from dlbricks_decoders.families import FAMILIES, decoder_of

HERE = Path(__file__).parent
PAGE = HERE.parents[2] / "docs/reference/families.md"
WIDTH = 120
HEAD = "| what some or all of its blocks have | `model_type` |"

TRAITS: Mapping[str, Callable[[Block], object]] = {
    "an encoder": lambda block: block.cross,
    "state spaces": lambda block: block.state_space or block.selective,
    "linear recurrences": lambda block: block.recurrence,
    "linear attention": lambda block: block.delta or block.lightning,
    "short convolutions": lambda block: block.convolution,
    "latent attention": lambda block: block.attention and block.attention.latent,
    "chosen tokens": lambda block: (
        block.attention and block.attention.latent and block.attention.latent.indexer
    ),
    "experts": lambda block: (
        block.beside or block.shortcut or (block.feed_forward and block.feed_forward.experts)
    ),
    "shared experts": lambda block: _shared(block),
    "windows or chunks": lambda block: (
        block.attention and (block.attention.window or block.attention.chunk)
    ),
    "gated attention": lambda block: block.attention and block.attention.gate,
    "borrowed keys and values": lambda block: block.attention and block.attention.borrowed,
    "several states of a token": lambda block: block.altup or block.streams,
    "sinks": lambda block: block.attention and block.attention.sinks,
    "scores by distance (ALiBi)": lambda block: block.attention and block.attention.alibi,
    "queries that grow with the position": lambda block: (
        block.attention and block.attention.temperature
    ),
}
"""Traits of blocks that the table names."""


def _shared(block: Block) -> bool:
    experts = block.feed_forward and block.feed_forward.experts
    return bool(experts and experts.shared) or block.beside is not None


def table() -> str:
    """Families by the traits of their blocks."""
    traits: dict[str, set[str]] = {}
    for path in (HERE / "configurations").glob("*.json"):
        config = json.loads(path.read_text())
        blocks = decoder_of(config, path.name).blocks
        found = {name for name, has in TRAITS.items() if any(map(has, blocks))}
        traits.setdefault(config["model_type"], set()).update(found)
    rows: dict[str, list[str]] = {}
    for family in FAMILIES:
        if family not in traits:
            raise LookupError(f"{family} has no file in {HERE.name}/configurations/")
        words = ", ".join(name for name in TRAITS if name in traits[family])
        rows.setdefault(words or "attention to all tokens, dense", []).append(f"`{family}`")
    order = sorted(rows, key=lambda words: (words.count(","), words))
    lines = [f"| {words[0].upper()}{words[1:]} | {', '.join(rows[words])} |" for words in order]
    return "\n".join([HEAD, "|---|---|", *lines])


def listed(names: list[str]) -> str:
    """Names of architectures as a list in words."""
    *first, last = (f"`{name}`" for name in names)
    return f"{', '.join(first)} and {last}"


def main() -> None:
    from most_named import MOST, most_named

    read, unread = most_named()
    page = PAGE.read_text()
    page = re.sub(r"\| what .*?\n\n", lambda _: table() + "\n\n", page, flags=re.DOTALL)
    page = re.sub(r"these \d+ families", f"these {len(FAMILIES)} families", page)
    text = (f"Of the first {MOST}, {len(read)} are read, some of them by their text part: "
            f"{listed(read)}. Not read are, in their order: {listed(unread)}.")  # fmt: skip
    page = re.sub(r"Of the first \d+, .*?\n\n", lambda _: _wrapped(text), page, flags=re.DOTALL)
    before, start, rest = page.partition("are in the order of the library: ")
    names, _, after = rest.partition(".\n\n")
    kept = [name for name in re.findall(r"`([\w-]+)`", names) if name not in FAMILIES]
    paragraph = before.rpartition("\n\n")[2] + start
    text = f"{' '.join(paragraph.split())} {', '.join(f'`{name}`' for name in kept)}."
    page = before.removesuffix(paragraph.removesuffix(start)) + _wrapped(text) + after
    PAGE.write_text(page)


def _wrapped(text: str) -> str:
    """A paragraph in lines that fit the page."""
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False) + "\n\n"


if __name__ == "__main__":
    main()
