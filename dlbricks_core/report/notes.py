"""Words of notes: the one catalogue of their sentences, by code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from dlbricks_core.facts import Note
from dlbricks_core.figures.widths import widest_text, width_text
from dlbricks_core.wording import argument, listed

if TYPE_CHECKING:
    from dlbricks_core.report.data import NoteData

_NAMED = 3  #: Maximum number of models, operators or machines that a sentence names.


def text(note: Note) -> str:
    """The sentence of a note, without a full stop; its subject comes first."""
    words = WORDS[note.code](**note.values)
    return f"{note.subject}: {words}" if note.subject else words


def note_data(note: Note) -> NoteData:
    """A note as the JSON object that scripts read: its code and values beside its sentence."""
    return cast("NoteData", {**note.to_dict(), "text": text(note)})


def notes_data(notes: Iterable[Note]) -> list[NoteData]:
    """Notes as :func:`note_data` writes them."""
    return [note_data(each) for each in notes]


def texts(data: Iterable[Mapping[str, Any]]) -> list[str]:
    """Sentences of notes in JSON."""
    return [str(each["text"]) for each in data]


def _threads(number: int) -> str:
    return f"{number} thread{'' if number == 1 else 's'}"


def _time(ms: float) -> str:
    """A time in the unit that reads best, with three significant digits."""
    if ms >= 1:
        return f"{ms:.3g} ms" if ms < 1000 else f"{ms / 1000:.3g} s"
    return f"{ms * 1000:.3g} µs" if ms >= 1e-3 else f"{ms * 1e6:.3g} ns"


def _extreme(which: str, sample_ms: float, mean_ms: float) -> str:
    side = "greater" if sample_ms > mean_ms else "smaller"
    return (
        f"the {which} ({_time(sample_ms)}) is {abs(sample_ms - mean_ms) / mean_ms:.0%} {side}"
        f" than the mean ({_time(mean_ms)})"
    )


#: Disturbances by the code of the note on them.
_TIMED_WHILE = {
    "cpu-use-unknown": "nothing told what else used the CPUs",
    "others-used-cpus": "other processes used the CPUs",
    "hypervisor-took-time": "the hypervisor took CPU time away",
    "quota-stopped-container": "the container's CPU quota stopped it",
    "widens-others": "something contradicts what is known of other networks",
    "cpus-far-apart": "virtual CPUs were far from each other",
}


def _disturbed(disturbance: str) -> str:
    # Earlier versions stored a sentence.
    during = _TIMED_WHILE.get(disturbance)
    return disturbance if during is None else f"timed while {during}"


def _width(half_width: float | None) -> str:
    return "(incomplete)" if half_width is None else width_text(half_width, 1)


def _imprecise(reason: str) -> Callable[..., str]:
    """Words for figures that miss the requested precision.

    Args:
        reason: Why they miss it, with the names of further values in braces.
    """

    def words(
        precision: float, figures: Sequence[Mapping[str, Any]], more: int, **limits: Any
    ) -> str:
        named = [f"{each['name']} {_width(each['half_width'])}" for each in figures]
        if more:
            named.append(f"and {more} more figures")
        why = reason.format(**limits)
        return f"not within ±{precision * 100:.3g}% ({why}): {', '.join(named)}"

    return words


_BUDGET = "the budget of {budget_s:g} s ended first"

_DRIFT = "drift of the machine is part of the normalized latency"

_TYPES = {"codes": "quantized numbers"}  #: Words for types that are no element type.


def _unlike(
    bricks: Sequence[str],
    more: int,
    half_widths: Sequence[float],
    half_widths_without: Sequence[float],
) -> str:
    """Sentence on bricks that widen intervals because little that was measured is like them."""
    named = "; ".join(bricks) + (f" and {more} more" if more else "")
    intervals = "the interval is" if len(half_widths) == 1 else "the intervals are"
    them = "it" if len(bricks) + more == 1 else "them"
    without = (
        f", and would be {widest_text(half_widths_without)} without {them}"
        if half_widths_without
        else ""
    )
    return (
        f"little that was measured is like {named}: {intervals} {widest_text(half_widths)}{without}"
    )


def _never_measured(
    quantity: str, models: Sequence[str], backend: str, system: str, observed: bool
) -> str:
    asked = f", with {argument('quantity')} {quantity}" if observed else ""
    return (
        f"the {quantity.replace('-', ' ')} of {listed(models, _NAMED)} was never measured with "
        f"{backend} on {system}. To change that, time models there, or their bricks ('dlbricks "
        f"suite write' here, 'dlbricks suite time' there){asked}, and bring the store"
    )


def _shipped(
    quantity: str,
    names: Sequence[str],
    models: int,
    backend: str,
    version: str,
    threads: int,
    system: str,
    date: str,
) -> str:
    theirs = "its" if len(names) == 1 else "their"
    return (
        f"{quantity} of {listed(names, _NAMED)} is predicted from {models} well-known models on "
        f"{backend} {version}, {_threads(threads)} ({system}, {date}): measuring with "
        f"{argument('quantity')} {quantity} observes {theirs} bricks"
    )


def _converted(own_instruction: bool) -> str:
    return f"is converted to float32{' by an instruction of its own (f16c)' * own_instruction}"


def _left_out(what: str) -> Callable[..., str]:
    """Words for layers that a sum leaves out, for want of something."""

    def words(operators: Mapping[str, int]) -> str:
        named = ", ".join(f"{op} ({number})" for op, number in operators.items())
        return f"no {what} for {named}; its sum leaves them out"

    return words


#: Sentence of each code, from the values of its note.
WORDS: dict[str, Callable[..., str]] = {
    "plugin": lambda text: text,
    # Disturbances of the machine.
    "cpu-use-unknown": lambda: "nothing tells what else used the CPUs (no /proc)",
    "others-used-cpus": lambda used, cpus: f"other processes used {used:.1f} of {cpus} CPUs",
    "hypervisor-took-time": lambda share: f"the hypervisor took away {share:.1%} of the CPU time",
    "quota-stopped-container": lambda seconds: (
        f"the container's CPU quota stopped it for {seconds:.1f} s"
    ),
    "cpu-distance-unknown": lambda reason: (
        "whether the hypervisor had virtual CPUs on cores far from each other is not known: the "
        f"system does not let a thread choose its CPU ({reason})"
    ),
    "cpus-far-apart": lambda share, times: (
        f"{share:.0%} of the time the hypervisor had virtual CPUs on cores far from each other: "
        f"one took up to {times:.1f} times as long to read what another had written as to read "
        "memory"
    ),
    "timed-while-disturbed": _disturbed,
    "measured-beside-others": lambda load, times, stored: (
        f"{'rests on samples that were' if stored else 'was'} measured while other programs used "
        f"{load:.0%} of the CPUs: it may have taken up to {times:.1f} times as long as on a quiet "
        "machine, and the interval allows for that"
    ),
    "probes-disturbed": lambda networks: (
        f"{listed(networks, _NAMED)}: other programs disturbed the timing, and nothing else rests "
        "on it"
    ),
    "widens-others": lambda networks: (
        f"{listed(networks, _NAMED)}: the timing contradicts what is known of other networks, and "
        "nothing else rests on it"
    ),
    # Samples.
    "samples-deviate": lambda deviation_ms, mean_ms: (
        f"the standard deviation ({_time(deviation_ms)}) is {deviation_ms / mean_ms:.0%} of the "
        f"mean ({_time(mean_ms)})"
    ),
    "extreme-sample": _extreme,
    "short-sample": lambda sample_ms: f"the shortest sample took only {_time(sample_ms)}",
    # Precision that was not reached, by the reason.
    "budget-ended": _imprecise(_BUDGET),
    "budget-ended-at-start": _imprecise(f"{_BUDGET}, without time to start {{backend}}"),
    "budget-too-small": _imprecise("no further timing fits into the budget of {budget_s:g} s"),
    "most-runs-reached": _imprecise("{runs} runs are the most"),
    "precision-reached": _imprecise("it is reached"),
    "no-run-narrows": _imprecise("no further run narrows it"),
    "no-timing-narrows": _imprecise("no further timing narrows it"),
    "store-ended": _imprecise("as far as the store goes"),
    "threads-of-phases": lambda prompt, token, prompt_ms, token_ms: (
        f"a prompt is fastest with {_threads(prompt)} ({_time(prompt_ms)}), a token with "
        f"{_threads(token)} ({_time(token_ms)}): "
        f"{argument('threads')} prompt={prompt},token={token}"
    ),
    # Models and how they ran.
    "engine-python": lambda engine, ms, measured: (
        f"latencies include up to {_time(ms)} for the Python of {engine}, a number of calls by "
        + ("a call that was timed here" if measured else "the processor's published speed")
    ),
    "cut-as-it-is": lambda backend, reason: (
        f"cut as it is, for {backend} does not tell what it executes: {reason}"
    ),
    "denormal-weights": lambda share: (
        f"{share:.0%} of the weights that were looked at are denormal numbers, which may take many "
        "times as long: bricks are timed and predicted with ordinary ones"
    ),
    "blocks-repeat": lambda backend, layers, of_layers: (
        f"what {backend} executes follows from {layers:,} of its {of_layers:,} layers, for its "
        "blocks repeat"
    ),
    "timed-in-place": lambda: "the whole model was timed in place of its bricks",
    "calibrated-on-it": lambda: (
        "its interval is not calibrated: the calibration was taken on it, among others"
    ),
    "no-further-probe-helps": lambda probes, of_probes: (
        f"{probes} of {of_probes} probes were timed: no further one would narrow the intervals of "
        "other networks"
    ),
    "own-form-differs": lambda native_ms, ratio: (
        f"in its framework's own form it takes {native_ms:.3g} ms; as the IR lowers it, "
        f"{ratio:.2f} times that"
    ),
    "bricks-in-another-session": lambda bricks, of_bricks: (
        f"{bricks} of {of_bricks} bricks were timed in another session than the whole model: "
        f"{_DRIFT} ({argument('force')} times all anew)"
    ),
    "bricks-in-other-rounds": lambda bricks, of_bricks: (
        f"{bricks} of {of_bricks} bricks were timed before or after the whole model, beside "
        f"which they do not fit into memory: {_DRIFT}"
    ),
    "runs-as-lowered": lambda reason: f"it runs as the IR lowers it: {reason}",
    "no-brick-latencies": lambda reason: f"it gives no latencies of bricks: {reason}",
    "whole-takes-much-memory": lambda needed_bytes, available_bytes, most_share: (
        f"its bricks count, and it does not run as a whole: that takes {needed_bytes / 1e9:.1f} GB "
        f"or more, above {most_share:.0%} of the {available_bytes / 1e9:.1f} GB that are free "
        f"({argument('end_to_end')} runs it)"
    ),
    "whole-did-not-run": lambda reason: f"it did not run as a whole, so its bricks count: {reason}",
    # Bases of estimates.
    "backend-absent": lambda backend: (
        f"{backend} is not installed: version and options are those of what was measured elsewhere"
    ),
    "version-differs": lambda backend, measured, installed: (
        f"figures are those of {backend} {measured}, which was measured on that system; "
        f"{installed} is installed here"
    ),
    "plugin-differs": lambda plugin, measured, installed: (
        f"figures are those of the plugin {plugin} {measured}, which was measured on that system; "
        f"{installed} is installed here"
    ),
    "never-measured": _never_measured,
    "machine-alone": lambda machine, fingerprint: (
        f"figures are those of {machine} alone: other machines share its fingerprint {fingerprint}"
    ),
    "machines-together": lambda machines: (
        f"figures are those of {listed(machines, _NAMED)} together, which are built and set alike"
    ),
    "other-composer": lambda held, lacking: (
        f"the store holds bricks of the composer {held}, not of {lacking}"
    ),
    # Predictions, and why to doubt them.
    "backend-not-measured": lambda backend: (
        f"nothing was measured with {backend}: predictions rest on facts of the processor alone"
    ),
    "measured-elsewhere": lambda backend, here, threads, cpu, cpu_threads: (
        f"{backend} was not measured on {'this' if here else 'that'} system with "
        f"{_threads(threads)}: predictions rest on {cpu or 'another processor'} with "
        f"{_threads(cpu_threads)}"
    ),
    "type-not-measured": lambda backend, dtype, layers: (
        f"nothing was measured in {_TYPES.get(dtype, dtype)} with {backend} on a "
        f"processor like this ({listed(layers, _NAMED)}): how fast that is beside float32 is not "
        "known, and the interval allows for it"
    ),
    "operators-not-measured": lambda backend, operators: (
        f"nothing was measured that is computed like {', '.join(operators)} with {backend}: how "
        "fast such layers are is guessed from their size"
    ),
    "operators-may-be-unsupported": lambda backend, operators: (
        f"{backend} may not support {listed(operators, _NAMED)}, which ONNX does not define: "
        "measuring them tells"
    ),
    "bricks-unlike-measured": _unlike,
    "predictor-silent": lambda predictor, bricks, of_bricks: (
        f"the predictor {predictor!r} gives no figure for {bricks} of the {of_bricks} bricks that "
        "were not measured"
    ),
    "too-few-observed": lambda quantity, networks, families, held, held_families: (
        f"to predict {quantity}, {networks} networks of {families} families of models are needed, "
        f"and the store holds {held} of {held_families} in this setup: measure more models "
        f"with {argument('quantity')} {quantity}"
    ),
    "predicted-from-shipped": _shipped,
    "models-larger-than-shipped": lambda quantity, names, models: (
        f"{quantity} of {listed(names, _NAMED)} is not predicted from the {models} well-known "
        "models of the package: none is half as large"
    ),
    "bricks-larger-than-observed": lambda quantity, bricks, of_bricks: (
        f"{quantity} is not predicted for {bricks} of {of_bricks} bricks: nothing nearly as large "
        "was observed"
    ),
    # Comparisons.
    "parts-of-own-layers": lambda backends: (
        f"parts are cut from the models' own layers, not from what {' or '.join(backends)} makes "
        "of them: alone, they pay for conversions of layout and lack fusions that whole models have"
    ),
    "load-unknown": lambda sessions, of_sessions: (
        f"how busy others kept the machine is not known for {sessions} of {of_sessions} sessions: "
        "who is fastest rests on intervals alone there"
    ),
    "different-sessions": lambda models, of_models: (
        f"{models} of {of_models} models or their parts were timed in different sessions on "
        "different backends: drift of the machine is part of their ratios "
        f"({argument('force')} times all anew)"
    ),
    "cuts-unknown": lambda backend, places: (
        f"which tensors {backend} hands on at {places} of the places where it is cut is not "
        "known; parts reach across these places"
    ),
    "no-common-cut": lambda: (
        "no place where all backends cut it is known; only the whole is compared"
    ),
    "parts-do-not-add-up": lambda share: (
        f"its parts come to {share:.0%} of what the whole model takes; the table of parts does not "
        "explain the rest"
    ),
    "parts-contradict": lambda backend: (
        f"{backend} takes less end to end, but its parts come to more; the table of parts does not "
        "explain the difference"
    ),
    # Element types.
    "instruction-sets-unknown": lambda: "the instruction sets of this processor are not known",
    "multiplied-natively": lambda instructions: (
        f"this processor multiplies it itself ({', '.join(instructions)})"
    ),
    "converted-to-float32": _converted,
    "computed-in-float32": lambda backend, layers, of_layers, dtype: (
        f"{backend} computes {layers} of {of_layers} layers in float32, not in {dtype}"
    ),
    # Analyses.
    "operations-unknown": _left_out("rule for the operations"),
    "sizes-unknown": _left_out("known size"),
}


def add_words(words: Mapping[str, Callable[..., str]]) -> None:
    """Adds the sentences of another distribution's notes.

    Args:
        words: The sentence of each code, from the values of its note.

    Raises:
        ValueError: If a code has a sentence.
    """
    if taken := WORDS.keys() & words.keys():
        raise ValueError(f"these notes have a sentence: {', '.join(sorted(taken))}")
    WORDS.update(words)
