"""Failures of workers: networks that cannot be loaded or sampled, frameworks that do not start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dlbricks_core.errors import BackendError, DLBricksError
from dlbricks_core.worker import WorkerError
from dlbricks_core.worker.memory import tells_of_memory, ulimits

_UNSAID = "error return without exception set"
"""Message of CPython if memory for an error's message is lacking."""


@dataclass(frozen=True)
class Checked:
    """Networks that cannot be loaded, by key.

    Attributes:
        unsupported: Reason for each network that the backend does not support.
        failed: Reason for each network that could not be checked.
    """

    unsupported: Mapping[str, str]
    failed: Mapping[str, str]

    def __or__(self, other: Checked) -> Checked:
        return Checked({**self.unsupported, **other.unsupported}, {**self.failed, **other.failed})


class NetworkError(DLBricksError):
    """One of several networks failed.

    Attributes:
        key: Key of the network.
    """

    def __init__(self, key: str, error: DLBricksError) -> None:
        super().__init__(error.message, error.hint)
        self.key = key


def start_error(backend: str, error: DLBricksError) -> DLBricksError:
    """Error for a framework that does not start; no network is the cause."""
    limits = ulimits()
    lacked_memory = tells_of_memory(error.message) or _UNSAID in error.message
    if limits and (isinstance(error, WorkerError) or lacked_memory):
        return BackendError(
            f"{backend} does not start within {limits}: {error.message}",
            hint="Raise or remove that limit, or use another backend.",
        )
    return BackendError(f"{backend} does not start: {error.message}", hint=error.hint)
