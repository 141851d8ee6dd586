"""Tokens of a picture in the prompts of models that read pictures and text."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from dlbricks_decoders.fields import Fields

_Rule = Callable[[Fields, Fields, int, int], int]
"""Tokens from ``(configuration, its vision_config, width, height)``."""

_TILES = 4
"""Tiles along the longer side of a picture that is cut into tiles (SmolVLM, Idefics 3)."""

_LEAST, _MOST = 4, 16384
"""Fewest and most tokens of a picture that keeps its form (Qwen 2 VL and later)."""


def picture_tokens(values: Any, width: int, height: int, source: str) -> int | None:
    """Tokens of a picture, without those that only separate it from the text.

    Args:
        values: The configuration, as JSON holds it.
        width: Elements of the picture from left to right.
        height: Elements from top to bottom.
        source: Name of the configuration for messages.

    Returns:
        ``None`` if the family's rule is not known, or the model reads no pictures.

    Raises:
        ModelError: If a field is missing or has an invalid value.
    """
    vision = values.get("vision_config") if isinstance(values, dict) else None
    if not isinstance(vision, dict):
        return None
    kinds = (vision.get("model_type"), values.get("model_type"))
    rule = next((_RULES[kind] for kind in kinds if isinstance(kind, str) and kind in _RULES), None)
    if rule is None:
        return None
    return rule(Fields(values, source), Fields(vision, source, "vision_config."), width, height)


def _side(vision: Fields, size: int, patch: int) -> int:
    """Patches along a side of a picture, which is scaled to a fixed size."""
    return _one(vision, "image_size", size) // _one(vision, "patch_size", patch)


def _one(fields: Fields, name: str, usual: int) -> int:
    """A size, which a list may state for width and height."""
    value = fields.get(name)
    found = value[0] if isinstance(value, list) and value else value
    return int(fields.replaced(name, found).integer(name, default=usual))


def _grid(whole: Fields, vision: Fields, width: int, height: int) -> int:
    """A token for each patch, and one for the picture where its summary is kept."""
    kept = whole.get("vision_feature_select_strategy") == "full"
    tokens: int = _side(vision, 336, 14) ** 2 + kept
    return tokens


def _stated(name: str, usual: int) -> _Rule:
    """A number that the configuration states."""
    return lambda whole, vision, width, height: int(whole.integer(name, default=usual))


def _tiles(whole: Fields, vision: Fields, width: int, height: int) -> int:
    """Tiles, and the whole picture once more, each with a token for several patches."""
    each: int = _side(vision, 224, 32) ** 2 // whole.integer("scale_factor", default=2) ** 2
    longer, shorter = max(width, height), min(width, height)
    return (_TILES * math.ceil(_TILES * shorter / longer) + 1) * each


def _whole(usual: int) -> _Rule:
    """A token for each square of patches of the picture, whose form is kept."""

    def count(whole: Fields, vision: Fields, width: int, height: int) -> int:
        patch = _one(vision, "spatial_patch_size", _one(vision, "patch_size", usual))
        size = patch * vision.integer("spatial_merge_size", default=2)
        squares = max(round(width / size), 1) * max(round(height / size), 1)
        tokens: int = min(max(squares, _LEAST), _MOST)
        return tokens

    return count


def _rows(whole: Fields, vision: Fields, width: int, height: int) -> int:
    """A token for each square of patches, and one at the end of each row (Pixtral)."""
    longest = _one(vision, "image_size", 1024)
    size = _one(vision, "patch_size", 16) * whole.integer("spatial_merge_size", default=1)
    scale = max(width / longest, height / longest, 1.0)
    across, down = (math.ceil(int(side / scale) / size) for side in (width, height))
    tokens: int = (across + 1) * down
    return tokens


_RULES: Mapping[str, _Rule] = {
    "pixtral": _rows,
    "llava": _grid,
    "vipllava": _grid,
    "paligemma": _grid,
    "gemma3": _stated("mm_tokens_per_image", 256),
    "gemma3n": _stated("vision_soft_tokens_per_image", 256),
    "gemma4": _stated("vision_soft_tokens_per_image", 280),
    "internvl": _stated("image_seq_length", 256),
    "idefics3": _tiles,
    "smolvlm": _tiles,
    "qwen2_vl": _whole(14),
    "qwen2_5_vl": _whole(14),
    "qwen3_vl": _whole(16),
    "qwen3_vl_moe": _whole(16),
    "qwen3_5": _whole(16),
    "qwen3_5_moe": _whole(16),
}
"""Rules by ``model_type`` of the pictures' part or of the whole."""
