"""The backend's description; llama.cpp is imported only where it is used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dlbricks_core.backends import Backend, BackendOption, BackendSettings, Traits
from dlbricks_core.bricks import native_to
from dlbricks_core.ir import CanonicalModel
from dlbricks_llamacpp.rewrite import BACKEND, ONLY_MODELS, rewrite, smallest
from dlbricks_llamacpp.weights import MIXTURES

if TYPE_CHECKING:
    from dlbricks_llamacpp.timer import LlamaTimer


class LlamaBackend(Backend):
    """Runs blocks of language models with llama.cpp on the CPU."""

    name = BACKEND
    distribution = "llama-cpp-python"
    importing = "import llama_cpp"
    options: Mapping[str, BackendOption] = {
        "dtype": BackendOption("f16", tuple(MIXTURES), "Type of the file's weights."),
        "attention": BackendOption(
            "auto", ("auto", "on", "off"), "Run attention in one kernel (--flash-attn)."
        ),
    }
    traits = Traits(
        primed=True, in_turns=True, weights_held=1, rewrites=True, domains=frozenset(),
        blocks_only=True,
    )  # fmt: skip

    def version(self) -> str:
        """Version of the installed package, and what its library was built for."""
        from dlbricks_llamacpp.library import built_for

        return f"{self.installed_version()} ({' '.join(built_for())})"

    def timer(self, settings: BackendSettings) -> LlamaTimer:
        """Imports llama.cpp and returns a timer."""
        self.installed_version()
        self.check_options(settings)
        from dlbricks_llamacpp.timer import LlamaTimer

        return LlamaTimer(settings)

    def rewrite(
        self, model: CanonicalModel, settings: BackendSettings, seed: int
    ) -> CanonicalModel:
        """The blocks that llama.cpp makes of a language model's configuration."""
        return rewrite(model, settings)

    def smallest(self, layers: int) -> CanonicalModel:
        """A chain of blocks of next to no work."""
        return smallest(layers)

    def engine(self, settings: BackendSettings, model: CanonicalModel) -> str:
        """llama.cpp on a file of some type."""
        return f"llama.cpp on a file of {settings.options['dtype']} weights, as llama-bench runs it"

    def advice(self) -> Sequence[str]:
        """Instruction sets of this processor that the library was not built for."""
        from dlbricks_llamacpp.library import advice

        self.installed_version()
        return advice()

    def check(self, model: CanonicalModel) -> Mapping[int, str]:
        """All layers except layers that represent blocks of language models."""
        if native_to(model) == self.name:
            return {}
        return dict.fromkeys(range(len(model.layers)), ONLY_MODELS)
