r"""Adds networks that are unlike the corpus to the atlas, and judges predictions of them.

    python benchmarks/unlike.py survey BACKEND THREADS STORE
    dlbricks results merge OTHER-STORES --store STORE
    dlbricks machine survey --pack FOLDER --store STORE
    python benchmarks/unlike.py judge CONTRIBUTION...
    python benchmarks/unlike.py judge --without-all CONTRIBUTION...
    python benchmarks/unlike.py unseen CONTRIBUTION...

Run it in tests/corpus, with torchvision, timm and transformers installed. Importing the 78 networks
takes some minutes.

The first command times all their layers, short segments and wholes, eight runs each. The two with
``judge`` predict each whole network, nothing timed, from one contribution without any network of
the same group of families, or without any of the 78. The others' pulls are computed in closed form,
as in ``predictor/intervals.py``. The last command, on the contribution's own system, times networks
that no contribution holds, eight runs each, and predicts them in the same way.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import numpy as np
from dlbricks_prediction import Contribution
from dlbricks_prediction.from_atlas import FromAtlas
from dlbricks_prediction.whole_errors import discrepancy_of
from dlbricks_survey import surveying as surveys
from dlbricks_survey.candidates import already_timed
from predictor.intervals import without_each

from dlbricks_core.bricks import BrickSet
from dlbricks_core.bricks.families import family_of
from dlbricks_core.figures.figure import Measured
from dlbricks_core.importers import LoadOptions
from dlbricks_core.importers.models import load_models
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.measure.cutting import Target
from dlbricks_core.measure.measuring import measure
from dlbricks_core.measure.request import Request
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore

MODULES = ("torch_packages", "torch_further_packages")

GROUPS: Mapping[str, Mapping[str, str]] = {
    "mobile": {
        "efficientnet": "tv_effb0 tv_effv2s tm_effb2 tm_lite0",
        "fbnet": "tm_fbnet",
        "ghostnet": "tm_ghost",
        "mixnet": "tm_mixnet",
        "mnasnet": "tv_mnasnet",
        "mobilenetv3": "tv_mbv3l tv_mbv3s",
        "mobilenetv4": "tm_mbv4 tm_mbv4m",
        "rexnet": "tm_rexnet",
        "shufflenetv2": "tv_shuffle",
        "vovnet": "tm_vovnet",
        "xception": "tm_xception",
    },
    "residual": {
        "darknet": "tm_darknet",
        "deeplab": "tv_deeplab",
        "dla": "tm_dla",
        "hrnet": "tm_hrnet",
        "nfnet": "tm_nfnet",
        "regnet": "tv_regnet_y400 tv_regnet_x800",
        "repvgg": "tm_repvgg",
        "res2net": "tm_res2net",
        "resnest": "tm_resnest",
        "resnet": "tv_resnet18",
        "resnext": "tv_resnext50",
        "selecsls": "tm_selecsls",
        "sknet": "tm_sknet",
        "wideresnet": "tv_wide",
    },
    "inception": {"googlenet": "tv_googlenet"},
    "modern": {
        "convnext": "tv_convnext tv_convnext_s tm_convnextv2",
        "edgenext": "tm_edgenext",
        "fastvit": "tm_fastvit",
        "inceptionnext": "tm_incnext",
        "poolformer": "tm_pool",
    },
    "vision": {
        "coatnet": "tm_coat",
        "efficientvit": "tm_efficientvit",
        "levit": "tm_levit",
        "maxvit": "tv_maxvit",
        "mixer": "tm_mixer tm_gmlp tm_resmlp",
        "mobilevit": "tm_mobilevit",
        "pvt": "tm_pvt tm_twins",
        "segformer": "hf_segformer",
        "swin": "tv_swin_t",
        "tinyvit": "tm_tinyvit",
        "visformer": "tm_visformer",
        "vit": "tv_vitb16 tm_deit_t hf_dinov2 hf_vitmsn tm_cait",
        "xcit": "tm_xcit",
    },
    "text and sound": {
        "albert": "hf_albert",
        "bert": "hf_bert hf_distil hf_electra hf_roberta hf_mpnet",
        "bloom": "hf_bloom",
        "deberta": "hf_deberta",
        "gemma": "hf_gemma",
        "gpt2": "hf_gpt2",
        "gptneox": "hf_gptneox",
        "llama": "hf_llama",
        "mobilebert": "hf_mobilebert",
        "opt": "hf_opt",
        "phi": "hf_phi",
        "qwen": "hf_qwen",
        "squeezebert": "hf_squeezebert",
        "wav2vec2": "hf_wav2vec2 hf_hubert",
    },
}
"""Names of the networks by group and family. A group is left out together."""

UNSEEN: Mapping[str, str] = {
    "mobile": "tm_hardcore tm_lcnet tm_mobileone tm_tinynet",
    "residual": "tv_densenet169 tv_regnet_y1 tm_cspresnet tm_gernet",
    "vision": ("tm_convit tm_crossvit tm_davit tm_efficientformer tm_mvit tm_nest tm_volo hf_beit"),
    "text and sound": "hf_codegen hf_data2vec hf_ernie hf_mistral hf_nystrom hf_stablelm",
}
"""Names of networks of ``torch_unseen_packages``, by the group that is left out for them."""

_COMPOSING = 0.03
"""Standard deviation of the relative error of composing."""

FAMILIES = {
    name: family
    for families in GROUPS.values()
    for family, names in families.items()
    for name in names.split()
}


def kin(model: CanonicalModel) -> Collection[str]:
    """Families that are to be left out of an atlas with which a model is predicted."""
    family = FAMILIES.get(model.source.rpartition(":")[2])
    alike = [families for families in GROUPS.values() if family in families]
    return [*alike[0]] if alike else [family_of(model)]


def loaded(modules: Sequence[str] = MODULES) -> Iterator[tuple[str, CanonicalModel]]:
    """Name and model of each network."""
    for module in modules:
        text = Path(f"{module}.py").read_text()
        for name in re.findall(r"^(?:def )?((?:tv|tm|hf)_\w+)", text, re.M):
            yield name, load_models([f"torch:{module}:{name}"], LoadOptions(), Observer()).models[0]


def survey(backend: str, threads: str, path: str) -> None:
    """Times the pieces and the whole of each network, side by side."""
    request = Request.of(backend, threads=int(threads), runs=surveys.RUNS)
    with ResultStore.open(Path(path)) as store:
        for name, model in loaded():
            family = FAMILIES[name]
            with mock.patch.object(surveys, "family_of", return_value=family):
                pieces = surveys._pieces([model])
            known = already_timed(request, store, pieces)
            new = [each for each in pieces if each.brick.signature not in known]
            whole = Target(_cut(model).models[0].whole, "model", family)
            outcome = measure([*new, whole], request, store, Observer())
            print(f"{name}: {len(new)} pieces, {len(outcome.failures)} failures", flush=True)


def judge(*paths: str) -> None:
    """Prints the error of each prediction, and a line for each contribution."""
    models = dict(loaded())
    left_out: list[list[str]] = [[*families] for families in GROUPS.values()]
    if "--without-all" in paths:
        left_out = [list(chain.from_iterable(left_out))]
    for path in paths:
        if path == "--without-all":
            continue
        it = Contribution.read(Path(path))
        _report(it, dict(_errors(it, models, left_out)))


def unseen(*paths: str) -> None:
    """Times networks that no contribution holds, and prints as :func:`judge` does."""
    models = dict(loaded(["torch_unseen_packages"]))
    left_out = [[*GROUPS[group], "densenet"] for group in UNSEEN]
    for path in paths:
        it = Contribution.read(Path(path))
        request = Request.of(it.setup.backend, threads=it.setup.threads, runs=surveys.RUNS)
        wholes = {name: _cut(model).models[0].whole for name, model in models.items()}
        targets = [Target(each, "model", "unseen") for each in wholes.values()]
        with TemporaryDirectory() as folder, ResultStore.open(Path(folder) / "new.sqlite") as store:
            taken = measure(targets, request, store, Observer()).measurements
        found = {}
        for (_, rest), names in zip(without_each(it, left_out), UNSEEN.values(), strict=True):
            for name in names.split():
                key = request.key(wholes[name].signature, "model")
                if key in taken:
                    figure = Measured.of(taken[key], request.protocol)
                    found[name] = _error(it, rest, models[name], figure.value, figure.overhead)
        _report(it, found)


_Error = tuple[float, bool, float]
"""Error of a prediction, whether its interval covers, and the interval's half-width."""


