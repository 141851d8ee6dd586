"""Files of reference data: contributions as they are written, and extended by older ones."""

from __future__ import annotations

import itertools
import json
from dataclasses import asdict, replace
from io import BytesIO
from pathlib import Path

import numpy as np
from dlbricks_prediction.atlas import FORMAT, Contribution, LayerTable, counts_matrix
from dlbricks_prediction.features import NAMES


def write(contribution: Contribution, path: Path) -> None:
    """Writes a file with compressed arrays, and facts as JSON, completely or not at all."""
    kind_names = sorted(set(contribution.features.kinds))
    group_names = sorted(set(contribution.groups))
    about = {
        "format": FORMAT,
        "features": NAMES,
        "fingerprint": contribution.system.fingerprint,
        "system": contribution.system.to_dict(),
        "setup": asdict(contribution.setup),
        "provenance": asdict(contribution.provenance),
        "kernel": contribution.kernel,
        "common": contribution.common,
        "kinds": kind_names,
        "group_names": group_names,
    }
    kinds = {kind: i for i, kind in enumerate(kind_names)}
    groups = {group: i for i, group in enumerate(group_names)}
    content = BytesIO()  # a zip file that cannot be ended complains when it is collected
    np.savez_compressed(
        content,
        about=np.frombuffer(json.dumps(about).encode(), dtype=np.uint8),
        kinds=np.array([kinds[k] for k in contribution.features.kinds], dtype=np.uint16),
        numbers=contribution.features.numbers.astype(np.float32),
        counts=contribution.counts.data.astype(np.uint32),
        layers=contribution.counts.indices.astype(np.uint32),
        starts=contribution.counts.indptr.astype(np.uint32),
        log_ms=contribution.log_ms.astype(np.float32),
        noise=contribution.noise.astype(np.float32),
        call_ms=contribution.call_ms.astype(np.float32),
        signatures=np.array(contribution.signatures, dtype="S24"),
        groups=np.array([groups[g] for g in contribution.groups], dtype=np.uint16),
        pulls=contribution.pulls.astype(np.float32),
        sites=np.log2(contribution.sites).astype(np.float16),
    )
    _write_whole(path, content.getvalue())


def _write_whole(path: Path, content: bytes) -> None:
    """Writes a file, and replaces the old file once the new one is complete."""
    temporary = path.with_name(f".{path.name}.part")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def extended(contribution: Contribution, older: Contribution) -> Contribution:
    """A contribution, and networks that only another contribution of the same system has.

    The networks of the older contribution count as one session.

    Args:
        contribution: The contribution.
        older: Contribution of the same system and setup; the plugin may be of another version.
    """
    known = set(contribution.signatures)
    rest = older.only([i for i, each in enumerate(older.signatures) if each not in known])
    table = LayerTable()
    networks = [*_added(table, contribution), *_added(table, rest)]
    sessions = contribution.sessions
    if not sessions.size:
        sessions = np.zeros(len(contribution), dtype=np.intp)
    first, last = contribution.provenance, rest.provenance
    return replace(
        contribution,
        pulls=np.zeros(0),
        sites=np.zeros(0),
        kernel="",
        provenance=replace(
            first,
            begin=min(first.begin, last.begin),
            end=max(first.end, last.end),
            sessions=tuple(dict.fromkeys((*last.sessions, *first.sessions))),
            source=f"{last.source}; {first.source}",
        ),
        features=table.features,
        counts=counts_matrix(networks, len(table.kinds)),
        log_ms=np.concatenate([contribution.log_ms, rest.log_ms]),
        noise=np.concatenate([contribution.noise, rest.noise]),
        call_ms=np.concatenate([contribution.call_ms, rest.call_ms]),
        sessions=np.concatenate([sessions + 1, np.zeros(len(rest), dtype=np.intp)]),
        signatures=(*contribution.signatures, *rest.signatures),
        groups=(*contribution.groups, *rest.groups),
    )


def _added(table: LayerTable, contribution: Contribution) -> list[dict[int, int]]:
    """Adds a contribution's layers to a table. Returns how often each occurs in its networks."""
    every = range(len(contribution.features.kinds))
    places = [next(iter(table.add(contribution.features.part([i])))) for i in every]
    counts = contribution.counts
    ends = itertools.pairwise(counts.indptr)
    spans = (slice(begin, end) for begin, end in ends)
    return [
        {places[i]: int(n) for i, n in zip(counts.indices[s], counts.data[s], strict=True)}
        for s in spans
    ]
