"""The chain of blocks that llama.cpp runs in place of a language model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from dlbricks_core.backends import BackendSettings
from dlbricks_core.bricks import native
from dlbricks_core.errors import UnsupportedError
from dlbricks_core.ir import CanonicalModel, Layer, RawModel, TensorSpec
from dlbricks_llamacpp.architecture import SMALLEST, Architecture, architecture_of
from dlbricks_llamacpp.files import Block, block_tensors, head_tensors
from dlbricks_llamacpp.weights import is_fine

BACKEND = "llamacpp"
DOMAIN = "llama.cpp"
"""Domain of the layers."""

EMBEDDING, BLOCK, HEAD = "Embedding", "Block", "Head"
"""Kinds of layers."""

ROWS = 4096
"""Maximum rows of the embedding: more than a prompt reads before it comes back to one."""

FEW = 16
"""Number of new tokens below which reading weights takes most of the time."""

COLD_BYTES = 128 << 20
"""Least bytes of blocks that one file has, for few tokens and in a model of several such files.

No cache of 32 MB keeps anything of it from run to run. So the file's weights are cold when it runs
twice in a row, as a model's are, while all that llama.cpp and the processor keep about them (graph,
buffers, page tables) is warm, as in a model. One block alone came out 15% too low after a run of
its own, and up to 30% too high after runs of other files.
"""

ONLY_MODELS = (
    "it runs language models by their configuration, such as llm:qwen3-0.6b, and no other layers"
)


def rewrite(model: CanonicalModel, settings: BackendSettings) -> CanonicalModel:
    """The embedding, the blocks and the last projection of a language model.

    Each layer has one weight with the bytes of all its matrices that a run reads.

    Args:
        model: A language model with its configuration, at one size.
        settings: Threads and options.

    Raises:
        UnsupportedError: If it is another model, or llama.cpp has no such architecture.
    """
    if not model.configuration:
        raise UnsupportedError(ONLY_MODELS)
    of = architecture_of(model.configuration)
    batch, tokens = model.tensors[model.inputs[0]].sizes
    if batch != 1:
        raise UnsupportedError(f"batches of {batch} sequences are not run: llama-bench runs one")
    past = model.tensors[model.inputs[1]].sizes[2]
    return _Chain(model, of, settings.options["dtype"], tokens, past).written()


def smallest(layers: int, dtype: str = "f16") -> CanonicalModel:
    """A chain of blocks of next to no work."""
    names = [f"x{i}" for i in range(layers + 1)]
    attributes = _attributes(SMALLEST, dtype, 1, 0, Block(), 1, last=False)
    made = tuple(
        Layer(BLOCK, (before,), (after,), attributes, DOMAIN, after)
        for before, after in pairwise(names)
    )
    tensors = dict.fromkeys(names, TensorSpec("float32", (1, 1, SMALLEST.hidden)))
    raw = RawModel("smallest", made, names[:1], names[-1:], tensors, opsets={DOMAIN: 1})
    return native(raw, BACKEND, {})


def _attributes(
    of: Architecture, dtype: str, tokens: int, past: int, block: Block, blocks: int, *, last: bool
) -> dict[str, int | str]:
    return {
        "architecture": of.text(),
        "blocks": blocks,
        "dtype": dtype,
        "tokens": tokens,
        "past": past,
        "fine": int(block.fine),
        "window": int(block.window),
        "last": int(last),
    }


class _Chain:
    """Writer of the chain of a model at one size.

    Args:
        model: The model.
        of: Its architecture.
        dtype: Type of the weights.
        tokens: Number of new tokens.
        past: Number of tokens in the cache.
    """

    def __init__(
        self, model: CanonicalModel, of: Architecture, dtype: str, tokens: int, past: int
    ) -> None:
        self._model, self._of, self._dtype = model, of, dtype
        self._tokens, self._past = tokens, past
        ends = (*model.inputs, *model.outputs)
        self._tensors = {name: model.tensors[name] for name in ends}
        self._weights: list[str] = []

    def written(self) -> CanonicalModel:
        """The chain."""
        model = self._model
        raw = RawModel(
            name=model.name,
            layers=tuple(self._layers()),
            inputs=model.inputs,
            outputs=model.outputs,
            tensors=self._tensors,
            weights=frozenset(self._weights),
            opsets={DOMAIN: 1},
            source=model.source,
        )
        return native(raw, BACKEND, {})

    def _layers(self) -> Iterator[Layer]:
        of, model = self._of, self._model
        read = replace(of, vocabulary=min(of.vocabulary, ROWS))
        embedding = head_tensors(read, self._dtype)[0].nbytes
        x = self._state("embedding", self._tokens)
        inputs = (model.inputs[0], self._weight("embedding.weight", embedding))
        yield self._layer(EMBEDDING, inputs, (x,), of, Block(), last=False)
        for block, indices in self._groups():
            last = of.blocks - 1 in indices and self._tokens > 1
            weight = self._weight(f"block.{indices[0]}.weight", len(indices) * self._nbytes(block))
            before, after = (
                tuple(f"{state}.{index}.{part}" for index in indices for part in ("key", "value"))
                for state in ("past_key_values", "present")
            )
            y = self._state(f"block.{indices[0]}", 1 if last else self._tokens)
            yield self._layer(BLOCK, (x, weight, *before), (y, *after), of.of_block, block,
                              len(indices), last=last)  # fmt: skip
            x = y
        head = sum(each.nbytes for each in head_tensors(of, self._dtype)[-2:])
        inputs = (x, self._weight("head.weight", head))
        yield self._layer(HEAD, inputs, (model.outputs[0],), of, Block(), last=True)

    def _groups(self) -> Iterator[tuple[Block, list[int]]]:
        """Indices of blocks that are one brick, in order if each block is one.

        For few tokens, equal blocks make groups of about the same size, whatever their order: it
        does not matter for the time.
        """
        of = self._of
        kinds: dict[Block, list[int]] = {}
        for index in range(of.blocks):
            block = Block(self._has_fine and is_fine(index, of.blocks), of.has_window(index))
            if self._tokens >= FEW:
                yield block, [index]
            kinds.setdefault(block, []).append(index)
        for block, indices in kinds.items() if self._tokens < FEW else ():
            groups = max(1, len(indices) // -(-COLD_BYTES // self._nbytes(block)))
            for group in range(groups):
                yield block, indices[group::groups]

    def _nbytes(self, block: Block) -> int:
        return sum(each.nbytes for each in block_tensors(self._of, block, self._dtype))

    @property
    def _has_fine(self) -> bool:
        """Whether blocks with more bits in some matrices differ from others."""
        plain, fine = (block_tensors(self._of, Block(each), self._dtype) for each in (False, True))
        return plain != fine

    def _layer(
        self,
        kind: str,
        inputs: tuple[str, ...],
        outputs: tuple[str, ...],
        of: Architecture,
        block: Block,
        blocks: int = 1,
        *,
        last: bool,
    ) -> Layer:
        tokens, past = (1, 0) if kind == HEAD else (self._tokens, self._past)
        past = 0 if kind == EMBEDDING else past
        attributes = _attributes(of, self._dtype, tokens, past, block, blocks, last=last)
        return Layer(kind, inputs, outputs, attributes, DOMAIN, outputs[0])

    def _state(self, name: str, tokens: int) -> str:
        self._tensors[name] = TensorSpec("float32", (1, tokens, self._of.hidden))
        return name

    def _weight(self, name: str, nbytes: int) -> str:
        rows = self._of.hidden
        self._tensors[name] = TensorSpec("uint8", (rows, -(-nbytes // rows)))
        self._weights.append(name)
        return name
