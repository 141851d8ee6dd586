"""Workflows: one module for each job of a user, from loading models to results."""

from typing import TYPE_CHECKING

from dlbricks_core.lazy import lazy

if TYPE_CHECKING:
    from dlbricks_core.importers import LoadOptions
    from dlbricks_core.workflows.answers import Answer, Rate, SizeCurve, SizePoint
    from dlbricks_core.workflows.approach import Approach, Wishes
    from dlbricks_core.workflows.bench import bench
    from dlbricks_core.workflows.calibrate import Fitting, calibrate, forget_calibration
    from dlbricks_core.workflows.compare import compare
    from dlbricks_core.workflows.comparison import (
        BrickComparison,
        Comparison,
        ModelComparison,
        OperatorTotal,
        PartComparison,
    )
    from dlbricks_core.workflows.composing import DEFAULT_COMPOSER, LEARNED_COMPOSER, CutOptions
    from dlbricks_core.workflows.elsewhere import KnownSetup, known_setups
    from dlbricks_core.workflows.estimate import NO_PREDICTOR, default_predictor, estimate
    from dlbricks_core.workflows.evaluate import Evaluation, ModelEvaluation, evaluate
    from dlbricks_core.workflows.generate import generate
    from dlbricks_core.workflows.harvest import harvest
    from dlbricks_core.workflows.invocation import Invocation, environment_of
    from dlbricks_core.workflows.layers import LayerLatencies, layer_latencies
    from dlbricks_core.workflows.loading import (
        ImportSettings,
        LoadedModels,
        ModelLoader,
        load_model,
        load_models,
    )
    from dlbricks_core.workflows.model_result import Compared, ModelResult, PartResult
    from dlbricks_core.workflows.observer import Observer
    from dlbricks_core.workflows.oracle import PREDICTOR
    from dlbricks_core.workflows.request import Request, protocol_of
    from dlbricks_core.workflows.results import (
        Benchmarking,
        BrickResult,
        Dial,
        Offer,
        Probed,
        RunResult,
    )
    from dlbricks_core.workflows.run import run
    from dlbricks_core.workflows.sizes import (
        GENERATE,
        PROMPT,
        Generation,
        ModelsAtSizes,
        Sized,
        Sweep,
        jobs_of,
        load_asked,
        read_asked,
    )
    from dlbricks_core.workflows.speedup import Speedups
    from dlbricks_core.workflows.study import Study, study
    from dlbricks_core.workflows.systems import at_system
    from dlbricks_core.workflows.verify import Verdict, VerifyOptions, verify

__all__ = [
    "DEFAULT_COMPOSER",
    "GENERATE",
    "LEARNED_COMPOSER",
    "NO_PREDICTOR",
    "PREDICTOR",
    "PROMPT",
    "Answer",
    "Approach",
    "Benchmarking",
    "BrickComparison",
    "BrickResult",
    "Compared",
    "Comparison",
    "CutOptions",
    "Dial",
    "Evaluation",
    "Fitting",
    "Generation",
    "ImportSettings",
    "Invocation",
    "KnownSetup",
    "LayerLatencies",
    "LoadOptions",
    "LoadedModels",
    "ModelComparison",
    "ModelEvaluation",
    "ModelLoader",
    "ModelResult",
    "ModelsAtSizes",
    "Observer",
    "Offer",
    "OperatorTotal",
    "PartComparison",
    "PartResult",
    "Probed",
    "Rate",
    "Request",
    "RunResult",
    "SizeCurve",
    "SizePoint",
    "Sized",
    "Speedups",
    "Study",
    "Sweep",
    "Verdict",
    "VerifyOptions",
    "Wishes",
    "at_system",
    "bench",
    "calibrate",
    "compare",
    "default_predictor",
    "environment_of",
    "estimate",
    "evaluate",
    "forget_calibration",
    "generate",
    "harvest",
    "jobs_of",
    "known_setups",
    "layer_latencies",
    "load_asked",
    "load_model",
    "load_models",
    "protocol_of",
    "read_asked",
    "run",
    "study",
    "verify",
]

lazy(__name__)
