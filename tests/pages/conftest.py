"""Stores from which sites are made."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from dlbricks_core.facts import LATENCY, Observation, Question, Setup, Subject
from dlbricks_core.figures.protocols import PROTOCOLS
from dlbricks_core.machine.system import current_system
from dlbricks_core.store import ResultStore

SYSTEM = current_system()
PROTOCOL = next(iter(PROTOCOLS.values())).identity


@pytest.fixture
def question():
    """A question about a network, answered on this system unless told otherwise."""

    def asked(signature, kind="brick", backend="onnxruntime", threads=1, system=SYSTEM.fingerprint):
        setup = Setup(backend, "1.0", "{}", threads, PROTOCOL, "0.1.0")
        return Question(Subject(signature, kind), LATENCY, setup, system)

    return asked


@pytest.fixture
def stored(tmp_path, question):
    """Writes a store: for each network the arguments of its question, and its latency in ms."""

    def write(*networks, layers=("Conv", "Relu"), name="s.sqlite"):
        moment = datetime(2026, 3, 5, tzinfo=UTC)
        taken = []
        for ms, *about in networks:
            values = (ms, ms * 1.01, ms * 1.02)
            taken.append((question(*about), Observation("s", 0, values, taken_at=moment), layers))
        with ResultStore.open(tmp_path / name) as store:
            store.add_all(taken)
            store.remember_system(SYSTEM.fingerprint, SYSTEM.to_dict())
        return tmp_path / name

    return write