def _report(it: Contribution, found: Mapping[str, _Error]) -> None:
    for name, (error, inside, half) in found.items():
        print(f"{name} {error:+.1%}, {'covered' if inside else 'not covered'}, ±{half:.0%}")
    errors, inside, halves = map(np.array, zip(*found.values(), strict=True))
    print(
        f"{it.setup.backend}, {it.setup.threads} threads: {len(found)} networks, mean error "
        f"{np.abs(errors).mean():.1%}, median {np.median(errors):+.1%}, "
        f"{np.mean(np.abs(errors) <= 0.2):.0%} within ±20%, {inside.mean():.0%} covered, "
        f"±{np.median(halves):.0%}",
        flush=True,
    )


def _errors(
    it: Contribution, models: Mapping[str, CanonicalModel], left_out: Sequence[Sequence[str]]
) -> Iterator[tuple[str, _Error]]:
    place = {signature: i for i, signature in enumerate(it.signatures)}
    for families, rest in without_each(it, left_out):
        for name in _names(families):
            whole = place.get(_cut(models[name]).models[0].whole.signature)
            if whole is not None:
                truth, call_ms = float(np.exp(it.log_ms[whole])), float(it.call_ms[whole])
                yield name, _error(it, rest, models[name], truth, call_ms)


def _error(
    it: Contribution, rest: Contribution, model: CanonicalModel, truth: float, call_ms: float
) -> _Error:
    """Error of a model's prediction from a part of a contribution.

    Args:
        it: The contribution.
        rest: The part.
        model: The model.
        truth: Measured latency in milliseconds.
        call_ms: Cost of a call of the timer in milliseconds, which the latency includes.
    """
    bricks = _cut(model)
    (cut,) = bricks.models
    asked = {s: bricks.bricks[s] for s in cut.counts}
    figures = FromAtlas().predict(asked, it.setup, it.system, {}, [rest])
    draws = sum(n * figures[s].draws for s, n in cut.counts.items())
    value = sum(n * figures[s].value for s, n in cut.counts.items())
    own = np.hypot(discrepancy_of(it.setup.backend).predicted, _COMPOSING)
    draws *= np.maximum(1 + own * np.random.default_rng(0).standard_normal(len(draws)), 0)
    low, high = np.percentile(draws + call_ms, (5, 95))
    half = float((high - low) / (high + low))
    return float((value + call_ms) / truth - 1), bool(low <= truth <= high), half


def _names(families: Iterable[str]) -> list[str]:
    return [name for name, family in FAMILIES.items() if family in families]


def _cut(model: CanonicalModel) -> BrickSet:
    granularity, strategy = surveys.GRANULARITIES[-1]
    return BrickSet.of([model], granularity, strategy)


if __name__ == "__main__":
    {"survey": survey, "judge": judge, "unseen": unseen}[sys.argv[1]](*sys.argv[2:])
