"""Weights of a formula, for golden files that hold none."""

from __future__ import annotations

import zlib

import numpy as np

UNCACHED = ("openai-gpt",)
"""Configurations whose models keep no cache in transformers, which computes all tokens again."""


def weight(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Small numbers that follow from a name; those of scales lie around 1."""
    count = np.arange(int(np.prod(shape)), dtype=np.float64)
    wave = np.sin(0.37 * count * count + zlib.crc32(name.encode()) % 1000)
    is_scale = name.endswith("norm.weight")
    values = 1.0 + 0.1 * wave if is_scale else 0.3 * wave
    return values.reshape(shape).astype(np.float32)


def tokens(count: int, vocabulary: int) -> np.ndarray:
    """Token numbers of one text, ``[1, count]``."""
    return (np.arange(count, dtype=np.int64)[np.newaxis] * 7 + 3) % vocabulary


def encoder_input(config: dict) -> dict[str, np.ndarray]:
    """What the encoder of a configuration reads, by the name of the input; empty without one."""
    if not config.get("is_encoder_decoder"):
        return {}
    if "num_mel_bins" in config:
        shape = (1, config["num_mel_bins"], 2 * config["max_source_positions"])
        return {"input_features": weight("sound", shape)}
    return {"encoder_input_ids": tokens(9, config["vocab_size"])}
