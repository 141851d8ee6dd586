"""Description of the backend; OpenVINO is imported only where it is used."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata
from typing import TYPE_CHECKING

from dlbricks_core.backends import Backend, BackendSettings, Traits
from dlbricks_core.errors import PluginError
from dlbricks_core.ir import CanonicalModel

if TYPE_CHECKING:
    from dlbricks_openvino.timer import OpenvinoTimer


class OpenvinoBackend(Backend):
    """Runs bricks with OpenVINO's CPU plugin, in single precision."""

    name = "openvino"
    distribution = "openvino"
    default_models = ("onnx:",)
    #: Each compiled model has code, weights and memory of its own.
    traits = Traits(primed=True, rewrites=True)

    def version(self) -> str:
        """Version of the installed OpenVINO, from its metadata."""
        try:
            return metadata.version(self.distribution)
        except metadata.PackageNotFoundError as error:
            raise PluginError(
                "the backend openvino needs OpenVINO, which is not installed",
                hint="pip install openvino",
            ) from error

    def timer(self, settings: BackendSettings) -> OpenvinoTimer:
        """Imports OpenVINO and returns a timer."""
        self.version()
        from dlbricks_openvino.timer import OpenvinoTimer

        return OpenvinoTimer(settings)

    def check(self, model: CanonicalModel) -> Mapping[int, str]:
        """Layers that OpenVINO cannot compile, or computes in another element type."""
        from dlbricks_openvino.check import unsupported

        return unsupported(model)

    def rewrite(
        self, model: CanonicalModel, settings: BackendSettings, seed: int
    ) -> CanonicalModel:
        """The model with the layouts in which OpenVINO keeps its feature maps."""
        from dlbricks_openvino.layouts import with_layouts

        return with_layouts(model, settings, seed)
