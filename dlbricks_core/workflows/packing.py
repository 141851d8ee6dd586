"""Packs the measurements of a store into contributions to the atlas, one file each."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from dlbricks_core.errors import DLBricksError, or_room
from dlbricks_core.facts import Setup
from dlbricks_core.predict import Contribution, shipped
from dlbricks_core.predict.from_atlas import kernel_of, with_pulls
from dlbricks_core.predict.levelling import levelled
from dlbricks_core.store import ResultStore
from dlbricks_core.wording import argument
from dlbricks_core.workflows.knowledge import contributions, whole_models
from dlbricks_core.workflows.observer import Observer


@dataclass(frozen=True)
class Packed:
    """A contribution in a file.

    Attributes:
        path: The file.
        contribution: The contribution.
    """

    path: Path
    contribution: Contribution


def pack(
    store: ResultStore,
    folder: Path,
    observer: Observer,
    backend: str | None = None,
    *,
    extend: bool = False,
) -> list[Packed]:
    """Writes the measurements of a store, one file for each system and setup.

    Differences between sessions are taken off.

    Args:
        store: Store of the measurements.
        folder: Folder of the files. It is created if missing; files of an earlier packing are
            replaced.
        observer: Receives a notice of each file.
        backend: Name of the backend; ``None`` for all backends.
        extend: Whether files hold the networks of the shipped atlas too, where it has some of the
            same system and setup.

    Raises:
        DLBricksError: If there is nothing to pack, or the folder cannot be written.
    """
    found = contributions(store, backend)
    if not found:
        of_backend = f" of {backend}" if backend else ""
        raise DLBricksError(
            f"{store.place}: the store holds nothing{of_backend} that a predictor can learn from",
            hint=f"Run a survey first, or choose another store with {argument('store')}.",
        )
    observer.stage("Packing the store's measurements", len(found))
    wholes = whole_models(store, backend)
    names = Counter[str]()
    packed = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for each in found:
            name = _file_name(each)
            names[name] += 1
            again = f"-{names[name]}" if names[name] > 1 else ""
            path = folder / f"{name}{again}.npz"
            whole = _with_shipped(each) if extend else each
            kernel = kernel_of(whole.setup.backend)
            complete = with_pulls(levelled(whole, kernel, wholes), kernel)
            complete.write(path)
            packed.append(Packed(path, complete))
            observer.advance(path.name)
    except OSError as error:
        raise DLBricksError(
            f"{folder} cannot be written: {error.strerror or error}",
            hint=or_room(error, "Choose another folder."),
        ) from error
    return packed


def _with_shipped(contribution: Contribution) -> Contribution:
    """A contribution, with networks of shipped ones of the same system and setup."""
    for each in shipped(contribution.setup.backend):
        if _measured_as(each) == _measured_as(contribution):
            contribution = contribution.extended(each)
    return contribution


def _measured_as(contribution: Contribution) -> tuple[str, Setup]:
    """System and setup, whatever the plugin's version."""
    return contribution.system.fingerprint, replace(contribution.setup, plugin="")


def _file_name(contribution: Contribution) -> str:
    """File name from system, backend and threads. Other setups of these share the name."""
    system, setup = contribution.system, contribution.setup
    name = f"{system.microarchitecture or 'cpu'}-{system.fingerprint[:8]}"
    return f"{name}-{setup.backend}-{setup.threads}"
