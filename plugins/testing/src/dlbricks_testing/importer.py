"""Tests that every importer must pass."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pytest

from dlbricks_core.bricks import signature
from dlbricks_core.errors import ModelError
from dlbricks_core.importers import NO_OPTIONS, Importer, ImportOptions, ModelCollection
from dlbricks_core.ir import CanonicalModel, RawModel
from dlbricks_core.ir.limits import MAX_CONSTANT_ELEMENTS
from dlbricks_core.passes import normalize
from dlbricks_core.values import materialize
from dlbricks_core.worker import WorkerProcess
from dlbricks_testing.suite import ConformanceSuite, fresh

_TIMEOUT_S = 300.0
"""Maximum seconds of a call."""

_DESCRIBE = """
import json, sys
from dlbricks_core.plugins import load_object
target, spec, *modules = sys.argv[1:]
plugin = load_object(target)()
handled = [plugin.handles(spec), plugin.handles("model.no-such-suffix"), plugin.handles("")]
print(json.dumps({"handled": handled, "imported": [m for m in modules if m in sys.modules]}))
"""

_NOTES = """
import json, sys
from pathlib import Path
from dlbricks_core.errors import ModelError
from dlbricks_core.importers import FileNotes
from dlbricks_core.plugins import load_object
target, paths, *modules = sys.argv[1:]
importer, told = load_object(target)(), {}
for path in json.loads(paths):
    told[path] = {"refused": None, "notes": None}
    try:
        notes = importer.describe(Path(path))
    except ModelError as error:
        told[path]["refused"] = [error.message, error.hint]
    else:
        assert isinstance(notes, FileNotes), f"describe gave {notes!r}"
        told[path]["notes"] = vars(notes)
