"""Networks saved in files, in the form that users of OpenVINO keep and open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import openvino

from dlbricks_core.backends import Array, BackendSettings, Network, Saved
from dlbricks_core.ir import CanonicalModel
from dlbricks_openvino.loading import Loaded, Place, bound, defined, placed, read
from dlbricks_openvino.settings import core, properties


def save(network: Network, folder: Path, settings: BackendSettings) -> SavedModel:
    """Writes a graph (``.xml``) and its weights (``.bin``), each weight in its own type."""
    path = folder / "model.xml"
    graph = read(defined(network.model).network(network))
    openvino.save_model(graph, path, compress_to_fp16=False)
    return SavedModel(network.model, network.inputs, path, settings)


@dataclass(frozen=True)
class SavedModel(Saved[Loaded]):
    """A network in OpenVINO's files.

    Attributes:
        model: The network.
        inputs: Values of its inputs, by name.
        path: The file of the graph; its weights lie beside it.
        settings: Threads and options.
    """

    model: CanonicalModel
    inputs: Mapping[str, Array]
    path: Path
    settings: BackendSettings

    def feed(self) -> Mapping[str, Place]:
        """The inputs in memory."""
        return {name: placed(self.model, self.inputs, name) for name in self.model.inputs}

    def parse(self) -> openvino.Model:
        """Reads the graph; OpenVINO maps the weights into memory."""
        return core().read_model(self.path)

    def prepare(self, parsed: openvino.Model, fed: Mapping[str, Place]) -> Loaded:
        """Compiles the graph, and binds memory to it."""
        ready = core().compile_model(parsed, "CPU", properties(self.model, self.settings))
        return bound(ready, self.model, fed)
