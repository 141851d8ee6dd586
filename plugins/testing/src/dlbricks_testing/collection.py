"""Tests that every collection of named models must pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

import pytest

from dlbricks_core.errors import ModelError
from dlbricks_core.importers import NO_OPTIONS, ImportOptions, ModelCollection
from dlbricks_core.ir import CanonicalModel, RawModel
from dlbricks_core.passes import normalize
from dlbricks_core.worker import WorkerProcess
from dlbricks_testing.suite import ConformanceSuite, fresh

_TIMEOUT_S = 300.0
"""Maximum seconds of an import."""

_DESCRIBE = """
import dataclasses, json, sys
from dlbricks_core.plugins import load_object
target, *modules = sys.argv[1:]
collection = load_object(target)()
notes = {name: collection.describe(name) for name in collection.names()}
print(json.dumps({
    "names": list(collection.names()),
    "notes": {name: dataclasses.asdict(each) for name, each in notes.items() if each},
    "imported": [m for m in modules if m in sys.modules],
}))
"""


class CollectionConformance(ConformanceSuite):
    """Tests that every collection of models must pass; subclass it and name the collection.

    Attributes:
        plugin: The :class:`~dlbricks_core.importers.ModelCollection` class. Required.
        framework_modules: As for :class:`ConformanceSuite`. Required.
        sample: Name of a model that is quick to load. Required.
        options: Sizes of that model's dynamic dimensions, if it has any.
        dims: Sizes of those that go by a name.
    """

    kind: ClassVar[str] = "models"
    required: ClassVar[tuple[str, ...]] = ("plugin", "framework_modules", "sample")

    plugin: ClassVar[type[ModelCollection]]
    sample: ClassVar[str]
    options: ClassVar[ImportOptions] = NO_OPTIONS
    dims: ClassVar[Mapping[str, int]] = {}

    @pytest.fixture(scope="class")
    @classmethod
    def worker(cls) -> Iterator[WorkerProcess]:
        """A worker process such as models are loaded in."""
        with WorkerProcess("dlbricks_core.importers.host:ImportHost") as process:
            yield process

    def build(self, worker: WorkerProcess, name: str) -> RawModel:
        """A model of the collection, loaded in the worker."""
        model: RawModel = worker.call("raw", self.target(), name, self.options, timeout=_TIMEOUT_S)
        return model

    @pytest.fixture(scope="class")
    @classmethod
    def raw(cls, worker: WorkerProcess) -> RawModel:
        """The sample, loaded once."""
        return cls().build(worker, cls.sample)

    @pytest.fixture(scope="class")
    @classmethod
    def normalized(cls, raw: RawModel) -> CanonicalModel:
        """The sample in canonical form."""
        return normalize(raw, batch=cls.options.batch, dims=cls.dims)

    def test_names_need_no_framework(self) -> None:
        """Names, and notes on the models, are listed without importing the framework.

        Every name is listed once and can be typed. A collection whose names are the user's own has
        no list, but a pattern that shows what to type.
        """
        found = fresh(_DESCRIBE, self.target(), *self.framework_modules)
        assert found["imported"] == []
        names = found["names"]
        if self.plugin.pattern:
            assert not names
            return
        assert names
        assert len(set(names)) == len(names)
        assert all(name and not set(name) & set(" \n\t:") for name in names)
        assert self.sample in names
        for notes in found["notes"].values():
            assert notes["title"]
            sizes = [size for shape in notes["inputs"].values() for size in shape]
            assert all(isinstance(size, int) and size > 0 for size in sizes)

    def test_the_sample_becomes_canonical(self, normalized: CanonicalModel) -> None:
        """All layers of the sample get static shapes."""
        assert len(normalized.layers) > 1
        assert not [layer.opaque for layer in normalized.layers if layer.opaque]
        assert all(spec.is_static for spec in normalized.tensors.values())

    def test_the_inputs_are_those_that_it_tells(self, normalized: CanonicalModel) -> None:
        """Inputs have the names and shapes in the collection's notes, if any."""
        notes = self.plugin().describe(self.sample)
        if notes is None or not notes.inputs:
            pytest.skip("the collection has no notes on the sample's inputs")
        found = {name: normalized.tensors[name].sizes[1:] for name in normalized.inputs}
        assert found == dict(notes.inputs)

    def test_the_model_says_where_it_came_from(self, raw: RawModel) -> None:
        """The model has a name, and its source is what users type."""
        assert raw.source == f"{self.plugin.name}:{self.sample}"
        assert raw.name

    def test_an_unknown_name_is_refused(self, worker: WorkerProcess) -> None:
        """An unknown name gives an error with that name and a hint."""
        with pytest.raises(ModelError, match="no-such-model") as caught:
            self.build(worker, "no-such-model")
        assert caught.value.hint
