"""Tests that every backend must pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import pytest

from dlbricks_core.backends import Array, Backend, BackendSettings, Network
from dlbricks_core.bricks import split
from dlbricks_core.errors import UnsupportedError
from dlbricks_core.ir import CanonicalModel, numpy_dtype
from dlbricks_core.measure.worker import BackendWorker, WorkerSettings
from dlbricks_core.values import materialize
from dlbricks_testing import cases
from dlbricks_testing.laboratory import Laboratory
from dlbricks_testing.suite import DescriptionConformance

_NOTHING: Mapping[str, str] = MappingProxyType({})

#: Bytes of weights of a network that is loaded again and again.
_WEIGHT_BYTES = 16 * 2**20
SAVED = ("conv", "batch_normalization", "matmul", "relu", "cast_to_integers")
"""Networks that are also loaded from files: with and without weights, of functions and methods."""

_WARM_LOADS, _MORE_LOADS = 6, 14
"""Loads before memory is compared, and after."""


class BackendConformance(DescriptionConformance):
    """Tests that every backend must pass; subclass it and name the backend.

    Every network of :data:`dlbricks_testing.cases.COMMON` must run and be right. Unsupported
    features are declared in the attributes below, with the reason. ``check`` and ``load`` must then
    refuse it, so that a declaration fails once it is no longer true.

    Attributes:
        plugin: The :class:`~dlbricks_core.backends.Backend` class. Required.
        framework_modules: As for :class:`Suite`. Required.
        unsupported_operators: Reason by ONNX operator that the framework lacks.
        unsupported_dtypes: Reason by element type (``"int64"``) that it lacks.
        unsupported_cases: Reason by name of any other case.
        unsupported_values: Reason by name of a case whose layers run, but with other values than
            these: perhaps they need more bits. ``check`` sees no values, so only ``load`` refuses.
        untested_options: Reason by setting ``"key=value"`` that is not tried here: perhaps it
            needs a compiler that not every machine has.
        tolerance: Largest error of float32 results, relative to the largest value.
        option_tolerances: The same for a setting ``"key=value"`` that computes in fewer bits.

    Example:
        >>> class TestMine(BackendConformance):
        ...     plugin = MyBackend
        ...     framework_modules = ("myframework",)
        ...     unsupported_dtypes = {"bool": "myframework has integers only"}
    """

    plugin: ClassVar[type[Backend]]
    unsupported_operators: ClassVar[Mapping[str, str]] = _NOTHING
    unsupported_dtypes: ClassVar[Mapping[str, str]] = _NOTHING
    unsupported_cases: ClassVar[Mapping[str, str]] = _NOTHING
    unsupported_values: ClassVar[Mapping[str, str]] = _NOTHING
    untested_options: ClassVar[Mapping[str, str]] = _NOTHING
    tolerance: ClassVar[float] = 1e-3
    option_tolerances: ClassVar[Mapping[str, float]] = {}

    # -- tools of the tests below

    @classmethod
    def settings(cls, threads: int = 1, options: Mapping[str, str] = _NOTHING) -> BackendSettings:
        """Settings with a value for every option, as a timer gets them."""
        defaults = {name: option.default for name, option in cls.plugin.options.items()}
        return BackendSettings(threads, {**defaults, **options})

    @classmethod
    def laboratory(cls, settings: BackendSettings) -> Laboratory:
        """The backend in a worker of its own."""
        return Laboratory(cls.target(), cls.plugin(), settings)

    @pytest.fixture(scope="class")
    @classmethod
    def lab(cls) -> Iterator[Laboratory]:
        """The backend in a worker with one thread."""
        with cls.laboratory(cls.settings()) as laboratory:
            yield laboratory

    @pytest.fixture(scope="class")
    @classmethod
    def two_threads(cls) -> Iterator[Laboratory]:
        """The backend in a worker with two threads."""
        with cls.laboratory(cls.settings(threads=2)) as laboratory:
            yield laboratory

    @pytest.fixture(scope="class")
    @classmethod
    def bench(cls) -> Iterator[BackendWorker]:
        """The backend in the worker that makes all measurements."""
        settings = WorkerSettings(cls.settings(), timeout_s=120)
        with BackendWorker(cls.target(), cls.plugin(), settings) as worker:
            yield worker

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Runs a test once for each choice of an option that is not its default."""
        if "choice" in metafunc.fixturenames:
            choices = [
                f"{name}={choice}"
                for name, option in self.plugin.options.items()
                for choice in option.choices
                if choice != option.default
            ]
            metafunc.parametrize("choice", choices or [""])

    @classmethod
    def declared(cls, name: str, model: CanonicalModel) -> str:
        """Reason for which a case is declared unsupported; empty if it is not."""
        reasons = [cls.unsupported_cases.get(name)]
        reasons += [cls.unsupported_operators.get(layer.op) for layer in model.layers]
        reasons += [cls.unsupported_dtypes.get(spec.dtype) for spec in model.tensors.values()]
        return next(filter(None, reasons), "")

    def assert_agrees(
        self,
        network: Network,
        found: Mapping[str, Array],
        wanted: Mapping[str, Array],
        occasion: str = "",
        tolerance: float | None = None,
    ) -> None:
        """Compares outputs with the expected outputs: names, types, shapes and values."""
        assert list(found) == list(network.model.outputs), (
            "names and order of the outputs must be the model's"
        )
        for name, value in found.items():
            spec = network.model.tensors[name]
            assert isinstance(value, np.ndarray), f"output {name} is not a numpy array"
            assert (value.dtype, value.shape) == (numpy_dtype(spec.dtype), spec.sizes), name
            problem = cases.difference(value, wanted[name], tolerance or self.tolerance)
            assert not problem, f"{name} {occasion}: {problem}"

    def assert_case(
        self, lab: Laboratory, name: str, seed: int = 0, tolerance: float | None = None
    ) -> None:
        """Compares a case with the reference evaluator, after itself and after another network.

        The other network has the same layers and other values. Two networks of one kind reveal
        state that a backend shares between them.
        """
        network, other = cases.network(name, seed), cases.network(name, seed + 1)
        found = lab.observe(network, other)
        for occasion, results in found.results.items():
            self.assert_agrees(network, results, cases.expected(name, seed), occasion, tolerance)
        assert found.values_kept, "load() or run() changed the caller's weights or inputs"

    @classmethod
    def needed(cls, name: str, seed: int = 0) -> Network:
        """The case that a test needs; skips the test if the case is declared unsupported."""
        network = cases.network(name, seed)
        reason = cls.declared(name, network.model)
        if reason:
            pytest.skip(f"{name} is declared unsupported: {reason}")
        return network

    @staticmethod
    def assert_refused(lab: Laboratory, network: Network, reasons: Mapping[int, str]) -> None:
        """Tests that ``load`` refuses all layers that ``check`` refused, with the reason."""
        layers = range(len(network.model.layers))
        assert all(i in layers and reason.strip() for i, reason in reasons.items()), reasons
        with pytest.raises(UnsupportedError) as caught:
            lab.call("load", "refused", network)
        assert caught.value.message

    # -- description

    def test_declarations_name_what_there_is(self) -> None:
        """Every declaration names a case, operator, type or option that exists."""
        names = {*cases.COMMON, *cases.UNCOMMON}
        assert {*self.unsupported_cases, *self.unsupported_values} <= names
        models = [cases.network(name).model for name in names]
        operators = {layer.op for model in models for layer in model.layers}
        assert set(self.unsupported_operators) <= operators
        dtypes = {spec.dtype for model in models for spec in model.tensors.values()}
        assert set(self.unsupported_dtypes) <= dtypes
        choices = {
            f"{name}={choice}"
            for name, option in self.plugin.options.items()
            for choice in option.choices
        }
        assert set(self.untested_options) <= choices

    # -- results

    @pytest.mark.parametrize("name", cases.COMMON)
    def test_common_network(self, lab: Laboratory, name: str) -> None:
        """The results are right, or the case is declared and refused."""
        network = cases.network(name)
        reasons = lab.check(network.model)
        if self.declared(name, network.model):
            assert reasons, "it is declared unsupported, but check() refuses no layer"
            self.assert_refused(lab, network, reasons)
        else:
            assert not reasons, f"check() refuses layers, but nothing is declared: {reasons}"
            self.assert_case(lab, name)

    @pytest.mark.parametrize("name", SAVED)
    def test_a_network_from_files_gives_the_same_results(
        self, lab: Laboratory, name: str, tmp_path: Path
    ) -> None:
        """``save`` writes all that the network needs to be opened again."""
        network = self.needed(name)
        for results in lab.call("infer_saved", network, tmp_path):
            self.assert_agrees(network, results, cases.expected(name), "from files")

    @pytest.mark.parametrize("name", cases.UNCOMMON)
    def test_uncommon_network(self, lab: Laboratory, name: str) -> None:
        """The results are right, or ``check`` and ``load`` both refuse.

        Only values are declared, which ``load`` alone can refuse.
        """
        network = cases.network(name)
        reasons = lab.check(network.model)
        values = name in self.unsupported_values
        assert not (reasons and values), f"check() refuses it for all values: {reasons}"
        if reasons or values:
            self.assert_refused(lab, network, reasons)
        else:
            assert not self.declared(name, network.model), "it is declared unsupported, but runs"
            self.assert_case(lab, name)

    def test_unknown_operators_are_refused_by_name(self, lab: Laboratory) -> None:
        """``check`` finds all of them and no other layer; ``load`` names one."""
        model = cases.odd_model("Relu", "NoSuchOperator", "Tanh", "NorThisOne")
        reasons = lab.check(model)
        assert sorted(reasons) == [1, 3]
        assert "NoSuchOperator" in reasons[1]
        assert "NorThisOne" in reasons[3]
        network = Network(model, {}, {"t0": np.ones((2, 3), np.float32)})
        with pytest.raises(UnsupportedError, match=r"NoSuchOperator|NorThisOne"):
            lab.call("load", "odd", network)

    def test_a_refusal_leaves_the_timer_usable(self, lab: Laboratory) -> None:
        """A network runs after another one was refused."""
        self.needed("relu")
        model = cases.odd_model("NoSuchOperator")
        with pytest.raises(UnsupportedError):
            lab.call("load", "odd", Network(model, {}, {"t0": np.ones((2, 3), np.float32)}))
        self.assert_case(lab, "relu")

    # -- life cycle

    def test_two_networks_are_loaded_at_once(self, lab: Laboratory) -> None:
        """Two networks that run in turn have separate results; unloading one keeps the other."""
        names = ("conv", "gemm")
        for name in names:
            lab.call("load", name, self.needed(name))
        for name in (*names, *names):
            lab.call("run", name)
        for name in names:
            self.assert_agrees(cases.network(name), lab.call("outputs", name), cases.expected(name))
        lab.call("unload", "conv")
        lab.call("run", "gemm")
        self.assert_agrees(
            cases.network("gemm"), lab.call("outputs", "gemm"), cases.expected("gemm")
        )
        lab.call("unload", "gemm")

    def test_one_network_is_loaded_twice(self, lab: Laboratory) -> None:
        """Two networks with the same layers and names, but other values, stay apart."""
        for seed in (1, 2):
            lab.call("load", f"conv{seed}", self.needed("conv", seed))
        for seed in (1, 2):
            lab.call("run", f"conv{seed}")
        for seed in (1, 2):
            self.assert_agrees(
                cases.network("conv", seed),
                lab.call("outputs", f"conv{seed}"),
                cases.expected("conv", seed),
            )
            lab.call("unload", f"conv{seed}")

    @pytest.mark.parametrize("name", ["residual_block", "lstm", "batch_normalization", "not"])
    def test_warming_and_running_again_give_the_same(self, lab: Laboratory, name: str) -> None:
        """A run leaves nothing behind that changes the next, and ``warm_io`` changes no value."""
        lab.call("load", name, self.needed(name))
        lab.call("run", name)
        first = lab.call("outputs", name)
        for _ in range(3):
            lab.call("warm_io", name)
        lab.call("run", name, 3)
        again = lab.call("outputs", name)
        lab.call("unload", name)
        for output, value in first.items():
            np.testing.assert_array_equal(again[output], value)

    def test_outputs_stay_what_they_were(self, lab: Laboratory) -> None:
        """Arrays that ``outputs`` returned keep their values after another run and ``unload``."""
        lab.call("load", "kept", self.needed("conv", 1))
        lab.call("load", "other", cases.network("conv", 2))
        lab.call("run", "kept")
        kept = lab.call("outputs_kept", "kept", "other")
        lab.call("unload", "other")
        self.assert_agrees(cases.network("conv", 1), kept, cases.expected("conv", 1))

    @pytest.mark.parametrize("name", ["residual_block", "relu", "gemm"])
    def test_a_copy_leaves_the_other_network_alone(self, lab: Laboratory, name: str) -> None:
        """A copy computes on its own values or the other's; the other's results stay right."""
        network, copy = self.needed(name, 1), cases.network(name, 2)
        found, copied = lab.call("infer_copy", network, copy)
        self.assert_agrees(network, found, cases.expected(name, 1), "beside its copy")
        shared = Network(copy.model, copy.weights, network.inputs)
        for wanted in (cases.evaluate(shared), cases.expected(name, 1)):
            if not cases.differences(copied, wanted, self.tolerance):
                return
        self.assert_agrees(copy, copied, cases.expected(name, 2), "as a copy")

    def test_a_network_is_loaded_again_after_unloading(self, lab: Laboratory) -> None:
        """After ``unload``, a network can be loaded under the same names."""
        self.needed("conv")
        for seed in (0, 1):
            self.assert_case(lab, "conv", seed)

    def test_unload_frees_memory(self, lab: Laboratory) -> None:
        """Memory does not grow while networks are loaded and unloaded."""
        self.needed("matmul")
        side = int((_WEIGHT_BYTES / 4) ** 0.5)
        network = cases.build(
            f"(float[1,{side}] x, float[{side},{side}] w1) => (y) {{ y = MatMul(x, w1) }}"
        )
        used = []
        for _ in range(_WARM_LOADS + _MORE_LOADS):
            lab.infer(network)
            used.append(lab.call("resident_bytes"))
        # How much of the freed memory an allocator keeps differs from time to time.
        growth = float(np.median(used[-5:])) - max(used[:_WARM_LOADS])
        assert growth < _MORE_LOADS * _WEIGHT_BYTES / 2, f"MiB in use: {[n // 2**20 for n in used]}"

    # -- settings

    def test_the_worker_has_the_environment(self, lab: Laboratory) -> None:
        """The worker process has the variables that ``environment`` returns."""
        wanted = dict(self.plugin().environment(self.settings()))
        assert lab.call("variables", tuple(wanted)) == wanted

    @pytest.mark.parametrize("name", ["conv", "matmul", "softmax"])
    def test_two_threads_compute_the_same(self, two_threads: Laboratory, name: str) -> None:
        """Results with two threads are right."""
        self.needed(name)
        self.assert_case(two_threads, name)

    def test_close_ends_the_timer(self) -> None:
        """``close`` lets the worker end by itself, even while a network is loaded."""
        network = self.needed("conv")
        with self.laboratory(self.settings()) as lab:
            lab.call("load", "left", network)
            lab.call("run", "left")
            ending = lab.close()
        assert not ending, f"the worker did not end by itself: {ending}"

    def test_one_thread_means_one(self, lab: Laboratory) -> None:
        """With one thread, a large product takes no more CPU time than time on the clock."""
        self.needed("matmul")
        lab.call("load", "large", _product(768))
        lab.call("run", "large", 2)
        seconds = lab.call("seconds", "large", 5)
        lab.call("unload", "large")
        wall, cpu = np.sum(seconds, axis=0)
        assert cpu < 1.5 * wall, f"{cpu:.3f} s of CPU time in {wall:.3f} s on the clock"

    def test_every_option_computes_the_same(self, choice: str) -> None:
        """Results are right with each choice of each option, in a worker of its own."""
        if not choice:
            pytest.skip("the backend has no options")
        if choice in self.untested_options:
            pytest.skip(f"{choice} is declared untested: {self.untested_options[choice]}")
        name, _, value = choice.partition("=")
        with self.laboratory(self.settings(options={name: value})) as lab:
            for case in ("residual_block", "gemm", "softmax"):
                self.needed(case)
                self.assert_case(lab, case, tolerance=self.option_tolerances.get(choice))

    # -- rewriting

    @pytest.mark.parametrize("granularity", [1, 3])
    @pytest.mark.parametrize("name", cases.REWRITTEN)
    def test_bricks_of_a_rewritten_graph_compute_what_it_computes(
        self, lab: Laboratory, name: str, granularity: int
    ) -> None:
        """Bricks that run in order, each on earlier results, compute the whole model's results.

        Weights are drawn anew: a rewritten graph has no values of large ones.
        """
        if not self.plugin.traits.rewrites:
            pytest.skip("the backend runs models as they are given: Traits.rewrites is not set")
        given = self.needed(name).model
        graph = lab.call("rewrite", given, self.settings(), 0)
        assert graph.inputs == given.inputs, "rewrite() must keep names and order of the inputs"
        assert graph.outputs == given.outputs, "rewrite() must keep names and order of the outputs"
        network = materialize(graph)
        whole = lab.infer(network)
        if not any(layer.domain for layer in graph.layers):
            self.assert_agrees(network, whole, cases.evaluate(network), "rewritten")
        values = {**network.weights, **network.inputs}
        for indices in split(graph, granularity):
            brick, names = cases.brick(graph, indices, values)
            results = lab.infer(brick)
            values.update({names[result]: value for result, value in results.items()})
        self.assert_agrees(network, {n: values[n] for n in graph.outputs}, whole, "brick by brick")

    # -- timing

    def test_the_timed_region_covers_the_work(self, lab: Laboratory) -> None:
        """A product of 0.9 GFLOP takes much longer than a tiny product."""
        self.needed("matmul")
        lab.call("load", "large", _product(768))
        lab.call("load", "small", _product(2))
        median: dict[str, Any] = {}
        for key in ("large", "small"):
            lab.call("run", key, 3)
            median[key] = float(np.median(lab.call("seconds", key, 9), axis=0)[0])
            lab.call("unload", key)
        assert median["large"] > 5 * median["small"], f"seconds for a run: {median}"

    def test_the_engine_times_it(self, bench: BackendWorker) -> None:
        """The worker that makes all measurements loads, times and checks networks."""
        models = {name: self.needed(name).model for name in ("residual_block", "gemm")}
        odd = cases.odd_model("NoSuchOperator")
        for name, model in models.items():
            bench.load(name, model)
        for name in models:
            samples = bench.sample(name, 3, warm_io=True)
            assert len(samples) == 3
            assert min(samples) > 0
        assert set(bench.check({**models, "odd": odd}).unsupported) == {"odd"}
        for name in models:
            bench.unload(name)

    def test_a_profile_has_every_layer_that_is_executed(self, bench: BackendWorker) -> None:
        """A profile names the tensors that each executed layer computes, if there is a profile."""
        model = self.needed("residual_block").model
        graph = bench.rewrite(model)
        try:
            profile = bench.profile(model, 3, latency_ms=100.0)
        except UnsupportedError as error:
            pytest.skip(f"the timer has no profile: {error.message}")
        known = {name for each in profile.layers for name in each.outputs}
        assert not [layer for layer in graph.layers if known.isdisjoint(layer.outputs)]
        assert min(each.ms for each in profile.layers) >= 0
        assert profile.sum_ms < 3 * profile.run_ms

    def test_a_timeline_is_within_its_run(self, bench: BackendWorker) -> None:
        """Spans begin within the run and end with it, if there is a timeline."""
        model = self.needed("residual_block").model
        try:
            timeline = bench.timeline(model, latency_ms=100.0)
        except UnsupportedError as error:
            pytest.skip(f"the timer has no timeline: {error.message}")
        assert timeline.spans
        for span in timeline.spans:
            assert span.name
            assert span.thread
            assert 0 <= span.begin_ms <= span.begin_ms + span.ms <= 2 * timeline.run_ms + 1
        begins = [span.begin_ms for span in timeline.spans]
        assert begins == sorted(begins)


def _product(side: int) -> Network:
    shape = f"float[{side},{side}]"
    return cases.build(f"({shape} x, {shape} w1) => (y) {{ y = MatMul(x, w1) }}")
