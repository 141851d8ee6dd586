"""The timer: some blocks of a language model as a file of llama.cpp, and runs of it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dlbricks_core.backends import Array, BackendSettings, CpuTimer, Network
from dlbricks_core.bricks import native_to
from dlbricks_core.errors import UnsupportedError
from dlbricks_core.ir import CanonicalModel, Layer
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
            tuple(block for each in blocks for block in _blocks(each)) or (Block(),),
            _text(sized, "dtype"),
            _number(sized, "tokens"),
            _number(sized, "past"),
            outputs if heads or blocks else "none",
        )


def _blocks(layer: Layer) -> tuple[Block, ...]:
    block = Block(bool(layer.attributes["fine"]), bool(layer.attributes["window"]))
    return (block,) * _number(layer, "blocks")


def _text(layer: Layer, name: str) -> str:
    value = layer.attributes[name]
    return value.decode() if isinstance(value, bytes) else str(value)


def _number(layer: Layer, name: str) -> int:
    value: Any = layer.attributes[name]
    return int(value)


class LlamaTimer(CpuTimer[Context]):
    """Times blocks of language models in llama.cpp.

    Args:
        settings: Threads and options.
    """

    def __init__(self, settings: BackendSettings) -> None:
        try_out(settings.options["dtype"])
        self._settings = settings
        self._library = Library()

    def load(self, network: Network) -> Context:
        """Writes a file with weights of its own, opens it and fills the cache."""
        found = Blocks.of_model(network.model)
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

    def run(self, loaded: Context) -> None:
        """One prompt or one token."""
        loaded.run()

    def synchronize(self, loaded: Context) -> None:
        """Returns once the results are in memory."""
        loaded.wait()

    def warm_io(self, loaded: Context) -> None:
        """Nothing: states between blocks lie in buffers of the library."""

    def outputs(self, loaded: Context) -> Mapping[str, Array]:
        """The logits of the last token: llama.cpp hands no other states out."""
        return {} if not loaded.has_logits else {"logits": loaded.logits()}

    def unload(self, loaded: Context) -> None:
        """Frees the file's memory."""
        loaded.close()
