"""Results files that receive the measurements of a suite."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dlbricks_records.contents import export_measurements, import_measurements

from dlbricks_core.store import ResultStore


@contextmanager
def written_results(path: Path) -> Iterator[ResultStore]:
    """Opens a store whose content becomes a results file at the end.

    Until then, a working store beside the file keeps the measurements, so that an interrupted
    measurement continues where it ended. Networks in an existing file are not measured again.

    Args:
        path: Path of the results file.

    Raises:
        StoreError: If the file is not a results file, or cannot be written.
    """
    working = _working(path)
    begins = not working.exists()
    with ResultStore.open(working) as store:
        if begins and path.exists():
            try:
                import_measurements(store, path)
            except BaseException:
                _remove(working)
                raise
        yield store
        export_measurements(store, path)
    _remove(working)


def _working(path: Path) -> Path:
    """Path of the working store that receives measurements for a results file."""
    return path.with_name(f"{path.name}.partial")


def _remove(path: Path) -> None:
    for each in (path, *path.parent.glob(f"{path.name}-*")):
        each.unlink(missing_ok=True)
