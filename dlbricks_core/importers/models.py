"""Loads models in canonical form."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from dlbricks_core import importers, wording, worker
from dlbricks_core.errors import DLBricksError, ModelError
from dlbricks_core.facts import Failure
from dlbricks_core.importers import Imported, LoadOptions
from dlbricks_core.importers.cache import ImportCache
from dlbricks_core.importers.lookup import expand, named_by
from dlbricks_core.ir import CanonicalModel, RawModel
from dlbricks_core.passes.convert import conversion
from dlbricks_core.passes.options import OpenDimension, open_dimensions
from dlbricks_core.plugins import Plugin
from dlbricks_core.progress import Observer
from dlbricks_core.wording import argument, listed, settings

LoadedT = TypeVar("LoadedT")
ResultT = TypeVar("ResultT")

_REASONS = 3
"""Maximum number of models whose reasons an error lists if no model can be loaded."""

_WORKER_BYTES = 2 << 30
"""Bytes that a worker may take; as many import at once as fit into the free memory."""

_NAMED = 3
"""Maximum number of models that a sentence names."""

_LISTED = 20
"""Maximum number of outputs that a hint names."""


@dataclass(frozen=True)
class ImportSettings:
    """How models are imported.

    Attributes:
        timeout_s: Maximum seconds to import one model; ``None`` for no limit.
        fresh: Whether to import models again that are in the cache.
    """

    timeout_s: float | None = None
    fresh: bool = False


@dataclass(frozen=True)
class LoadedModels:
    """Models that were loaded, and those that could not be.

    Attributes:
        models: Loaded models in canonical form, in the order of their names in the request.
        failures: Failure of each model that could not be loaded.
        phases: Phase of an answer that each model is for; empty for models at a single size.
    """

    models: list[CanonicalModel]
    failures: list[Failure]
    phases: Sequence[str] = ()

    def completed(self, result: ResultT) -> ResultT:
        """The result of a run on the models, with those that could not be loaded."""
        return replace(result, unread=self.failures)  # type: ignore[type-var]


class ModelLoader:
    """Loads models with importers, each in a process of its own.

    A model that was imported before comes from a cache.

    Attributes:
        imported: Number of models that an importer read, because they were not in the cache.
        fixed: Names of models that have no axis of the given batch size: their files fix another.

    Raises:
        ModelError: If the options name an element type that models cannot be converted to.

    Example:
        >>> with ModelLoader(LoadOptions(batch=1)) as loader:
        ...     models = loader.load(["resnet.onnx", "mxnet:vgg16"])
    """

    def __init__(
        self, options: LoadOptions | None = None, settings: ImportSettings | None = None
    ) -> None:
        self._options = options or LoadOptions()
        if self._options.dtype is not None:
            conversion(self._options.dtype)  # an unknown type is not the fault of a model
        self._settings = settings or ImportSettings()
        self._cache = ImportCache()
        self._workers = _Workers(self._settings.timeout_s)
        self._ahead: dict[str, Future[Any]] = {}
        self._unused = {*self._options.dims, *self._options.shapes, *self._options.values}
        self._outputs: dict[str, str] = {}
        self._some_fit = False
        self.imported = 0
        self.fixed: dict[str, None] = {}

    def load(self, sources: Iterable[str | RawModel]) -> list[CanonicalModel]:
        """Loads models.

        Args:
            sources: Paths; ``collection:name``; ``collection:`` for every model of one; or
                models that an importer returned.

        Raises:
            ModelError: If a model cannot be read or lowered, or has no layers.
            PluginError: If no plugin reads it, or the plugin that does is broken.
        """
        wanted = [
            each
            for source in sources
            for each in (expand([source]) if isinstance(source, str) else [source])
        ]
        self.import_ahead([each for each in wanted if isinstance(each, str)])
        models = [self.load_one(each) for each in wanted]
        self.check_options()
        return _with_unique_names(models)

    def import_ahead(self, specs: Sequence[str]) -> None:
        """Begins to import models that the cache lacks, several at once.

        Args:
            specs: Names of models that :meth:`load_one` will be called for.
        """
        lacking: dict[str, Callable[[], Any]] = {}
        for spec in specs:
            with suppress(DLBricksError):  # whoever loads it hears of that
                plugin, source = named_by(spec)
                key = self._cache.key(plugin.target, source, self._options)
                if self._settings.fresh or not self._cache.holds(key):
                    lacking[key] = partial(
                        self._read, key, "load", plugin, spec, source, self._options
                    )
        together = min(
            len(lacking), len(os.sched_getaffinity(0)), worker.memory_to_use() // _WORKER_BYTES
        )
        if together > 1:
            self._ahead = self._workers.begin(lacking, together)

    def load_one(
        self, source: str | RawModel, options: LoadOptions | None = None
    ) -> CanonicalModel:
        """Loads one model.

        Args:
            source: A path, ``collection:name``, or a model that an importer returned.
            options: Options for this model, where they are not those of the loader.

        Raises:
            ModelError: If it cannot be read or lowered, or has no layers.
            PluginError: If no plugin reads it, or the plugin that does is broken.
        """
        own = options or self._options
        found: Imported = (
            self._ask("load", source, own)
            if isinstance(source, str)
            else importers.canonical(source, own)
        )
        self._unused -= found.names
        self._outputs |= found.outputs
        if not found.model.layers:
            raise ModelError(
                f"{source if isinstance(source, str) else source.name}: it has no layers, as each "
                "output is an input or follows from constants",
                hint="Name a model whose outputs depend on an input, and give that input no value.",
            )
        if options is None and not _fits(found.model, own.batch):
            self.fixed[found.model.name] = None
        else:
            self._some_fit = True
        return found.model

    def dimensions(self, source: str | RawModel) -> tuple[OpenDimension, ...]:
        """Dimensions that the inputs of a model leave open; as for :meth:`load_one`."""
        if not isinstance(source, str):
            return open_dimensions(importers.with_outputs(source, self._options))
        found: tuple[OpenDimension, ...] = self._ask("dimensions", source, self._options)
        return found

    def check_options(self) -> None:
        """Checks that every given size, value and output belongs to a loaded model.

        Raises:
            ModelError: If no loaded model has an input, a dimension or an output of the name, or
                the batch size.
        """
        for name in self._options.outputs:
            if name not in self._outputs:
                known = list(dict.fromkeys(self._outputs.values()))
                raise ModelError(
                    f"no model has an output called {name!r}",
                    hint=f"Outputs here: {listed(known, _LISTED) if known else 'none'}.",
                )
        if self.fixed and not self._some_fit:
            raise ModelError(
                f"{argument('batch')} has no effect: no batch axis is open in "
                f"{listed(list(self.fixed), _NAMED)}",
                hint="Export it with an open batch axis, or leave the batch out.",
            )
        if self._unused:
            raise ModelError(
                f"no model has a dimension or input called {sorted(self._unused)[0]!r}",
                hint="Sizes go by the name of a dimension "
                f"({settings(dims={'seq': 128})}), by its place ({settings(dims={'data.2': 224})})"
                ", or by the name of an input "
                f"({settings(shapes={'data': (1, 3, 224, 224)})}), values by the name of an input "
                f"({settings(values={'rate': 16000})}). Where one model of several is meant, "
                "write MODEL:NAME.",
            )

    def _ask(self, what: str, spec: str, options: LoadOptions) -> Any:
        """Result of a method of the import host for a model, possibly from the cache."""
        plugin, source = named_by(spec)
        key = self._cache.key(plugin.target, source, options, what)
        if key in self._ahead:
            self.imported += 1
            return self._ahead.pop(key).result()
        found = None if self._settings.fresh else self._cache.get(key)
        if found is not None:
            return found
        self.imported += 1
        return self._read(key, what, plugin, spec, source, options)

    def _read(
        self,
        key: str,
        what: str,
        plugin: Plugin,
        spec: str,
        source: str | Path,
        options: LoadOptions,
    ) -> Any:
        try:
            found, files = self._workers.call(plugin, what, spec, source, options)
        except worker.WorkerError as error:
            raise ModelError(f"importing {spec}: {error}", hint=error.hint) from error
        except worker.RemoteError as error:
            raise _named(spec, plugin, error) from error
        self._cache.put(key, files, found)
        return found

    def close(self) -> None:
        """Ends the processes."""
        self._workers.close()

    def __enter__(self) -> ModelLoader:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def import_worker() -> worker.WorkerProcess:
    """A process that imports models."""
    return worker.WorkerProcess("dlbricks_core.importers.host:ImportHost")


class _Workers:
    """Processes that import models, each one model at a time; a free one is used again.

    Args:
        timeout_s: Maximum seconds to import one model; ``None`` for no limit.
    """

    def __init__(self, timeout_s: float | None) -> None:
        self._timeout_s = timeout_s
        self._free: dict[str, list[worker.WorkerProcess]] = {}
        self._busy: set[worker.WorkerProcess] = set()
        self._threads: ThreadPoolExecutor | None = None

    def begin(
        self, imports: Mapping[str, Callable[[], Any]], together: int
    ) -> dict[str, Future[Any]]:
        """Begins imports in threads; returns their future results, by the same names."""
        self._threads = ThreadPoolExecutor(together, "import")
        return {name: self._threads.submit(each) for name, each in imports.items()}

    def call(self, plugin: Plugin, what: str, *arguments: Any) -> Any:
        """Result of a method of the import host, in a process of the plugin's kind.

        Raises:
            WorkerError: If the process died or took too long.
            RemoteError: If the plugin raised an unexpected error.
            DLBricksError: The error that the plugin raised, if it was one of ours.
        """
        free = self._free.setdefault(plugin.target if plugin.loaded.isolated else "", [])
        used = free.pop() if free else import_worker()
        self._busy.add(used)
        try:
            result = used.call(what, plugin.target, *arguments, timeout=self._timeout_s)
        except worker.WorkerError:
            used.close()
            raise
        except BaseException:
            free.append(used)
            raise
        finally:
            self._busy.discard(used)
        free.append(used)
        return result

    def close(self) -> None:
        """Ends the processes, those that still import at once."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
        for busy in list(self._busy):
            busy.kill()
        if self._threads is not None:
            self._threads.shutdown()
        for free in self._free.values():
            for each in free:
                each.close()
        self._free.clear()


