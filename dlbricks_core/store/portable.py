"""Measurements as a JSON file, to carry them to another machine or store."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from dlbricks_core.errors import StoreError
from dlbricks_core.facts import LATENCY, Measurement, Observation, Quantity, Session, Setup
from dlbricks_core.facts.checks import checked
from dlbricks_core.store.rows import columns_of, question_of
from dlbricks_core.store.store import ResultStore

VERSION = 2
"""Version of the files that are written."""


def export_measurements(store: ResultStore, path: Path) -> int:
    """Writes all measurements of a store, with their quantities, sessions and systems.

    Graphs that backends made of models go along. Calibrations stay behind.

    Returns:
        Number of measurements.

    Raises:
        StoreError: If the file cannot be written.
    """
    measurements = list(store.measurements())
    quantities = {each.question.quantity for each in measurements}
    content = {
        "measurements_version": VERSION,
        "systems": store.systems(),
        "quantities": [each.to_dict() for each in sorted(quantities)],
        "sessions": [each.to_dict() for each in store.sessions()],
        "measurements": [_to_dict(each) for each in measurements],
        "rewrites": [
            {
                "signature": signature,
                **asdict(setup),
                "system": system,
                "graph": base64.b64encode(graph).decode(),
            }
            for signature, setup, system, graph in store.rewritten()
        ],
    }
    try:
        path.write_text(json.dumps(content, indent=1) + "\n")
    except OSError as error:
        raise StoreError(
            f"{path}: {error.strerror}", "choose a file that can be written"
        ) from error
    return len(measurements)


def import_measurements(store: ResultStore, path: Path) -> int:
    """Adds the measurements of a file that :func:`export_measurements` wrote.

    What the store has already is not added again.

    Returns:
        Number of observations that were new.

    Raises:
        StoreError: If the file cannot be read or does not hold measurements; the store
            is left as it was.
    """
    if path.exists() and not path.is_file():
        raise StoreError(f"{path} is no regular file", "give a file that DLBricks exported")
    try:
        content = json.loads(path.read_bytes())
        version = content["measurements_version"]
        if version not in _UPGRADES:
            raise StoreError(
                f"{path}: measurements of version {version}, this DLBricks reads up to {VERSION}",
                "use the same version of DLBricks on both machines",
            )
        content = _UPGRADES[version](content)
        systems = {str(name): dict(facts) for name, facts in content["systems"].items()}
        quantities = {each.name: each for each in map(Quantity.from_dict, content["quantities"])}
        sessions = [Session.from_dict(data) for data in content["sessions"]]
        measurements = [_from_dict(data, quantities) for data in content["measurements"]]
        graphs = [_graph(data) for data in content.get("rewrites", ())]
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}", "check the path") from error
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise StoreError(
            f"{path} does not hold exported measurements", "give a file that DLBricks exported"
        ) from error
    added = store.merge(measurements, systems, sessions)
    for signature, setup, system, graph in graphs:
        store.keep_rewrite(signature, setup, system, graph)
    return added


def _graph(data: Mapping[str, Any]) -> tuple[str, Setup, str, bytes]:
    setup = Setup(**{each.name: data[each.name] for each in fields(Setup)})
    graph = base64.b64decode(checked(data["graph"], str, "graph"), validate=True)
    return checked(data["signature"], str), setup, checked(data["system"], str), graph


def _to_dict(measurement: Measurement) -> dict[str, Any]:
    return {
        "key": columns_of(measurement.question),
        "layers": list(measurement.layers),
        "failure": measurement.failure,
        "observations": [each.to_dict() for each in measurement.observations],
    }


def _from_dict(data: Mapping[str, Any], quantities: Mapping[str, Quantity]) -> Measurement:
    key = {
        name: checked(value, int if name == "threads" else str, name)
        for name, value in data["key"].items()
    }
    return Measurement(
        question=question_of(key, quantities),
        layers=tuple(checked(name, str) for name in checked(data["layers"], list)),
        observations=tuple(map(Observation.from_dict, data["observations"])),
        failure=None if data["failure"] is None else checked(data["failure"], str, "failure"),
    )


def _from_version_1(content: Mapping[str, Any]) -> dict[str, Any]:
    """Content of a file of version 1 in the form of version 2.

    When version 1 was written, DLBricks measured latency only, all plugins had version 0.1.0, and
    sessions were not recorded.
    """
    measurements = []
    for each in content["measurements"]:
        key = _renamed(each["key"], {"backend_version": "version", "settings": "options"})
        key |= {"quantity": LATENCY.name, "plugin": "0.1.0"}
        names = {"samples_ms": "values", "call_ms": "overhead", "warnings": "flags"}
        taken = [_renamed(sample_set, names) for sample_set in each["samples"]]
        measurements.append({**each, "key": key, "observations": taken})
    quantities = [LATENCY.to_dict()]
    return {**content, "quantities": quantities, "sessions": [], "measurements": measurements}


def _renamed(data: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in data.items()}


_UPGRADES: dict[Any, Callable[[Any], Any]] = {1: _from_version_1, VERSION: dict}
"""Function that brings a file's content into the newest form, by the version of the file."""
