"""Description of the backend; OpenVINO is imported only where it is used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dlbricks_core.backends import Backend, BackendSettings, Traits
from dlbricks_core.ir import CanonicalModel

if TYPE_CHECKING:
    from dlbricks_openvino.timer import OpenvinoTimer


class OpenvinoBackend(Backend):
    """Runs bricks with OpenVINO's CPU plugin, in single precision."""

    name = "openvino"
    distribution = "openvino"
    default_models = ("onnx:",)
    # Each compiled model has code, weights and memory of its own, and chooses layouts.
    traits = Traits(primed=True, rewrites=True)

    def version(self) -> str:
        """Version of the installed OpenVINO, from its metadata."""
        return self.installed_version()

    def timer(self, settings: BackendSettings) -> OpenvinoTimer:
        """Imports OpenVINO and returns a timer."""
        self.version()
        from dlbricks_openvino.timer import OpenvinoTimer

        return OpenvinoTimer(settings)

    def reason(self, error: Exception) -> str:
        """Reason in an error message, without OpenVINO's leading lines, which end in colons."""
        lines = [line.strip() for line in str(error).splitlines()]
        told = next((line for line in lines if line and not line.endswith(":")), "")
        return f"{type(error).__name__}: {told}" if told else super().reason(error)

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