def _fits(model: CanonicalModel, batch: int | None) -> bool:
    """Whether an input has an axis of the batch size, as far as one was given."""
    return batch is None or any(batch in (model.tensors[name].shape or ()) for name in model.inputs)


def _named(spec: str, plugin: Plugin, error: worker.RemoteError) -> ModelError:
    """Error for an importer that raised an unexpected exception."""
    return ModelError(
        f"importing {spec}: {error.message}",
        hint=f"Report this to the authors of {plugin.distribution}; -v shows where it arose.",
    )


def load_models(
    specs: Sequence[str],
    options: LoadOptions,
    observer: Observer,
    settings: ImportSettings | None = None,
) -> LoadedModels:
    """Loads all named models. A model that cannot be loaded does not stop the others.

    Args:
        specs: Names of models as typed by the user.
        options: How models are read.
        observer: Receives a notice of each model.
        settings: How models are imported.

    Raises:
        DLBricksError: If no model can be loaded, or a size or value belongs to none of them.
    """
    with ModelLoader(options, settings) as loader:
        models, failures = load_each(
            specs, loader, loader.load_one, observer, ahead=loader.import_ahead
        )
    return LoadedModels(_with_unique_names(models), failures)


def load_each(
    specs: Sequence[str],
    loader: ModelLoader,
    load: Callable[[str], LoadedT],
    observer: Observer,
    ahead: Callable[[Sequence[str]], None] | None = None,
) -> tuple[list[LoadedT], list[Failure]]:
    """Results of a loading function for all models, and failures.

    Args:
        specs: Names of models as typed by the user.
        loader: The loader that the function uses.
        load: Function that loads one model by its name.
        observer: Receives a notice of each model.
        ahead: Function that begins to load them all.

    Raises:
        DLBricksError: If no model can be loaded, or a size or value belongs to none of them.
    """
    errors: dict[str, DLBricksError] = {}
    wanted = _expanded(specs, errors)
    found: list[LoadedT] = []
    observer.stage("Importing models", len(wanted))
    if ahead is not None:
        ahead(wanted)
    reused = 0
    for spec in wanted:
        observer.advance(spec)
        before = loader.imported
        try:
            found.append(load(spec))
        except DLBricksError as error:
            errors[spec] = error
        else:
            reused += loader.imported == before
    if reused:
        observer.note(
            f"{reused} of {wording.count(len(wanted), 'model')} reused from an earlier import."
        )
    if not found:
        raise _nothing_loaded(specs, errors)
    if not errors:  # a model that could not be loaded may have the input or the dimension
        loader.check_options()
    if loader.fixed:
        observer.note(
            f"{argument('batch')} has no effect on {listed(list(loader.fixed), _NAMED)}: no batch "
            "axis is open there."
        )
    failures = [Failure(spec, _reason(spec, error), "read") for spec, error in errors.items()]
    for failure in failures:  # hours of measuring may follow
        observer.note(f"{failure.where} is left out: {failure.reason}")
    return found, failures


