"""The timer: some blocks of a language model as a file of llama.cpp, and runs of it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import Any

from dlbricks_core.backends import Array, BackendSettings, CpuTimer, Network
from dlbricks_core.bricks import native_to, weights_are_reread
from dlbricks_core.errors import UnsupportedError
from dlbricks_core.ir import CanonicalModel, Layer
from dlbricks_core.machine.system import largest_cache
from dlbricks_llamacpp import files
from dlbricks_llamacpp.architecture import Architecture
from dlbricks_llamacpp.files import Block
from dlbricks_llamacpp.library import Context, Library, try_out
from dlbricks_llamacpp.rewrite import BACKEND, BLOCK, EMBEDDING, HEAD, ONLY_MODELS, ROWS


@dataclass(frozen=True)
class Blocks:
    """File that stands for a network of layers, and how it runs.

    Attributes:
        of: The architecture.
        blocks: Blocks of the file.
        dtype: Type of its weights.
        tokens: Number of new tokens.
        past: Number of tokens in the cache.
        outputs: Tokens whose logits are computed: ``all``, ``last`` or ``none``.
    """

    of: Architecture
    blocks: tuple[Block, ...]
    dtype: str
    tokens: int
    past: int
    outputs: str

    @classmethod
    def of_model(cls, model: CanonicalModel) -> Blocks:
        """The file of a brick, or of a whole model.

        A block that is not the last works on all tokens, as it does where the logits of all tokens
        are computed. A file needs a block: around an embedding or a last projection alone, it is
        the smallest one.

        Raises:
            UnsupportedError: If the layers are not those of :mod:`rewrite`.
        """
        if native_to(model) != BACKEND:
            raise UnsupportedError(ONLY_MODELS)
        layers = {op: [each for each in model.layers if each.op == op]
                  for op in (EMBEDDING, BLOCK, HEAD)}  # fmt: skip
        blocks, heads, embeddings = layers[BLOCK], layers[HEAD], layers[EMBEDDING]
        described = Architecture.of_text(_text(([*heads, *blocks, *embeddings])[0], "architecture"))
        if not blocks:
            described = described.smallest
        if not heads and not blocks:
            described = replace(described, vocabulary=min(described.vocabulary, ROWS))
        sized = (blocks or model.layers)[0]
        outputs = "last" if heads or any(each.attributes["last"] for each in blocks) else "all"
        return cls(
            described,
            tuple(_block(each) for each in blocks) or (Block(),),
            _text(sized, "dtype"),
            _number(sized, "tokens"),
            _number(sized, "past"),
            outputs if heads or blocks else "none",
        )


def _block(layer: Layer) -> Block:
    return Block(bool(layer.attributes["fine"]), bool(layer.attributes["window"]))


def _text(layer: Layer, name: str) -> str:
    value = layer.attributes[name]
    return value.decode() if isinstance(value, bytes) else str(value)


def _number(layer: Layer, name: str) -> int:
    value: Any = layer.attributes[name]
    return int(value)


class Copies:
    """A file that is open one or several times, whose runs take turns.

    A model reads all its weights before it reads those of a block again. A file of one block alone
    would find them in the caches.

    Args:
        contexts: The open copies.
    """

    def __init__(self, contexts: list[Context]) -> None:
        self.contexts = contexts

    @property
    def last(self) -> Context:
        """The copy that ran last."""
        return self.contexts[-1]

    def run(self) -> None:
        """Runs the copy that has rested longest."""
        self.contexts.append(self.contexts.pop(0))
        self.last.run()


COLD = 2
"""Bytes of all copies together, at least, as a multiple of the largest cache."""


def copies_of(model: CanonicalModel, cache_bytes: int) -> int:
    """Number of copies of a file between which the caches lose its weights.

    Args:
        model: Some layers.
        cache_bytes: Size of the largest cache.
    """
    few_rows = all(layer.op == EMBEDDING for layer in model.layers)
    if few_rows or not model.weights or weights_are_reread(model):
        return 1
    return max(1, ceil(COLD * cache_bytes / model.weight_bytes))


class LlamaTimer(CpuTimer[Copies]):
    """Times blocks of language models in llama.cpp.

    Args:
        settings: Threads and options.
    """

    def __init__(self, settings: BackendSettings) -> None:
        try_out(settings.options["dtype"])
        self._settings = settings
        self._library = Library()
        self._cache_bytes = largest_cache() or _UNKNOWN_CACHE_BYTES

    def load(self, network: Network) -> Copies:
        """Writes a file with weights of its own, opens it and fills the cache, once or often."""
        found = Blocks.of_model(network.model)
        number = copies_of(network.model, self._cache_bytes)
        return Copies([self._opened(found) for _ in range(number)])

    def _opened(self, found: Blocks) -> Context:
        settings = self._settings
        with tempfile.TemporaryDirectory(prefix="dlbricks-") as folder:
            path = Path(folder) / "blocks.gguf"
            context = found.past + found.tokens
            files.write(path, found.of, found.blocks, found.dtype, context)
            attention = settings.options["attention"]
            loaded = Context(
                self._library, path, settings.threads, attention, found.tokens, found.past
            )
        loaded.prepare(found.tokens, found.outputs)
        return loaded

    def run(self, loaded: Copies) -> None:
        """One prompt or one token."""
        loaded.run()

    def synchronize(self, loaded: Copies) -> None:
        """Returns once the results are in memory."""
        loaded.last.wait()

    def warm_io(self, loaded: Copies) -> None:
        """Nothing: states between blocks lie in buffers of the library."""

    def outputs(self, loaded: Copies) -> Mapping[str, Array]:
        """The logits of the last token: llama.cpp hands no other states out."""
        return {} if not loaded.last.has_logits else {"logits": loaded.last.logits()}

    def unload(self, loaded: Copies) -> None:
        """Frees the memory of all copies."""
        for each in loaded.contexts:
            each.close()


_UNKNOWN_CACHE_BYTES = 32 << 20
"""Bytes of the largest cache where the system does not tell."""
