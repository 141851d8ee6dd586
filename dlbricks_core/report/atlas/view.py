"""Cells that the site's pages share, so that equal things have equal names and links."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from dlbricks_core.facts import LATENCY, Subject
from dlbricks_core.report.atlas import words
from dlbricks_core.report.atlas.axis import Mark
from dlbricks_core.report.heading import count
from dlbricks_core.report.html.tables import Cell
from dlbricks_core.report.html.templating import between
from dlbricks_core.workflows.atlas import Atlas, Entry, Failed, Home, Place


@dataclass(frozen=True)
class View:
    """An atlas with the names that its pages show.

    Attributes:
        atlas: The atlas.
    """

    atlas: Atlas

    @cached_property
    def backends(self) -> dict[Place, str]:
        """Distinguishing name of each place's backend."""
        places = self.atlas.places
        return {place: words.backend_name(place, places) for place in places}

    @cached_property
    def systems(self) -> dict[Home, str]:
        """Name of each machine's system."""
        systems = self.atlas.systems
        return {home: words.system_name(systems[home[0]], home[1]) for home in self.atlas.machines}

    @cached_property
    def models(self) -> dict[str, str]:
        """Name of each model, by signature."""
        networks = self.atlas.networks
        return {each: words.model_name(each, networks[each]) for each in self.atlas.models}

    @cached_property
    def by_model(self) -> dict[str, list[Entry]]:
        """Values of each whole model, by signature; latencies first, the lowest first."""
        found: defaultdict[str, list[Entry]] = defaultdict(list)
        for each in self.atlas.entries:
            if each.subject.is_whole:
                found[each.subject.signature].append(each)
        return {signature: sorted(own, key=_order) for signature, own in found.items()}

    @cached_property
    def by_place(self) -> dict[Place, list[Entry]]:
        """Values at each place."""
        found: defaultdict[Place, list[Entry]] = defaultdict(list)
        for each in self.atlas.entries:
            found[each.place].append(each)
        return found

    @cached_property
    def failures(self) -> dict[Place, list[Failed]]:
        """Measurements that failed, by place."""
        found: defaultdict[Place, list[Failed]] = defaultdict(list)
        for each in self.atlas.failed:
            found[each.place].append(each)
        return found

    def fastest(self, entries: Iterable[Entry]) -> Entry | None:
        """The entry with the lowest latency of a whole model; ``None`` where there is none."""
        latencies = [e for e in entries if e.quantity == LATENCY and e.subject.is_whole]
        return min(latencies, key=lambda each: each.value, default=None)

    def where(self, place: Place) -> str:
        """A place in words: system, backend and threads."""
        return f"{self.systems[place.home]} · {self.how(place)}"

    def how(self, place: Place) -> str:
        """Backend and threads of a place in words."""
        threads = count(place.threads, "thread").replace(" ", "\u00a0")
        return f"{self.backends[place]} · {threads}"

    def mark(self, label: str, entry: Entry) -> Mark:
        """An entry as a dot of a plot."""
        return Mark(label, entry.value, entry.interval, words.number(entry), entry.origin)

    def name(self, subject: Subject) -> str:
        """Name of a model or brick."""
        known = self.atlas.networks[subject.signature]
        return words.network_name(subject, known)

    def network(self, entry: Entry, root: str) -> Cell:
        """The network of an entry; a model leads to its page."""
        if entry.subject.is_whole:
            return self.model(entry.subject.signature, root)
        return Cell(self.name(entry.subject))

    def model(self, signature: str, root: str) -> Cell:
        """A model with a link to its page."""
        return Cell(self.models[signature], link=f"{root}models/{words.page_name(signature)}")

    def system(self, home: Home, root: str) -> Cell:
        """A machine's system with a link to its page."""
        link = f"{root}systems/{words.page_of(self.atlas.machines[home])}"
        return Cell(self.systems[home], "whole", link=link)


def value(entry: Entry) -> Cell:
    """The value of an entry."""
    return Cell(words.number(entry), "" if entry.evidence else "guess", key=entry.value)


def ends(entry: Entry) -> Cell:
    """The interval of an entry, sorted by its width relative to the value."""
    low, high = entry.interval
    return Cell(between(entry.interval), key=(high - low) / entry.value if entry.value else 0.0)


def day(moment: str) -> Cell:
    """Day of a time in ISO 8601; a dash where there is none."""
    return Cell(moment[:10] or "–", "whole", key=moment)


def span(entries: Sequence[Entry]) -> tuple[Cell, Cell]:
    """Days of the first and the last observation of some entries."""
    taken = [each.evidence for each in entries if each.evidence]
    first, last = min((e.begin for e in taken), default=""), max((e.end for e in taken), default="")
    return day(first), day(last)


def _order(entry: Entry) -> tuple[bool, str, float]:
    return entry.quantity != LATENCY, entry.quantity.name, entry.value