def load_model(
    spec: str, options: LoadOptions, observer: Observer, settings: ImportSettings | None = None
) -> CanonicalModel:
    """Loads the single model of a name.

    Raises:
        DLBricksError: If it cannot be loaded, or the name means several models.
    """
    named = expand([spec])
    if len(named) > 1:
        raise ModelError(f"{spec} names {len(named)} models", hint="Name one of them.")
    return load_models(named, options, observer, settings).models[0]


def _expanded(specs: Iterable[str], errors: dict[str, DLBricksError]) -> list[str]:
    """Names of single models. A broken collection is added to the errors."""
    wanted: list[str] = []
    for spec in specs:
        try:
            wanted += expand([spec])
        except DLBricksError as error:
            errors[spec] = error
    return wanted


def _nothing_loaded(specs: Sequence[str], errors: Mapping[str, DLBricksError]) -> DLBricksError:
    if not errors:
        empty = f"no models in {', '.join(specs)}" if specs else "no model is named"
        return ModelError(empty, hint="See what there is: dlbricks list models")
    if len(errors) == 1:
        return next(iter(errors.values()))
    reasons = "; ".join(
        f"{spec} ({_reason(spec, error).rstrip('.')})"
        for spec, error in list(errors.items())[:_REASONS]
    )
    more = f"; and {len(errors) - _REASONS} more" if len(errors) > _REASONS else ""
    return ModelError(f"none of {len(errors)} models can be loaded: {reasons}{more}")


