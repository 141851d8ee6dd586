"""Pictures in the prompts of language models, which take tokens as text does."""

from __future__ import annotations

from collections.abc import Sequence

from dlbricks_core.errors import DLBricksError
from dlbricks_core.estimation.defaults import PROMPT
from dlbricks_core.importers import ModelCollection
from dlbricks_core.importers.lookup import named_by
from dlbricks_core.ir import RawModel
from dlbricks_core.wording import argument, listed
from dlbricks_sizes.generation import Generation

_NAMED = 4
"""Most models that a message names."""

USUAL = (640, 480)
"""Width and height of a picture that is given by number alone."""


def with_pictures(
    asked: Generation, pictures: tuple[int, ...], sources: Sequence[str | RawModel]
) -> Generation:
    """The request with the tokens of pictures in every prompt.

    Args:
        asked: Request for prompts of text.
        pictures: Number of pictures in each prompt, and maybe their width and height.
        sources: Models, which all take the same number of tokens for a picture.

    Raises:
        DLBricksError: If a model reads no pictures, or two take different numbers of tokens.
    """
    number, width, height = pictures if len(pictures) > 1 else (*pictures, *USUAL)
    tokens = {source: _tokens(source, width, height) for source in map(str, sources)}
    if len(set(tokens.values())) > 1:
        known = listed([f"{count} in {source}" for source, count in tokens.items()], _NAMED)
        raise DLBricksError(
            f"{argument('pictures')}: a picture has different numbers of tokens: {known}",
            hint="Give one model, or those with equal numbers.",
        )
    more = number * next(iter(tokens.values()))
    axes = {"prompt": (PROMPT,), **asked.axes} if not _varies(asked) else dict(asked.axes)
    return Generation({name: tuple(_longer(name, size, more) for size in sizes)
                       for name, sizes in axes.items()})  # fmt: skip


def _varies(asked: Generation) -> bool:
    """Whether an axis has lengths of prompts."""
    return any("prompt" in name.split(",") for name in asked.axes)


def _longer(name: str, size: int | tuple[int, ...], more: int) -> int | tuple[int, ...]:
    """Sizes of an axis, with further tokens in the prompt."""
    names = name.split(",")
    if "prompt" not in names:
        return size
    if not isinstance(size, tuple):
        return size + more
    return tuple(each + more * (key == "prompt") for key, each in zip(names, size, strict=True))


def _tokens(source: str, width: int, height: int) -> int:
    """Tokens of a picture in a model."""
    plugin, name = named_by(source)
    collection = plugin.loaded()
    found = (
        collection.picture_tokens(str(name), width, height)
        if isinstance(collection, ModelCollection)
        else None
    )
    if found is None:
        raise DLBricksError(
            f"{argument('pictures')}: {source} reads no pictures, as far as is known",
            hint="Leave it out, or add the tokens of the pictures to the prompt.",
        )
    return found
