r"""Accuracy of private suites, and success of attackers against them.

    python benchmarks/private.py accuracy onnxruntime 1 8 onnx: mxnet:
    python benchmarks/private.py attackers 20 onnx: mxnet:

The first command times the bricks of private suites beside the whole models, in the same rounds,
here with one thread and for 8 s for each model and kind of suite. It prints the error of their sum,
for bricks made for the backend, and for bricks of the models as they are, which every backend runs.
Take its figures on a quiet machine.

The second command times nothing. It hides each model among decoys from the models of other
families. An attacker who learned from the suites of those families judges it. The command prints
means over families, with equal weight for each family. Only this benchmark has boosted trees as an
attacker, against which no choice of decoys was tuned.

Factories of the development corpus: run it in tests/corpus, and name torch:torch_networks:vit.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from dlbricks_private.exposure import Privacy, assessed
from dlbricks_private.judge import Example, Judge, balanced_accuracy
from dlbricks_private.published import Published
from dlbricks_private.suites import Hidden, hide, private_options
from sklearn.ensemble import HistGradientBoostingClassifier

from dlbricks_core.bricks.families import family_of
from dlbricks_core.estimation.run import run_bricks
from dlbricks_core.importers import LoadOptions
from dlbricks_core.importers.models import load_models
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.measure.cutting import cut_models
from dlbricks_core.measure.request import Request
from dlbricks_core.measure.rewrites import Rewrites
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore

SIBLINGS = {"zfnet": "alexnet"}
"""Families that are one architecture: ZFNet is AlexNet with other windows."""

FEWEST_BRICKS = 8
"""Least bricks of a model that attackers are tried on."""


def accuracy(backend: str, threads: str, seconds: str, *names: str) -> None:
    """Prints the error of each estimate, and the mean of their absolute values."""
    request = Request.of(backend, threads=int(threads), budget_s=float(seconds))
    options = private_options()
    errors: dict[str, list[float]] = {f"for {backend}": [], "for any": []}
    with tempfile.TemporaryDirectory() as folder:
        for model in _loaded(names):
            told = []
            for number, kind in enumerate(errors):
                rewrites = Rewrites() if number else None
                cutting = cut_models([model], options, request, Observer(), rewrites=rewrites)
                with ResultStore.open(Path(folder) / f"{len(errors[kind])}-{number}.db") as store:
                    result = run_bricks(cutting, request, store, Observer(), end_to_end=True)
                normalized = result.models[0].normalized
                if normalized is None:
                    told.append(f"{kind}: no estimate")
                else:
                    errors[kind].append(normalized - 1)
                    told.append(f"{kind} {normalized - 1:+.1%}")
            print(f"{model.name}: {', '.join(told)}", flush=True)
    for kind, found in errors.items():
        mean, share = np.mean(np.abs(found)), np.mean(np.abs(found) <= 0.1)
        print(f"{backend}, {threads}, bricks {kind}: {len(found)} models, {mean:.1%} off on "
              f"average, {share:.0%} within 10%")  # fmt: skip


def attackers(decoys: str, *names: str) -> None:
    """Prints what is learned of each model, and means over families."""
    models = _loaded(names)
    options, random = private_options(), np.random.default_rng(0)
    named = {model.name: family_of(model) for model in models}
    families = {name: SIBLINGS.get(family, family) for name, family in named.items()}
    hidden: dict[str, Hidden] = {}
    for model in models:
        donors = [each for each in models if families[each.name] != families[model.name]]
        found = hide([model], options, None, donors, int(decoys), random, Observer())
        if len(found.brickset.bricks) >= FEWEST_BRICKS:
            hidden[model.name] = found
            print(f"{model.name}: hidden among {len(found.decoys)} decoys", flush=True)
    rows: dict[str, dict[str, list[float]]] = {}
    examples = {name: _example(families[name], each) for name, each in hidden.items()}
    for family in sorted({families[name] for name in hidden}):
        others = {name: each for name, each in hidden.items() if families[name] != family}
        learned = [examples[name] for name in others]
        judge, trees = Judge(learned), _boosted(learned)
        published = Published.of(
            (name, list(each.brickset.bricks.values())) for name, each in others.items()
        )
        for name, each in hidden.items():
            if families[name] == family:
                told = assessed(each.brickset, each.bricks, judge, published)
                _print(name, told)
                judged = examples[name]
                probabilities = trees.predict_proba(judged.traits)[:, 1]
                boosted = balanced_accuracy(judged.labels, probabilities)
                for attacker, value in {**told.accuracies, "boosted trees": boosted}.items():
                    rows.setdefault(attacker, {}).setdefault(family, []).append(value)
    for attacker, by_family in rows.items():
        means = {family: float(np.mean(values)) for family, values in by_family.items()}
        listed = ", ".join(f"{family} {mean:.2f}" for family, mean in means.items())
        print(f"{attacker}: {np.mean(list(means.values())):.3f} ({listed})")


def _boosted(examples: Sequence[Example]) -> HistGradientBoostingClassifier:
    """Boosted trees that learned from suites of other families."""
    labels = np.concatenate([example.labels for example in examples])
    weights = np.where(labels > 0.5, (labels < 0.5).sum() / (labels > 0.5).sum(), 1.0)
    trees = HistGradientBoostingClassifier(
        max_iter=150, max_leaf_nodes=15, min_samples_leaf=10, l2_regularization=1.0, random_state=0
    )
    return trees.fit(np.concatenate([e.traits for e in examples]), labels, sample_weight=weights)


def _print(name: str, found: Privacy) -> None:
    (model,) = found.models
    told = ", ".join(f"{value:.2f}" for value in found.accuracies.values())
    print(f"{name}: {len(model.cut.model.layers)} layers, {len(model.cut.occurrences)} bricks, "
          f"10^{model.candidates:.1f} candidates, 10^{model.choices:.1f} with the order known, "
          f"10^{model.left:.1f} left by {model.by or 'nobody'}; {told}", flush=True)  # fmt: skip


def _example(family: str, each: Hidden) -> Example:
    return Example(family, list(each.brickset.bricks.values()), list(each.decoys.values()))


def _loaded(names: tuple[str, ...]) -> list[CanonicalModel]:
    loaded = load_models(names, LoadOptions(), Observer())
    for failure in loaded.failures:
        print(f"{failure.subject}: {failure.reason}")
    return loaded.models


if __name__ == "__main__":
    {"accuracy": accuracy, "attackers": attackers}[sys.argv[1]](*sys.argv[2:])
