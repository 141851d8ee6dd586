"""The backend's description; MXNet is imported only where it is used."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING

from dlbricks_core.backends import Backend, BackendOption, BackendSettings, Traits, Watch
from dlbricks_core.errors import BackendError
from dlbricks_core.ir import CanonicalModel
from dlbricks_mxnet.kernels import WITHOUT_KERNEL

if TYPE_CHECKING:
    from dlbricks_mxnet.timer import MxnetTimer

_ENGINES = {"threaded": "ThreadedEnginePerDevice", "naive": "NaiveEngine"}


class MxnetBackend(Backend):
    """Runs bricks with MXNet on the CPU."""

    name = "mxnet"
    distribution = "mxnet"
    importing = "import numpy; numpy.bool = numpy.bool_; import mxnet"
    options: Mapping[str, BackendOption] = {
        "executor": BackendOption(
            default="cachedop",
            choices=("cachedop", "static", "symbol"),
            help="cachedop: as hybridized Gluon blocks run; static: the same with static_alloc "
            "and static_shape; symbol: Symbol.bind, fused by oneDNN.",
        ),
        "engine": BackendOption(
            default="naive",
            choices=("naive", "threaded"),
            help="naive: operators run in the caller's thread; threaded: in MXNet's own threads, "
            "its default, where each call takes as long as a small brick to wake them. Peak memory "
            "is always observed with the threaded engine.",
        ),
        "priming": BackendOption(
            default="displaced",
            choices=("displaced", "both", "copy"),
            help="Runs before each timed run. both: the network itself, then its copy; "
            "displaced: for bricks, other memory is read in between to empty the caches; copy: "
            "only the copy, which is a third faster and leaves small networks with cold weights.",
        ),
        "inputs": BackendOption(
            default="found",
            choices=("found", "blocked", "plain"),
            help="Layout of feature maps at the inputs. found: the observed layout behind each "
            "convolution of the model; blocked: the layout of depthwise convolutions, without "
            "observing it; plain: in order.",
        ),
    }
    traits = Traits(
        # Every graph has its own code paths and memory.
        primed=True,
        # After a pause, small bricks are several percent too slow.
        in_turns=True,
        # 54 networks and their bricks take as much memory as weights, inputs and outputs. MatMul,
        # Gemm, Gather and LSTM of 128 MiB and Conv of 36 MiB keep 1.0 times that (kept-memory of
        # MXNet 1.9.1); while they are loaded, twice to three times as much.
        weights_held=1,
        # Gluon and Module copy the arrays that were read from the file.
        weights_loading=2,
        # With the default engine, Convolution, BatchNorm and Activation take three feature maps,
        # and two if a pooling reads the last: what a graph hands out is in no plan of its memory.
        results_apart=True,
        # The layers stay, but feature maps between them have different layouts.
        rewrites=True,
        # Convolutions run, in order to find the layouts of their results.
        rewrite_uses_all_threads=True,
        lacks=frozenset({
            "AffineGrid", "Bernoulli", "BitCast", "BitShift", "CausalConvWithState",
            "CenterCropPad", "Compress", "ConvInteger", "CumProd", "DFT", "DeformConv",
            "ImageDecoder", "LinearAttention", "MatMulInteger", "MaxRoiPool", "MaxUnpool",
            "Multinomial", "NegativeLogLikelihoodLoss", "NonMaxSuppression", "NonZero",
            "QLinearConv", "QLinearMatMul", "RandomNormal", "RandomNormalLike", "RandomUniform",
            "RandomUniformLike", "RegexFullMatch", "RoiAlign", "STFT", "SoftmaxCrossEntropyLoss",
            "StringConcat", "StringNormalizer", "StringSplit", "SwiGLU", "TensorScatter",
            "TfIdfVectorizer", "Unique", "ai.onnx.ml",
        }),
        types=frozenset({
            "bool", "float16", "float32", "float64", "int32", "int64", "int8", "uint8",
        }),
        lacks_of_type=WITHOUT_KERNEL,
    )  # fmt: skip
    # Relatives, as users have them: five families of the zoo in several sizes.
    default_models = (
        *(f"mxnet:resnet{depth}_v1" for depth in (18, 34, 50, 101, 152)),
        *(f"mxnet:densenet{depth}" for depth in (121, 169, 201)),
        *(f"mxnet:vgg{depth}" for depth in (11, 13, 16, 19)),
        *(f"mxnet:mobilenet{width}" for width in ("1.0", "0.5")),
        *(f"mxnet:squeezenet{version}" for version in ("1.0", "1.1")),
    )

    def version(self) -> str:
        """Version of the installed MXNet, from its metadata."""
        return self.installed_version("pip install 'mxnet>=1.9.1,<2' 'numpy<2'")

    def environment(self, settings: BackendSettings) -> Mapping[str, str]:
        """Environment for one operator at a time on a number of threads, without log output.

        MXNet reads all of these only when it is imported.
        """
        threads = str(settings.threads)
        return {
            "MXNET_ENGINE_TYPE": _ENGINES[settings.options.get("engine", "naive")],
            "OMP_NUM_THREADS": threads,
            "OPENBLAS_NUM_THREADS": threads,
            # MXNet's defaults, set explicitly so that the user's environment cannot change a
            # result.
            "MXNET_CPU_WORKER_NTHREADS": "1",
            "MXNET_EXEC_BULK_EXEC_INFERENCE": "1",
            "MXNET_SUBGRAPH_BACKEND": "MKLDNN",
            # oneDNN keeps 1,024 primitives by default: enough for a model by itself, not for all
            # that a session has loaded, whose reorders each run would then create anew.
            "DNNL_PRIMITIVE_CACHE_CAPACITY": str(1 << 20),
            # Lines on stderr for every graph that is bound.
            "MXNET_SUBGRAPH_VERBOSE": "0",
            "MXNET_STORAGE_FALLBACK_LOG_VERBOSE": "0",
        }

    def as_used(self, settings: BackendSettings) -> BackendSettings:
        """Settings with the threaded engine, which keeps more memory than the naive one."""
        return replace(settings, options={**settings.options, "engine": "threaded"})

    def timer(self, settings: BackendSettings) -> MxnetTimer:
        """Imports MXNet, sets its threads, and returns a timer.

        Raises:
            BackendError: If an option has no such value, or MXNet was imported with another
                number of threads.
        """
        self.version()
        self.check_options(settings)
        self._set_environment(settings)
        from dlbricks_mxnet.timer import MxnetTimer

        return MxnetTimer(settings)

    def native(self, source: str) -> bool:
        """Whether the source is a network of the Gluon zoo or a model file of MXNet."""
        return source.startswith("mxnet:") or source.endswith("-symbol.json")

    def opens(self, source: str) -> bool:
        """Whether the source is a network of the Gluon zoo or a model file of MXNet."""
        return self.native(source)

    def watch(self, target: object) -> AbstractContextManager[Watch] | None:
        """A context for a hybrid block; ``None`` for anything else."""
        if "mxnet" not in sys.modules:
            return None
        from dlbricks_mxnet.users import watch

        return watch(target)

    def rewrite(
        self, model: CanonicalModel, settings: BackendSettings, seed: int
    ) -> CanonicalModel:
        """The model with the layouts in which feature maps reach the layers that read them."""
        self._set_environment(settings)
        from dlbricks_mxnet.rewrite import rewrite

        return rewrite(model, settings)

    def reason(self, error: Exception) -> str:
        """Kind of an error and its reason, without MXNet's own stack trace."""
        from dlbricks_mxnet.framework import one_line

        if any(kind.__name__ == "MXNetError" for kind in type(error).__mro__):
            return f"{type(error).__name__}: {one_line(error)}"
        return super().reason(error)

    def check(self, model: CanonicalModel) -> Mapping[int, str]:
        """Layers that MXNet cannot express exactly, with the reason."""
        from dlbricks_mxnet.check import unsupported

        return unsupported(model)

    def _set_environment(self, settings: BackendSettings) -> None:
        """Ensures that MXNet uses the requested number of threads, which it reads only once."""
        wanted = self.environment(settings)
        if "mxnet" not in sys.modules:
            os.environ.update(wanted)
        elif os.environ.get("OMP_NUM_THREADS") != wanted["OMP_NUM_THREADS"]:
            raise BackendError(
                f"MXNet was imported before it was told to use {settings.threads} thread(s)",
                hint=f"Set OMP_NUM_THREADS={settings.threads} before Python starts.",
            )
