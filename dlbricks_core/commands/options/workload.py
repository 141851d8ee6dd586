"""Workloads of language models: how long the prompt is, and how much is generated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Workload:
    """Work of a language model for one request.

    Attributes:
        prompt: Tokens of the prompt, which are computed at once.
        generate: Output tokens; the prompt yields the first token.
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


PHASES = ("prompt", "token")
"""Phases of an answer, which may have different numbers of threads."""

_CATEGORIES: Mapping[str, Workload] = {
    "content-generation": Workload(192, 256),
    "creative-writing": Workload(512, 512),
    "code-analysis": Workload(2208, 128),
    "summarization-light": Workload(896, 128),
    "summarization-moderate": Workload(1472, 256),
    "summarization-intermediate": Workload(3640, 128),
    "summarization-substantial": Workload(8064, 128),
}

TASKS: Mapping[str, Workload] = {
    "chat": _CATEGORIES["content-generation"],
    "code": _CATEGORIES["code-analysis"],
    "summarization": _CATEGORIES["summarization-moderate"],
    **_CATEGORIES,
}
"""Workloads by the categories of MLPerf Client 1.0, after three short names of them.

Output tokens are ``max_length`` of the category's files for Llama 3.1 in the benchmark's repository
(``data/llama3/prompts``), and prompts the mean of ``max_total_length - max_length``.
"""
