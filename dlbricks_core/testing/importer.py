"""Tests that every importer must pass."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from dlbricks_core.bricks import signature
from dlbricks_core.errors import ModelError
from dlbricks_core.importers import NO_OPTIONS, Importer, ImportOptions
from dlbricks_core.ir import CanonicalModel, RawModel
from dlbricks_core.ir.limits import MAX_CONSTANT_ELEMENTS
from dlbricks_core.passes import normalize
from dlbricks_core.testing.suite import Suite, fresh
from dlbricks_core.values import materialize
from dlbricks_core.worker import WorkerProcess

_TIMEOUT_S = 300.0

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
target, path, *modules = sys.argv[1:]
told = {"refused": None, "notes": None}
try:
    notes = load_object(target)().describe(Path(path))
except ModelError as error:
    told["refused"] = [error.message, error.hint]
else:
    assert isinstance(notes, FileNotes), f"describe gave {notes!r}"
    told["notes"] = vars(notes)
print(json.dumps({**told, "imported": [m for m in modules if m in sys.modules]}))
"""


class ImporterConformance(Suite):
    """Tests that every importer must pass; subclass it, name the importer, and write a sample.

    Attributes:
        plugin: The :class:`~dlbricks_core.importers.Importer` class. Required.
        framework_modules: As for :class:`Suite`. Required.
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
        raise NotImplementedError(f"{type(self).__name__} does not say what a sample file is")

    @pytest.fixture(scope="class")
    @classmethod
    def worker(cls) -> Iterator[WorkerProcess]:
        """A worker process such as models are loaded in."""
        with WorkerProcess("dlbricks_core.importers.host:ImportHost") as process:
            yield process

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        """Path of the sample."""
        return self.sample(tmp_path)

    def read(self, worker: WorkerProcess, path: Path) -> RawModel:
        """The model in a file, read in the worker."""
        model: RawModel = worker.call("raw", self.target(), path, self.options, timeout=_TIMEOUT_S)
        return model

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

    def test_the_sample_becomes_canonical(self, worker: WorkerProcess, path: Path) -> None:
        """All layers of the sample get static shapes, and values can be drawn for it."""
        model = normalize(self.read(worker, path), batch=self.options.batch)
        assert len(model.layers) > 1, "the sample must have several layers"
        assert model.inputs
        assert model.outputs
        assert not [layer.opaque for layer in model.layers if layer.opaque]
        assert all(spec.is_static for spec in model.tensors.values())
        network = materialize(model)
        assert set(network.weights) == model.weights

    def described(self, path: Path) -> dict[str, Any]:
        """Metadata in a file, or the reason why it was refused, read in a process of its own."""
        found: dict[str, Any] = fresh(_NOTES, self.target(), str(path), *self.framework_modules)
        assert found["imported"] == [], "describe must not import the framework"
        return found

    def test_the_sample_is_described_without_the_framework(self, path: Path) -> None:
        """A file's notes are texts, and the file stays as it was."""
        before = path.read_bytes()
        found = self.described(path)
        assert found["refused"] is None
        assert all(isinstance(note, str) for note in found["notes"].values()), found["notes"]
        assert path.read_bytes() == before

    @pytest.mark.parametrize("kind", ["missing", "folder", "empty", "truncated", "noise"])
    def test_a_broken_file_has_no_notes_or_is_refused(self, path: Path, kind: str) -> None:
        """A file that cannot be described gives no notes or an error for users, never a crash."""
        broken = path.with_name(f"broken{self.plugin.suffixes[0]}")
        content = {
            "empty": b"",
            "truncated": path.read_bytes()[: path.stat().st_size // 2],
            "noise": json.dumps("not a model").encode() + bytes(range(256)),
        }
        if kind in content:
            broken.write_bytes(content[kind])
        elif kind == "folder":
            broken.mkdir()
        found = self.described(broken)
        if found["refused"] is None:
            assert not any(found["notes"].values()), "notes of a file that is not a model"
        else:
            message, hint = found["refused"]
            assert broken.name in message
            assert "\n" not in message
            assert hint

    def test_the_model_says_where_it_came_from(self, worker: WorkerProcess, path: Path) -> None:
        """The model has a name, and its source has the file's name."""
        model = self.read(worker, path)
        assert model.name
        assert path.name in model.source

    def test_large_weights_stay_in_the_file(self, worker: WorkerProcess, path: Path) -> None:
        """Only small constants have values in the model."""
        model = self.read(worker, path)
        assert model.weights, "the sample must have weights"
        assert all(value.size <= MAX_CONSTANT_ELEMENTS for value in model.constants.values())

    def test_reading_twice_gives_the_same_layers(self, worker: WorkerProcess, path: Path) -> None:
        """Layers have the same signatures each time: measurements are stored under these."""
        first, again = (normalize(self.read(worker, path), batch=self.options.batch) for _ in "ab")
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


def _signatures(model: CanonicalModel) -> list[Any]:
    return [signature(model, (index,)) for index in range(len(model.layers))]
