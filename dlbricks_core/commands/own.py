"""Commands that come with DLBricks, in the order of the help text."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, cast

from dlbricks_core.commands.command import Command

if TYPE_CHECKING:
    import click


class _Own(Command):
    """A command whose module has its name, in :mod:`dlbricks_core.cli`."""

    def load(self) -> click.Command:
        module = importlib.import_module(f"dlbricks_core.cli.{self.name}")
        return cast("click.Command", module.command)


def _own(name: str, purpose: str, *, predicts: bool = False, resumes: bool = False) -> type[_Own]:
    members = {"name": name, "purpose": purpose, "predicts": predicts, "resumes": resumes}
    return type(name.capitalize(), (_Own,), {"__module__": __name__, **members})


Run = _own(
    "run",
    "Estimate models, running as few of them as that takes (default).",
    predicts=True,
    resumes=True,
)
Estimate = _own(
    "estimate",
    "Estimate from what is known; runs nothing, needs no framework.",
    predicts=True,
)
Advise = _own(
    "advise",
    "Tell which system, and which model, is fastest or cheapest; runs nothing.",
    predicts=True,
)
Evaluate = _own(
    "evaluate",
    "Tell how far estimates are from measured latencies, model by model.",
    resumes=True,
)
Calibrate = _own(
    "calibrate",
    "Fit a composer's few numbers to this system.",
    predicts=True,
    resumes=True,
)
Survey = _own(
    "survey",
    "Time networks from which latencies of others are predicted.",
    predicts=True,
    resumes=True,
)
Study = _own(
    "study",
    "Show what the DLBricks paper shows, for any models, in a report.",
    resumes=True,
)
Explain = _own(
    "explain",
    "Show where an estimate deviates, beside the backend's own profile.",
    resumes=True,
)
Trace = _own("trace", "Write a trace of whole, bricks, layers and operators for viewers.")
Compare = _own(
    "compare", "Run models on several frameworks in turn, whole and in parts.", resumes=True
)
Verify = _own("verify", "Check that backends compute the same from the same models.")
Inspect = _own("inspect", "Show a model's layers, bricks and repetition.")
Analyze = _own("analyze", "Show how layers repeat within and across models; runs nothing.")
Graph = _own("graph", "Draw a model with its critical path and repeated modules.")
Generate = _own("generate", "Write a suite: bricks as ONNX files, without the models' weights.")
Privacy = _own("privacy", "Tell what an attacker learns from a private suite.")
Bench = _own("bench", "Time a suite: a folder that generate wrote.", resumes=True)
Atlas = _own(
    "atlas",
    "Write the store as pages to look at: systems, models, backends.",
    predicts=True,
)
Spec = _own("spec", "Write what a run did as a record that others can do again.")
Rerun = _own("rerun", "Do again what a record says, and compare.", predicts=True)
Store = _own("store", "Export, import, merge and prune what was measured.")
Systems = _own("systems", "List the systems that were measured, and name them.")
Models = _own("models", "List the model collections.")
Plugins = _own("plugins", "List the plugins of every kind, with the problems of each.")
Doctor = _own("doctor", "Check whether this machine is ready to measure.")

ORDER = (
    Run.name,
    Estimate.name,
    Advise.name,
    Evaluate.name,
    Calibrate.name,
    Survey.name,
    Study.name,
    Explain.name,
    Trace.name,
    Compare.name,
    Verify.name,
    Inspect.name,
    Analyze.name,
    Graph.name,
    Generate.name,
    Privacy.name,
    Bench.name,
    Atlas.name,
    Spec.name,
    Rerun.name,
    Store.name,
    Systems.name,
    Models.name,
    Plugins.name,
    Doctor.name,
)
"""Names in the order of the help text."""
