"""From what the user types as MODEL to models in canonical form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from dlbricks_core.errors import ModelError, PluginError
from dlbricks_core.importers import Importer, ImportOptions, ModelCollection
from dlbricks_core.ir import Model
from dlbricks_core.passes import normalize
from dlbricks_core.plugins import Fault, Plugin, attempt, discover, find
from dlbricks_core.worker import WorkerError, WorkerProcess
from dlbricks_core.workflows.observer import Observer


@dataclass(frozen=True)
class LoadOptions:
    """How models are read and brought into canonical form.

    What goes by a name is for every model that knows the name; ``MODEL:NAME`` is for one alone.

    Attributes:
        batch: Size of dynamic batch axes.
        dims: Sizes of other dynamic dimensions, by name.
        shapes: Whole input shapes, by input.
        fold_batchnorm: Whether to fold BatchNormalization into the layer before it.
        values: Numbers that inputs always hold, by input.
    """

    batch: int | None = None
    dims: Mapping[str, int] = field(default_factory=dict)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    fold_batchnorm: bool = False
    values: Mapping[str, float] = field(default_factory=dict)

    def of(self, model: str) -> LoadOptions:
        """The same for one model: what is for it alone goes before what is for all."""
        prefix = f"{model}:"

        def named(given: Mapping[str, Any]) -> dict[str, Any]:
            own = {k.removeprefix(prefix): v for k, v in given.items() if k.startswith(prefix)}
            return {**given, **own}

        return replace(
            self, dims=named(self.dims), shapes=named(self.shapes), values=named(self.values)
        )


class ModelLoader:
    """Loads models; framework importers run in processes of their own.

    Example:
        >>> with ModelLoader(LoadOptions(batch=1)) as loader:
        ...     models = loader.load(["resnet.onnx", "mxnet:vgg16"])
    """

    def __init__(self, options: LoadOptions | None = None) -> None:
        self._options = options or LoadOptions()
        self._workers: dict[str, WorkerProcess] = {}

    def load(
        self, specs: Iterable[str | Model], advance: Callable[[str], None] = lambda done: None
    ) -> list[Model]:
        """Loads every MODEL argument.

        Args:
            specs: Paths, ``collection:name``, ``collection:`` for all of it, or what an
                importer gave.
            advance: Told the name of each model before it is loaded.

        Raises:
            ModelError: If one cannot be read or lowered.
            PluginError: If no plugin knows it, or the one that does is broken.
        """
        models = []
        options = self._options
        unused = {*options.dims, *options.shapes, *options.values}
        for source in self._sources(specs):
            advance(source if isinstance(source, str) else source.name)
            raw = self._read(source) if isinstance(source, str) else source
            names = _dimension_names(raw)
            unused -= names | {f"{raw.name}:{name}" for name in names}
            own = options.of(raw.name)
            models.append(
                normalize(
                    raw,
                    batch=own.batch,
                    dims=_dims_of(raw, own),
                    values={k: v for k, v in own.values.items() if k in raw.inputs},
                    fold_batchnorm=own.fold_batchnorm,
                )
            )
        if unused:
            raise ModelError(
                f"no model has a dimension or input called {sorted(unused)[0]!r}",
                hint="--dim takes a dimension's name (seq=128), its place (data.2=224), or an "
                "input's name with a whole shape (data=1x3x224x224); --value an input's name. "
                "Where only one model is meant: MODEL:NAME.",
            )
        return _with_unique_names(models)

    def expand(self, specs: Iterable[str]) -> list[str]:
        """The arguments with every ``collection:`` replaced by its members."""
        expanded: list[str] = []
        for spec in specs:
            prefix, colon, name = spec.partition(":")
            if colon and not name and not Path(spec).exists():
                collection = find_collection(prefix).loaded()
                members = collection.names()
                if not members:
                    raise ModelError(
                        f"the collection {prefix!r} lists no models of its own",
                        hint=f"Name one: {prefix}:{collection.pattern or 'NAME'}",
                    )
                expanded += [f"{prefix}:{member}" for member in members]
            else:
                expanded.append(spec)
        return expanded

    def _sources(self, specs: Iterable[str | Model]) -> Iterator[str | Model]:
        for spec in specs:
            yield from self.expand([spec]) if isinstance(spec, str) else [spec]

    def _read(self, spec: str) -> Model:
        prefix, colon, name = spec.partition(":")
        if colon and not Path(spec).exists() and "/" not in prefix:
            plugin = find_collection(prefix)
            return self._call(plugin, "load_name", spec, name, self._import_options(name))
        path = Path(spec)
        options = self._import_options(path.stem)
        return self._call(_importer_for(spec), "load_file", spec, path, options)

    def _import_options(self, name: str) -> ImportOptions:
        own = self._options.of(name.rpartition(":")[2])
        return ImportOptions(
            batch=own.batch, shapes={k: v for k, v in own.shapes.items() if ":" not in k}
        )

    def _call(
        self, plugin: Plugin, method: str, spec: str, argument: str | Path, options: ImportOptions
    ) -> Model:
        if not plugin.loaded.isolated:
            return plugin.loaded().load(argument, options)  # type: ignore[no-any-return]
        worker = self._workers.get(plugin.target)
        if worker is None:
            worker = WorkerProcess("dlbricks_core.importers.host:ImportHost")
            self._workers[plugin.target] = worker
        try:
            model: Model = worker.call(method, plugin.target, argument, options)
        except WorkerError as error:
            del self._workers[plugin.target]
            raise ModelError(f"loading {spec}: {error}", hint=error.hint) from error
        return model

    def close(self) -> None:
        """Ends the processes."""
        for worker in self._workers.values():
            worker.close()
        self._workers.clear()

    def __enter__(self) -> ModelLoader:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def find_collection(name: str) -> Plugin:
    """The model collection of that name.

    Raises:
        ModelError: If there is none.
        PluginError: If it is broken.
    """
    try:
        return find("models", name, ModelCollection)
    except PluginError as error:
        if error.message.startswith("unknown"):
            known = ", ".join(f"{p.name}:" for p in discover("models", ModelCollection))
            raise ModelError(
                f"{name}: is neither a file nor a model collection",
                hint=f"Collections here: {known or 'none'}",
            ) from error
        raise


def load_models(specs: Iterable[str], options: LoadOptions, observer: Observer) -> list[Model]:
    """Loads every MODEL argument, telling an observer of each.

    Raises:
        ModelError: If one cannot be read or lowered, or there is none.
        PluginError: If no plugin knows it, or the one that does is broken.
    """
    named = list(specs)
    with ModelLoader(options) as loader:
        expanded = loader.expand(named)
        if not expanded:
            raise ModelError(
                f"{', '.join(named) or 'nothing'} names no model",
                hint="See what there is: dlbricks models",
            )
        observer.stage("Importing models", len(expanded))
        return loader.load(expanded, observer.advance)


def _importer_for(spec: str) -> Plugin:
    plugins = discover("importer", Importer)
    suffixes: set[str] = set()
    problems = {p.name: p.problem for p in plugins if p.problem}
    for plugin in plugins:
        if plugin.problem:
            continue
        answer = attempt(partial(_asked, plugin, spec))
        if isinstance(answer, Fault):  # others may read the file
            problems[plugin.name] = answer.problem
            continue
        handled, known = answer
        if handled:
            return plugin
        suffixes.update(known)
    if not Path(spec).exists():
        raise ModelError(
            f"{spec} does not exist",
            hint="Name a model file, or collection:name (see: dlbricks models).",
        )
    broken = "".join(f"; importer {name} is broken: {why}" for name, why in problems.items())
    raise ModelError(
        f"no importer reads {spec}",
        hint=f"Files that can be read: {', '.join(sorted(suffixes))}{broken}",
    )


def _asked(plugin: Plugin, spec: str) -> tuple[bool, tuple[str, ...]]:
    """Whether an importer takes the file, and the suffixes that it knows."""
    importer: Importer = plugin.loaded()
    return importer.handles(spec), tuple(importer.suffixes)


def _dims_of(model: Model, options: LoadOptions) -> dict[str, int]:
    """The bindings that concern this model: several models may have different ones."""
    whole = {
        f"{name}.{axis}": size
        for name in model.inputs
        for axis, size in enumerate(options.shapes.get(name, ()))
    }
    names = _dimension_names(model)
    return whole | {name: size for name, size in options.dims.items() if name in names}


def _dimension_names(model: Model) -> set[Any]:
    """What ``--dim`` may call: inputs, places in them, and symbols."""
    names: set[Any] = {dim for spec in model.tensors.values() for dim in spec.shape or ()}
    for name in model.inputs:
        names.add(name)
        names.update(f"{name}.{axis}" for axis in range(len(model.tensors[name].shape or ())))
    return names


def _with_unique_names(models: list[Model]) -> list[Model]:
    """Two models of one name go by where they came from."""
    names = [model.name for model in models]
    return [
        replace(model, name=model.source or model.name) if names.count(model.name) > 1 else model
        for model in models
    ]
