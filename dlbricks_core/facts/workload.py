"""Workloads of language models: how long the prompt is, and how much is generated."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Workload:
    """Work of a language model for one request.

    Attributes:
        prompt: Tokens of the prompt, which are computed at once.
        generate: Output tokens; the first one comes with the prompt, each other one after it.
        depth: Tokens that the cache holds before the prompt.
        batch: Requests of this kind that are computed together.
    """

    prompt: int
    generate: int
    depth: int = 0
    batch: int = 1

    @property
    def depths(self) -> range:
        """Tokens that the cache holds before each output token after the first."""
        first = self.depth + self.prompt
        return range(first, first + self.generate - 1)