print(json.dumps({"told": told, "imported": [m for m in modules if m in sys.modules]}))
"""

_BROKEN = ("missing", "folder", "empty", "truncated", "noise")
"""Kinds of files that cannot be described."""


class Original(NamedTuple):
    """A model in a folder.

    Attributes:
        folder: Folder with the model and all files that belong to it.
        name: Path of the model within the folder.
    """

    folder: Path
    name: Path

    def copy(self, folder: Path) -> Path:
        """Path of the model in another folder, into which all files are copied."""
        shutil.copytree(self.folder, folder, dirs_exist_ok=True)
        return folder / self.name


class ImporterConformance(ConformanceSuite):
    """Tests that every importer must pass; subclass it, name the importer, and write a sample.

    Attributes:
        plugin: The :class:`~dlbricks_core.importers.Importer` class. Required.
        framework_modules: As for :class:`ConformanceSuite`. Required.
        options: Sizes of the sample's dynamic dimensions, if it has any.

    Example:
        >>> class TestMine(ImporterConformance):
        ...     plugin = MyImporter
        ...     framework_modules = ("myframework",)
        ...     def sample(self, folder):
        ...         return save_a_small_model(folder / "model.mine")
    """

    kind: ClassVar[str] = "importer"
    required: ClassVar[tuple[str, ...]] = ("plugin", "framework_modules")

    plugin: ClassVar[type[Importer]]
    options: ClassVar[ImportOptions] = NO_OPTIONS

    def sample(self, folder: Path) -> Path:
        """Writes a small model of several layers into an empty folder and returns its path."""
        raise NotImplementedError(f"{type(self).__name__} does not define a sample file")

    @pytest.fixture(scope="class")
    @classmethod
    def worker(cls) -> Iterator[WorkerProcess]:
        """A worker process such as models are loaded in."""
        with WorkerProcess("dlbricks_core.importers.host:ImportHost") as process:
            yield process

    @pytest.fixture(scope="class")
    @classmethod
    def original(cls, tmp_path_factory: pytest.TempPathFactory) -> Original:
        """The sample, which is made once."""
        folder = tmp_path_factory.mktemp("sample")
        path = cls().sample(folder)
        assert path.is_relative_to(folder), "sample() must write into the folder that it is given"
        return Original(folder, path.relative_to(folder))

    @pytest.fixture
    def path(self, original: Original, tmp_path: Path) -> Path:
        """Path of a copy of the sample, which the test may change."""
        return original.copy(tmp_path)

    @pytest.fixture(scope="class")
    @classmethod
    def described(
        cls, original: Original, tmp_path_factory: pytest.TempPathFactory
    ) -> Mapping[str, Mapping[str, Any]]:
        """Metadata in the sample and in broken files, or the reason why a file was refused.

        One process, which has not imported the framework, reads all of them.
        """
        paths = {kind: original.copy(tmp_path_factory.mktemp("read")) for kind in _BROKEN}
        content = paths["missing"].read_bytes()
        for kind, path in paths.items():
            paths[kind] = path.with_name(f"broken{cls.plugin.suffixes[0]}")
            _write_broken(paths[kind], kind, content)
        paths["sample"] = original.copy(tmp_path_factory.mktemp("read"))
        asked = json.dumps([str(path) for path in paths.values()])
        found = fresh(_NOTES, cls.target(), asked, *cls.framework_modules)
        assert found["imported"] == [], "describe must not import the framework"
        assert paths["sample"].read_bytes() == content, "describe must not change the file"
        return {kind: found["told"][str(path)] for kind, path in paths.items()}

    def read(self, worker: WorkerProcess, path: Path) -> RawModel:
        """The model in a file, read in the worker."""
        model: RawModel = worker.call("raw", self.target(), path, self.options, timeout=_TIMEOUT_S)
        return model

    @pytest.fixture(scope="class")
    @classmethod
    def raw(cls, worker: WorkerProcess, original: Original) -> RawModel:
        """The sample, read once."""
        return cls().read(worker, original.folder / original.name)

    def assert_refused(self, worker: WorkerProcess, path: Path) -> None:
        """Tests that reading a file raises a ModelError with the file's name and a hint."""
        with pytest.raises(ModelError) as caught:
            self.read(worker, path)
        assert path.name in caught.value.message, caught.value.message
        assert "\n" not in caught.value.message
        assert caught.value.hint

    def test_suffixes_are_well_formed(self) -> None:
        """Suffixes are a tuple of texts with a dot."""
        assert isinstance(self.plugin.suffixes, tuple), (
            "suffixes must be a tuple: a text would be read letter by letter"
        )
        assert self.plugin.suffixes
        assert all(isinstance(s, str) and "." in s for s in self.plugin.suffixes)

    def test_files_are_recognized_by_name_without_the_framework(self) -> None:
        """A file is recognized by its name; it need not exist."""
        spec = f"no-such-file{self.plugin.suffixes[0]}"
        found = fresh(_DESCRIBE, self.target(), spec, *self.framework_modules)
        assert found == {"handled": [True, False, False], "imported": []}

    def test_the_sample_is_handled(self, path: Path) -> None:
        """The importer handles the sample."""
        assert self.plugin().handles(str(path))

    def test_the_sample_becomes_canonical(self, raw: RawModel) -> None:
        """All layers of the sample get static shapes, and values can be drawn for it."""
        model = normalize(raw, batch=self.options.batch)
        assert len(model.layers) > 1, "the sample must have several layers"
        assert model.inputs
        assert model.outputs
        assert not [layer.opaque for layer in model.layers if layer.opaque]
        assert all(spec.is_static for spec in model.tensors.values())
        network = materialize(model)
        assert set(network.weights) == model.weights

    def test_the_sample_is_described_without_the_framework(
        self, described: Mapping[str, Mapping[str, Any]]
    ) -> None:
        """A file's notes are texts, and the file stays as it was."""
        found = described["sample"]
        assert found["refused"] is None
        assert all(isinstance(note, str) for note in found["notes"].values()), found["notes"]

    @pytest.mark.parametrize("kind", _BROKEN)
    def test_a_broken_file_has_no_notes_or_is_refused(
        self, described: Mapping[str, Mapping[str, Any]], kind: str
    ) -> None:
        """A file that cannot be described gives no notes or an error for users, never a crash."""
        found = described[kind]
        if found["refused"] is None:
            assert not any(found["notes"].values()), "notes of a file that is not a model"
        else:
            message, hint = found["refused"]
            assert f"broken{self.plugin.suffixes[0]}" in message
            assert "\n" not in message
            assert hint

    def test_the_model_says_where_it_came_from(self, raw: RawModel, path: Path) -> None:
        """The model has a name, and its source has the file's name."""
        assert raw.name
        assert path.name in raw.source

    def test_large_weights_stay_in_the_file(self, raw: RawModel) -> None:
        """Only small constants have values in the model."""
        assert raw.weights, "the sample must have weights"
        assert all(value.size <= MAX_CONSTANT_ELEMENTS for value in raw.constants.values())

    def test_reading_twice_gives_the_same_layers(
        self, raw: RawModel, worker: WorkerProcess, path: Path
    ) -> None:
        """Layers have the same signatures each time: measurements are stored under these."""
        both = raw, self.read(worker, path)
        first, again = (normalize(each, batch=self.options.batch) for each in both)
        assert _signatures(first) == _signatures(again)

    def test_a_missing_file_is_refused(self, worker: WorkerProcess, path: Path) -> None:
        """A path without a file gives an error for users."""
        self.assert_refused(worker, path.with_name(f"missing{self.plugin.suffixes[0]}"))

    def test_a_folder_is_refused(self, worker: WorkerProcess, path: Path) -> None:
        """A folder with a suffix gives an error for users."""
        folder = path.with_name(f"folder{self.plugin.suffixes[0]}")
        folder.mkdir()
        self.assert_refused(worker, folder)

    @pytest.mark.parametrize("share", [0.0, 0.5, 0.9])
    def test_a_truncated_file_is_refused(
        self, worker: WorkerProcess, path: Path, share: float
    ) -> None:
        """The beginning of a file gives an error for users."""
        content = path.read_bytes()
        path.write_bytes(content[: int(share * len(content))])
        self.assert_refused(worker, path)

    def test_noise_is_refused(self, worker: WorkerProcess, path: Path) -> None:
        """Bytes that are no model give an error for users."""
        path.write_bytes(json.dumps("not a model").encode() + bytes(range(256)))
        self.assert_refused(worker, path)


def _write_broken(path: Path, kind: str, whole: bytes) -> None:
    """Writes a file that is no model, makes a folder, or neither for a missing file."""
    content = {
        "empty": b"",
        "truncated": whole[: len(whole) // 2],
        "noise": json.dumps("not a model").encode() + bytes(range(256)),
    }
    if kind in content:
        path.write_bytes(content[kind])
    elif kind == "folder":
        path.mkdir()


def _signatures(model: CanonicalModel) -> list[Any]:
    return [signature(model, (index,)) for index in range(len(model.layers))]


# Tests that every collection of named models must pass.

_NOTES_OF_ALL = """
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
        found = fresh(_NOTES_OF_ALL, self.target(), *self.framework_modules)
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
