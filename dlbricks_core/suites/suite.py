"""Records of a suite."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from dlbricks_core.bricks import Brick, CutModel, extract
from dlbricks_core.errors import DLBricksError
from dlbricks_core.facts import Failure
from dlbricks_core.ir import CanonicalModel

# Checks of a suite's files, which somebody else has written.

HINT = "Create the folder again with: dlbricks suite write MODEL -o FOLDER"


def check_file(path: Path, most_bytes: int) -> None:
    """Checks that a path is a regular file of limited size, so that reading it ends.

    Args:
        path: Path of an untrusted file.
        most_bytes: Maximum size in bytes.

    Raises:
        DLBricksError: If the file is missing, a link, a device, a pipe, or too large.
    """
    try:
        found = path.lstat()
    except OSError as error:
        raise DLBricksError(f"{path} cannot be read: {error.strerror}", hint=HINT) from error
    if stat.S_ISLNK(found.st_mode):
        raise DLBricksError(f"{path} is a link, not a file of the folder's own", hint=HINT)
    if not stat.S_ISREG(found.st_mode):
        raise DLBricksError(f"{path} is not a regular file", hint=HINT)
    if found.st_size > most_bytes:
        raise DLBricksError(
            f"{path} has {found.st_size} bytes, and at most {most_bytes} are read", hint=HINT
        )


def check_inside(folder: Path, path: Path) -> None:
    """Checks that no folder between a suite's folder and a file in it is a link.

    Raises:
        DLBricksError: If one is.
    """
    for parent in path.parents:
        if parent == folder:
            return
        if parent.is_symlink():
            raise DLBricksError(f"{parent} is a link, not a folder of the suite's own", hint=HINT)


def check_content(path: Path, sha256: str) -> None:
    """Checks that a file is unchanged.

    Raises:
        DLBricksError: If the file has another hash, or cannot be read.
    """
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DLBricksError(f"{path} cannot be read: {error.strerror}", hint=HINT) from error
    if found != sha256:
        raise DLBricksError(f"{path} was changed after it was written", hint=HINT)


def is_there(path: Path) -> bool:
    """Whether a path exists, readable or not."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        pass
    return True


@dataclass(frozen=True)
class Cut:
    """How bricks were cut, and how their figures are composed.

    Attributes:
        composer: Name of the composer.
        strategy: Name of the split strategy.
        granularity: Maximum number of layers in a brick.
    """

    composer: str
    strategy: str
    granularity: int


@dataclass(frozen=True)
class SuiteBrick:
    """A brick of a suite.

    Attributes:
        brick: The brick.
        used: Number of occurrences in each model, by the model's name; empty where the suite does
            not reveal it.
        packed: Whether the suite holds the brick itself. Otherwise the brick is part of a model in
            the suite, and the manifest lists it for information.
    """

    brick: Brick
    used: Mapping[str, int] = field(default_factory=dict)
    packed: bool = True


@dataclass(frozen=True)
class SuiteModel:
    """A model of a suite: its structure, without its weights.

    It is cut where it is timed, because only the framework there can rewrite it.

    Attributes:
        model: The structure. Its tensors have new names. Only those constants have values on which
            the work depends.
        signature: Signature of the whole model that it stands for.
    """

    model: CanonicalModel
    signature: str

    @classmethod
    def of(cls, cut: CutModel) -> Self:
        """Structure of a model, which reveals no values of weights, including quantized ones.

        The name of a model in a collection is kept; the path of a file is not.
        """
        model = cut.model
        every = range(len(model.layers))
        collection, colon, _ = model.source.partition(":")
        source = model.source if colon and "/" not in collection else ""
        exact = extract(model, every, model.name, exact=True)
        kept = extract(model, every, model.name).constants.keys()
        constants = {
            name: value
            for name, value in exact.constants.items()
            # Small weights of quantized layers are integers as well, but never have 64 bits.
            if name in kept or value.size == 1 or value.dtype == "int64"
        }
        structure = replace(exact, constants=constants, source=source)
        return cls(structure, cut.whole.signature)


@dataclass(frozen=True)
class Suite:
    """Networks that are packed to be timed on another machine.

    Attributes:
        cut: How bricks were cut, and are composed.
        models: Models, which are cut where they are timed; empty for a suite of bricks.
        bricks: Bricks.
        omitted: Bricks that cannot run alone, or could not be written.
        unread: Models and bricks of the folder that could not be read.
        seed: Seed of the weights in the files of bricks; ``None`` for files without weights.
    """

    cut: Cut
    models: Sequence[SuiteModel] = ()
    bricks: Sequence[SuiteBrick] = ()
    omitted: Sequence[Failure] = ()
    unread: Sequence[Failure] = ()
    seed: int | None = None

    @classmethod
    def of_models(cls, cut: Cut, models: Iterable[CutModel], bricks: Iterable[Brick]) -> Self:
        """Suite of whole structures, with a list of their bricks."""
        models = list(models)
        return cls(
            cut,
            tuple(map(SuiteModel.of, models)),
            tuple(
                SuiteBrick(
                    each,
                    {m.model.name: m.counts[each.signature] for m in models
                     if each.signature in m.counts},
                    packed=False,
                )
                for each in bricks
            ),
        )  # fmt: skip


# The readme of a suite, for its recipient.

README = "README.txt"

_TEXT = Path(__file__).parent / "readme.txt"

_STRUCTURES = "It reveals how models are built, but none of their weights."
_BRICKS = "It reveals parts of models, but none of their weights."


def readme(suite: Suite) -> str:
    """Text of the readme of a suite."""
    holds = _STRUCTURES if suite.models else _BRICKS
    return _TEXT.read_text(encoding="utf-8").format(holds=holds)
