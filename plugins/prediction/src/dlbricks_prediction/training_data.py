"""Knowledge: measurements from here and elsewhere, in the form that predictors learn from."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from zlib import crc32

import numpy as np

from dlbricks_core.bricks import Brick
from dlbricks_core.bricks.signature import native_to
from dlbricks_core.facts import LATENCY, NetworkFeatures, Question, Sampled, System
from dlbricks_core.figures.protocols import FEWEST_QUIET, PROTOCOLS
from dlbricks_core.figures.statistics import FloatArray, faster_half
from dlbricks_core.store import ResultStore
from dlbricks_core.version import __version__
from dlbricks_prediction import Contribution, Provenance, shipped
from dlbricks_prediction.atlas import SURVEYED, LayerTable, counts_matrix
from dlbricks_prediction.features import NAMES, Features, joined

_REVISION = 5
"""Revision of the features; it rises whenever the same names stand for other numbers, or networks
get other kinds.
"""

FEATURES = f"{_REVISION}:{crc32(','.join(NAMES).encode()):08x}"
"""Version of the features that this DLBricks computes."""

_PROTOCOL = next(iter(PROTOCOLS.values()))
"""Protocol whose samples count; other protocols leave the caches in another state."""

_SINGLE_NOISE = 0.02**2
"""Variance of the logarithm of a latency with too few samples to show their scatter."""

_Key = tuple[str, str, str, str, int]
"""Properties that the networks of a contribution share: the system, and the setup except for the
plugin.
"""


def training_data(store: ResultStore, backend: str | None = None) -> list[Contribution]:
    """All contributions that predictors can learn from: the store's, and those of the package.

    Measurements in both count once: a contribution of the package may come from this very store.

    Args:
        store: Store of the measurements.
        backend: Name of the backend; ``None`` for every one.
    """
    elsewhere = shipped(backend)
    sessions = frozenset(session for each in elsewhere for session in each.provenance.sessions)
    return [*contributions(store, backend, sessions), *elsewhere]


def contributions(
    store: ResultStore, backend: str | None = None, without: frozenset[str] = frozenset()
) -> list[Contribution]:
    """Contributions of a store: one for each system and setup, without the plugin's version.

    Networks without features are left out. They were measured by a DLBricks with other features, or
    they are graphs written by a backend, in which layers differ from those elsewhere. Networks with
    disturbed measurements alone are left out, too.
    Where a network was measured with several versions of the plugin, the last one counts.

    Args:
        store: Store of the measurements.
        backend: Name of the backend; ``None`` for every one.
        without: Sessions whose networks are left out.
    """
    systems = {name: System.from_dict(name, each) for name, each in store.systems().items()}
    networks = usable_networks(store)
    latest: defaultdict[_Key, dict[str, Sampled]] = defaultdict(dict)
    for sampled in store.sampled(LATENCY, backend):
        subject, setup = sampled.question.subject, sampled.question.setup
        known = subject.signature in networks and sampled.question.system in systems
        counts = subject.kind != "native" and setup.protocol == _PROTOCOL.identity
        if not known or not counts or all(sampled.disturbed):
            continue
        if without.isdisjoint(sampled.sessions):
            networks_there = latest[_key(sampled.question)]
            # Merging stores appends older measurements after newer ones.
            before = networks_there.get(subject.signature, sampled)
            networks_there[subject.signature] = max(sampled, before, key=lambda each: each.end)
    return [
        _contribution(systems[key[0]], [*each.values()], networks) for key, each in latest.items()
    ]


def usable_networks(store: ResultStore) -> dict[str, NetworkFeatures]:
    """Features of this version by signature; damaged features are left out, with a warning.

    Args:
        store: Store of the measurements.
    """
    every = store.networks(FEATURES)
    found = {signature: each for signature, each in every.items() if is_usable(each)}
    if odd := every.keys() - found.keys():
        named = f"{len(odd)} damaged, such as {min(odd):.60}"
        warnings.warn(f"{store.place}: features of networks are left out: {named}", stacklevel=2)
    return found


def is_usable(network: NetworkFeatures) -> bool:
    """Whether features are of this version, with a number for each feature of each layer."""
    size = 4 * len(NAMES) * len(network.kinds)
    return network.version == FEATURES and len(network.numbers) == size


def whole_models(store: ResultStore, backend: str | None = None) -> frozenset[str]:
    """Signatures of whole models that were timed as the backend lowers them.

    Args:
        store: Store of the measurements.
        backend: Name of the backend; ``None`` for every one.
    """
    subjects = (each.question.subject for each in store.sampled(LATENCY, backend))
    return frozenset(each.signature for each in subjects if each.kind == "model")


def remember(
    store: ResultStore, bricks: Mapping[str, Brick], groups: Mapping[str, Collection[str]]
) -> None:
    """Stores features and groups of measured networks.

    Args:
        store: The store, which is written only if something is new.
        bricks: The networks by signature.
        groups: Groups of each network by signature; a missing network has none.
    """
    known = store.networks(FEATURES, bricks)
    new = []
    for signature, brick in bricks.items():
        own, before = frozenset(groups.get(signature, ())), known.get(signature)
        if before is None and not (brick.opaque or native_to(brick.model)):
            new.append(described(brick, own))
        elif before is not None and not own <= before.groups:
            new.append(replace(before, groups=own))
    if new:
        store.keep_networks(new)


def described(brick: Brick, groups: Iterable[str] = ()) -> NetworkFeatures:
    """The stored form of a network: features of its layers, and of its ends."""
    features = joined([Features.of(brick.model), Features.of_ends(brick.model)])
    numbers = features.numbers.astype("<f4").tobytes()
    return NetworkFeatures(brick.signature, FEATURES, features.kinds, numbers, frozenset(groups))


def features_of(network: NetworkFeatures) -> Features:
    """Reverses :func:`described`."""
    numbers = np.frombuffer(network.numbers, dtype="<f4").astype(np.float64)
    return Features(network.kinds, numbers.reshape(len(network.kinds), len(NAMES)))


def drawn_family(group: str) -> str:
    """Family that a network was drawn from; empty for one that was not drawn."""
    drawn = (name for name in group.split(",") if name.startswith(SURVEYED))
    return next(drawn, "").removeprefix(SURVEYED)


def _key(question: Question) -> _Key:
    setup = question.setup
    return question.system, setup.backend, setup.version, setup.options, setup.threads


def _contribution(
    system: System, sampled: Sequence[Sampled], networks: Mapping[str, NetworkFeatures]
) -> Contribution:
    """Measurements under one setup, possibly with several versions of the plugin."""
    signatures = tuple(each.question.subject.signature for each in sampled)
    table = LayerTable()
    layers = [table.add(features_of(networks[signature])) for signature in signatures]
    found = _Latencies.of(sampled)
    sessions = dict.fromkeys(session for each in sampled for session in each.sessions)
    number = {session: i for i, session in enumerate(sessions)}
    groups = tuple(",".join(sorted(networks[s].groups)) for s in signatures)
    drawn = sum(SURVEYED in group for group in groups)
    return Contribution(
        system=system,
        setup=sampled[-1].question.setup,
        provenance=Provenance(
            __version__,
            min(each.begin for each in sampled),
            max(each.end for each in sampled),
            tuple(sessions),
            f"{drawn} networks that a survey drew, {len(groups) - drawn} others",
        ),
        features=table.features,
        counts=counts_matrix(layers, len(table.kinds)),
        log_ms=np.log(found.ms),
        noise=found.noise,
        call_ms=found.call_ms,
        # Later samples than those of the first session are few.
        sessions=np.array([number[each.sessions[0]] for each in sampled], dtype=np.intp),
        signatures=signatures,
        groups=groups,
    )


@dataclass
class _Latencies:
    """Latencies of networks, each an array of shape (networks,).

    Attributes:
        ms: The protocol's statistic of the samples, in milliseconds.
        noise: Variance of its logarithm due to the scatter of the samples.
        call_ms: Cost of a call of the timer, a lower bound of each latency.
    """

    ms: FloatArray
    noise: FloatArray
    call_ms: FloatArray = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def of(cls, sampled: Sequence[Sampled]) -> _Latencies:
        """Latencies of undisturbed samples."""
        used = [quiet_values(each) for each in sampled]
        ms, noise = _statistics([values for values, _ in used])
        call_ms, _ = _statistics([overheads or [0.0] for _, overheads in used])
        return cls(ms, noise, np.minimum(call_ms, ms))


def quiet_values(sampled: Sampled) -> tuple[list[float], list[float]]:
    """Values and overheads of undisturbed observations, or of all if all are disturbed."""
    every = list(zip(sampled.values, sampled.overheads, sampled.disturbed, strict=True))
    taken = [each for each in every if not each[2]] or every
    values = [value for values, _, _ in taken for value in values]
    return values, [overhead for _, overhead, _ in taken if overhead is not None]


def _statistics(samples: Sequence[Sequence[float]]) -> tuple[FloatArray, FloatArray]:
    """Mean of the faster half of each network's samples, and the variance of its logarithm.

    The influence of a sample on that mean is twice its distance below the median, and 0 above it
    (see :data:`~dlbricks_core.figures.statistics.FASTER_HALF_VARIANCE`). So slow outliers add
    nothing.
    """
    means, noise = np.zeros(len(samples)), np.full(len(samples), _SINGLE_NOISE)
    lengths = np.array([len(each) for each in samples])
    for length in np.unique(lengths):
        chosen = np.flatnonzero(lengths == length)
        values = np.array([samples[i] for i in chosen])
        means[chosen] = faster_half(values)
        if length >= FEWEST_QUIET:
            below = np.minimum(values, np.median(values, axis=1, keepdims=True))
            spread = 4 * below.var(axis=1, ddof=1) / length
            noise[chosen] = spread / np.maximum(means[chosen], 1e-9) ** 2
    return means, noise
