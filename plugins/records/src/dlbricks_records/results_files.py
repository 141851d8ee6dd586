"""Results files, from which estimates are made in place of a store."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from dlbricks_core.store import ResultStore
from dlbricks_records.contents import import_measurements


@contextmanager
def read_results(paths: Sequence[Path]) -> Iterator[ResultStore]:
    """Opens a temporary store with the content of results files.

    Raises:
        StoreError: If a file cannot be read, or is not a results file.
    """
    folder = Path(tempfile.mkdtemp(prefix="dlbricks-results-"))
    try:
        with ResultStore.open(folder / "results.sqlite") as store:
            for path in paths:
                import_measurements(store, path)
            yield store
    finally:
        shutil.rmtree(folder, ignore_errors=True)
