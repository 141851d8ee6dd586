"""Catalogue of the sentences of all notes, by code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from dlbricks_core.facts import Note
from dlbricks_core.figures.statistics import widest_text, width_text
from dlbricks_core.wording import argument, count, listed

if TYPE_CHECKING:
    from dlbricks_core.report.data import NoteData

NAMED = 3  #: Maximum number of models, operators or machines that a sentence names.


def text(note: Note) -> str:
    """The sentence of a note, without a full stop; its subject comes first."""
    sentence = WORDS.get(note.code)
    if sentence is None:
        raise LookupError(f"add a sentence for the note {note.code!r} to WORDS in {__name__}")
    words = sentence(**note.values)
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


def time_text(ms: float) -> str:
    """A time in milliseconds in the unit that reads best, with three significant digits."""
    if ms >= 1:
        return f"{ms:.3g} ms" if ms < 1000 else f"{ms / 1000:.3g} s"
    return f"{ms * 1000:.3g} µs" if ms >= 1e-3 else f"{ms * 1e6:.3g} ns"


def _extreme(which: str, sample_ms: float, mean_ms: float) -> str:
    side = "greater" if sample_ms > mean_ms else "smaller"
    return (
        f"the {which} ({time_text(sample_ms)}) is {abs(sample_ms - mean_ms) / mean_ms:.0%} {side}"
        f" than the mean ({time_text(mean_ms)})"
    )


#: Disturbances by the code of the note on them.
_TIMED_WHILE = {
    "cpu-use-unknown": "the CPU use of other programs was unknown",
    "others-used-cpus": "other processes used the CPUs",
    "hypervisor-took-time": "the hypervisor took CPU time away",
    "quota-stopped-container": "the container's CPU quota stopped it",
    "widens-others": "the timing contradicted the measurements of other networks",
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
        reason: Reason in words, with the names of further values in braces.
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

_DECIMAL = 10  #: Least factor without a decimal.
_DRIFT = "drift of the machine is part of the normalized latency"


def _unlike(
    bricks: Sequence[str],
    more: int,
    half_widths: Sequence[float],
    half_widths_without: Sequence[float],
) -> str:
    """Sentence on bricks that widen intervals because few measured networks resemble them."""
    named = "; ".join(bricks) + (f" and {more} more" if more else "")
    intervals, are = ("interval", "is") if len(half_widths) == 1 else ("intervals", "are")
    width = widest_text(half_widths)
    consequence = (
        f"this widens the {intervals} from {widest_text(half_widths_without)} to {width}"
        if half_widths_without
        else f"the {intervals} {are} {width}"
    )
    return f"few measured networks resemble {named}: {consequence}"


def _times(factor: float) -> str:
    """A factor with two digits: ``5.6``, ``30,000``."""
    return f"{factor:.1f}" if factor < _DECIMAL else f"{float(f'{factor:.2g}'):,.0f}"


def _never_measured(
    quantity: str, models: Sequence[str], backend: str, system: str, observed: bool
) -> str:
    asked = f", with {argument('quantity')} {quantity}" if observed else ""
    return (
        f"the {quantity.replace('-', ' ')} of {listed(models, NAMED)} was never measured with "
        f"{backend} on {system}. Time models there, or their bricks ('dlbricks "
        f"suite write' here, 'dlbricks suite time' there){asked}, and copy the store here"
    )


def _converted(own_instruction: bool) -> str:
    return f"is converted to float32{' by a dedicated instruction (f16c)' * own_instruction}"


#: Sentence of each code, from the values of its note.
WORDS: dict[str, Callable[..., str]] = {
    "plugin": lambda text: text,
    # Disturbances of the machine.
    "cpu-use-unknown": lambda: "the CPU use of other programs is unknown (no /proc)",
    "others-used-cpus": lambda used, cpus: f"other processes used {used:.1f} of {cpus} CPUs",
    "machine-slower-now": lambda share: (
        f"this machine computes at {share:.0%} of the speed that it had at another time: other "
        "virtual machines may share its processor"
    ),
    "hypervisor-took-time": lambda share: f"the hypervisor took away {share:.1%} of the CPU time",
    "quota-stopped-container": lambda seconds: (
        f"the container's CPU quota stopped it for {seconds:.1f} s"
    ),
    "cpu-distance-unknown": lambda reason: (
        "the distance between virtual CPUs is unknown, because the system does not let a thread "
        f"choose its CPU ({reason})"
    ),
    "cpus-far-apart": lambda share, times: (
        f"the hypervisor ran virtual CPUs on distant cores for {share:.0%} of the time: reading "
        f"another CPU's data took up to {_times(times)} times as long as reading memory"
    ),
    "timed-while-disturbed": _disturbed,
    "measured-beside-others": lambda load, times, stored: (
        f"{'rests on samples that were' if stored else 'was'} measured while other programs used "
        f"{load:.0%} of the CPUs: the samples may be up to {_times(times)} times as long as on a "
        "quiet machine, and the interval includes this"
    ),
    "widens-others": lambda networks: (
        f"{listed(networks, NAMED)}: the timing contradicts the measurements of other networks, "
        "so it is used for no other network"
    ),
    # Samples.
    "samples-deviate": lambda deviation_ms, mean_ms: (
        f"the standard deviation ({time_text(deviation_ms)}) is {deviation_ms / mean_ms:.0%} of "
        f"the mean ({time_text(mean_ms)})"
    ),
    "extreme-sample": _extreme,
    "short-sample": lambda sample_ms: f"the shortest sample took only {time_text(sample_ms)}",
    # Precision that was not reached, by the reason.
    "budget-ended": _imprecise(_BUDGET),
    "budget-ended-at-start": _imprecise(f"{_BUDGET}, without time to start {{backend}}"),
    "budget-too-small": _imprecise("no further timing fits into the budget of {budget_s:g} s"),
    "most-runs-reached": _imprecise("{runs} runs are the maximum"),
    "precision-reached": _imprecise("the precision is reached"),
    "costs-as-plain": _imprecise("further runs would cost more than a plain script of all models"),
    "no-run-narrows": _imprecise("no further run narrows the interval"),
    "no-timing-narrows": _imprecise("no further timing narrows the interval"),
    "store-ended": _imprecise("the store has no further measurements"),
    # Models and how they ran.
    "cut-as-it-is": lambda backend, reason: (
        f"its own layers are cut, because {backend} does not report the graph that it executes: "
        f"{reason}"
    ),
    "denormal-weights": lambda share: (
        f"{100 * share:.2g}% of the inspected weights are denormal numbers, which may slow the "
        "model down many times: its bricks are timed and predicted with normal numbers"
    ),
    "weights-absent": lambda files: (
        f"{listed(files, NAMED)} with its weights is missing: figures are for drawn weights, or "
        "for those of another model with the same layers"
    ),
    "loops-written-out": lambda steps: (
        f"{steps:,} steps of loops are predicted and timed as layers outside of the loops: inside "
        "they take 0.4 to 2.4 times as long"
    ),
    "values-decide-branches": lambda operators: (
        f"the time of {listed(operators, NAMED)} depends on values: figures are for random "
        "values, which take up to ten times as long as sorted values or values of the same sign"
    ),
    "indices-decide-look-ups": lambda tables, table_bytes: (
        f"indices are drawn over all rows of {count(tables, 'table')} "
        f"({table_bytes / 1e6:,.3g} MB): where inputs repeat rows, look-ups take 0.04 to 0.6 times "
        "as long"
    ),
    "blocks-repeat": lambda backend, layers, of_layers: (
        f"its blocks repeat, so {backend} rewrote {layers:,} of its {of_layers:,} layers, and the "
        "others follow from them"
    ),
    "timed-in-place": lambda: "the whole model was timed in place of its bricks",
    "calibrated-on-it": lambda: (
        "its interval is not calibrated, because the calibration was fitted to this model too"
    ),
    "rates-timed": lambda networks, seconds: (
        f"this system was not known, so {networks} small networks were timed first "
        f"({seconds:.1f} s): from now on, estimates without a run rest on them"
    ),
    "own-form-differs": lambda native_ms, ratio: (
        f"it takes {native_ms:.3g} ms in its framework's own form, and {ratio:.2f} times as long "
        "as lowered from the IR"
    ),
    "bricks-in-another-session": lambda bricks, of_bricks: (
        f"{bricks} of {of_bricks} bricks were timed in another session than the whole model: "
        f"{_DRIFT} ({argument('force')} times all anew)"
    ),
    "bricks-in-other-rounds": lambda bricks, of_bricks: (
        f"{bricks} of {of_bricks} bricks were timed before or after the whole model, because they "
        f"do not fit into memory beside it: {_DRIFT}"
    ),
    "runs-as-lowered": lambda reason: f"it runs as the IR lowers it: {reason}",
    "no-brick-latencies": lambda reason: f"it gives no latencies of bricks: {reason}",
    "whole-takes-much-memory": lambda needed_bytes, available_bytes, most_share: (
        f"only its bricks were timed: the whole model takes {needed_bytes / 1e9:.1f} GB or more, "
        f"above {most_share:.0%} of the {available_bytes / 1e9:.1f} GB of free memory "
        f"({argument('end_to_end')} runs it)"
    ),
    "whole-did-not-run": lambda reason: (
        f"only its bricks are used, because the whole model did not run: {reason}"
    ),
    # Bases of estimates.
    "backend-absent": lambda backend: (
        f"{backend} is not installed: the estimate is for the version and options of measurements "
        "on another system"
    ),
    "form-unknown": lambda backend: (
        f"{backend} is not installed: language models have the layers that ONNX defines, not those "
        "that its users run"
    ),
    "version-differs": lambda backend, measured, installed: (
        f"figures are for {backend} {measured}, the version measured on that system; "
        f"{installed} is installed here"
    ),
    "plugin-differs": lambda plugin, measured, installed: (
        f"figures are for the plugin {plugin} {measured}, the version measured on that system; "
        f"{installed} is installed here"
    ),
    "never-measured": _never_measured,
    "machine-alone": lambda machine, fingerprint: (
        f"figures rest on measurements of {machine} only; other machines share its fingerprint "
        f"{fingerprint}"
    ),
    "machines-together": lambda machines: (
        f"figures rest on measurements of {listed(machines, NAMED)} together: these machines are "
        "built and set up alike"
    ),
    "other-composer": lambda held, lacking: (
        f"the store has bricks of the composer {held}, not of {lacking}"
    ),
    # Predictions, and reasons to doubt them.
    "threads-beyond-cpus": lambda threads, cpus: (
        f"{count(threads, 'thread')} on {count(cpus, 'CPU')}: predictions are as if "
        f"there were {cpus}, and threads that wait for one another take longer"
    ),
    "operators-may-be-unsupported": lambda backend, operators: (
        f"{backend} may not support {listed(operators, NAMED)}, which ONNX does not define: "
        "a measurement shows it"
    ),
    "bricks-unlike-measured": _unlike,
    "predictor-not-installed": lambda distribution: (
        f"bricks that did not run have no figure: predictions come with {distribution}, which is "
        "not installed"
    ),
    "predictor-silent": lambda predictor, bricks, of_bricks, known=0, disturbed=0: (
        f"the predictor {predictor!r} gives no figure for {bricks} of the {of_bricks} bricks that "
        "were not measured"
        + (
            f"; it had the figures of {known} bricks, without {disturbed} that were measured while "
            "other programs used the CPUs"
            if disturbed
            else ""
        )
    ),
    # Element types.
    "instruction-sets-unknown": lambda: "the instruction sets of this processor are not known",
    "multiplied-natively": lambda instructions: (
        f"this processor multiplies it natively ({', '.join(instructions)})"
    ),
    "converted-to-float32": _converted,
    "computed-in-float32": lambda backend, layers, of_layers, dtype: (
        f"{backend} computes {layers} of {of_layers} layers in float32, not in {dtype}"
    ),
}


def add_words(words: Mapping[str, Callable[..., str]]) -> None:
    """Adds the sentences of another distribution's notes.

    Args:
        words: The sentence of each code, from the values of its note.

    Raises:
        ValueError: If a code already has a sentence.
    """
    if taken := WORDS.keys() & words.keys():
        raise ValueError(f"these notes already have a sentence: {', '.join(sorted(taken))}")
    WORDS.update(words)