def _reason(spec: str, error: DLBricksError) -> str:
    """Problem with a model, for a text that already names the model."""
    message = error.message.removeprefix(f"importing {spec}: ")
    message = message.removeprefix(f"{spec}: ").removeprefix(f"{spec} ")
    return f"{message.rstrip('.')}. {error.hint}" if error.hint else message


def unique_names(models: Sequence[tuple[str, str]]) -> list[str]:
    """Names that tell models apart.

    Models that share a name are called by their sources. Those whose sources are equal too, such as
    models without a file, are numbered.

    Args:
        models: Name and source of each model; the source may be empty.

    Examples:
        >>> unique_names([("net", "a/net.onnx"), ("net", "b/net.onnx"), ("cell", "")])
        ['a/net.onnx', 'b/net.onnx', 'cell']
        >>> unique_names([("graph", ""), ("graph", "")])
        ['graph', 'graph (2)']
    """
    shared = Counter(name for name, _ in models)
    wanted = [source or name if shared[name] > 1 else name for name, source in models]
    found: list[str] = []
    for name in wanted:
        numbered = (f"{name} ({number})" for number in count(2))
        free = (each for each in numbered if each not in {*wanted, *found})
        found.append(next(free) if name in found else name)
    return found


def _with_unique_names(models: Sequence[CanonicalModel]) -> list[CanonicalModel]:
    names = unique_names([(model.name, model.source) for model in models])
    return [replace(model, name=name) for model, name in zip(models, names, strict=True)]
