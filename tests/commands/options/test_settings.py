"""One table of settings: options, arguments of the API and fields of jobs are made of it."""

import importlib
import inspect
from collections.abc import Iterator
from dataclasses import MISSING, fields
from typing import Any, get_args, get_type_hints

import click
import dlbricks_suite
import pytest
from dlbricks_accuracy.command import CheckJob
from dlbricks_accuracy.command import command as check
from dlbricks_compare import command as compare
from dlbricks_compare import compare as compare_models
from dlbricks_compare import outputs_command as verify
from dlbricks_compare.command import CompareJob
from dlbricks_compare.outputs_command import OutputsJob
from dlbricks_explain import command as explain
from dlbricks_explain.command import LayersJob, TraceJob
from dlbricks_graph import command as graph
from dlbricks_graph.command import ShowLatenciesJob, ShowOperationsJob
from dlbricks_records import stores_command as results
from dlbricks_records.json_records import ResultsRecordData
from dlbricks_records.stores import ExportJob, ImportJob, MergeJob
from dlbricks_serving import advise, serve
from dlbricks_serving.advice.job import AdviseJob
from dlbricks_serving.commands import serve as serving
from dlbricks_serving.commands.advise import command as advise_command
from dlbricks_serving.serving.job import ServeCompareJob, ServeJob
from dlbricks_serving.settings import OWN
from dlbricks_sizes.api import AtSizes
from dlbricks_study.command import command as study_command
from dlbricks_study.job import StudyJob, StudyReportJob
from dlbricks_study.show_repeats import ShowRepeatsJob, repeats_command
from dlbricks_suite import command as suite
from dlbricks_suite.command import SuiteTimeJob, SuiteWriteJob
from dlbricks_survey import calibration_command as machine
from dlbricks_survey import pack_survey, take_survey
from dlbricks_survey.calibration_command import CalibrateJob, ForgetJob, ProbeJob
from dlbricks_survey.command import command as survey_command
from dlbricks_survey.job import PackJob, SurveyJob

import dlbricks_core as dlbricks
from dlbricks_core.api import Measuring
from dlbricks_core.api.inputs import checked
from dlbricks_core.commands.command import Action, Command, loaded
from dlbricks_core.commands.estimate.actions import EstimateJob
from dlbricks_core.commands.estimate.actions import command as estimate_command
from dlbricks_core.commands.options.settings import MODEL_OUTPUT, SETTINGS
from dlbricks_core.commands.options.spelling import option_of
from dlbricks_core.commands.show import actions as show
from dlbricks_core.commands.show.actions import ShowLayersJob
from dlbricks_core.errors import DLBricksError
from dlbricks_core.importers import LoadOptions
from dlbricks_core.plugins import discover


def fields_of(job: type) -> set[str]:
    return {each.name for each in fields(job)}


MODELS = {
    *("batch", "dims", "values", "outputs", "fold_batchnorm", "dtype", "reimport"),
    *("prompt", "generate", "task", "pictures", "sweeps"),
}
"""Options of commands that are in the field ``models`` of a job."""

OUTPUT = {"store", "json_path", "html_path", "table_format", "verbose", "quiet"}
"""Options of commands on where results are kept and shown."""

COMMAND_ALONE = {EstimateJob: {"results"}, SurveyJob: {"timeout_s"}}
"""Fields of jobs that only a command sets."""

FUNCTION_ALONE = {SuiteTimeJob: {"condition"}}
"""Arguments of functions that are refused unless they are the default."""

COMMANDS = {
    "estimate": (estimate_command, EstimateJob),
    "serve": (serving.command, ServeJob),
    "serve compare": (serving.compare_command, ServeCompareJob),
    "compare": (compare.command, CompareJob),
    "compare outputs": (verify.command, OutputsJob),
    "advise": (advise_command, AdviseJob),
    "check": (check, CheckJob),
    "check layers": (explain.layers_command, LayersJob),
    "check trace": (explain.trace_command, TraceJob),
    "show": (show.layers_command, ShowLayersJob),
    "show repeats": (repeats_command, ShowRepeatsJob),
    "show graph": (graph.command, ShowLatenciesJob, ShowOperationsJob),
    "suite time": (suite.time_command, SuiteTimeJob),
    "suite write": (suite.write_command, SuiteWriteJob),
    "machine calibrate": (machine.calibrate_command, CalibrateJob, ForgetJob, ProbeJob),
    "machine survey": (survey_command, SurveyJob, PackJob),
    "study": (study_command, StudyJob, StudyReportJob),
    "results export": (results.export_command, ExportJob),
    "results import": (results.import_command, ImportJob),
    "results merge": (results.merge_command, MergeJob),
}
"""Commands with their jobs, one for each mode."""

FUNCTIONS = [
    pytest.param(EstimateJob, dlbricks.estimate, id="estimate"),
    pytest.param(ServeJob, serve, id="serve"),
    pytest.param(CompareJob, compare_models, id="compare"),
    pytest.param(AdviseJob, advise, id="advise"),
    pytest.param(SuiteWriteJob, dlbricks_suite.generate, id="suite write"),
    pytest.param(SuiteTimeJob, dlbricks_suite.bench, id="suite time"),
    pytest.param(SurveyJob, take_survey, id="machine survey"),
    pytest.param(PackJob, pack_survey, id="machine survey --pack"),
]


SHOWN = {"top", "trace_path", "svg_path", "exported"}
"""Options of single commands on how results are shown."""

ACTIONS = {
    " ".join(dict.fromkeys((*command.name.split("."), action.name))): action
    for command in (plugin.loaded for plugin in discover("command", Command))
    for action in getattr(command, "actions", ())
}
"""Actions of all installed commands, by the words that users type."""

WITHOUT_SETTINGS = {
    *("machine check", "machine list"),
    *("machine show", "machine name", "list models", "list plugins"),
    *(name for name in ACTIONS if name.startswith("results ")),
}
"""Actions whose JSON has no settings, since they run nothing that could be repeated."""

PLACES = {
    "models": "models.source",
    "backend": "backend.name",
    "backends": "backends.name",
    "backend_options": "backend.settings",
    "condition": "settings.protocol",  # which is hot, or one of those in the cold
    "quantity": "invocation.quantity.name",
    "measure": "invocation.measures",
    "end_to_end": "invocation.end_to_end",
    "system": "system.machine",
    **dict.fromkeys(("prompt", "generate", "task", "pictures"), "answers.prompt"),
    "sweeps": "curves.points.sizes",
}
"""Places of options in JSON, where these are not in ``settings``."""

OF_LOADS = {
    "models": "scenarios.source",
    "instances": "scenarios.placements.instances",
    "threads": "scenarios.placements.threads",
    "end_to_end": "settings.end_to_end",
    "measure": "scenarios.placements.predicted",
}

PLACES_OF = {
    "compare latencies": {"backend_options": "backends.settings"},
    "compare outputs": {
        "models": "verdicts.model",
        **{name: f"settings.{name}" for name in ("backends", "backend_options")},
    },
    "serve load": OF_LOADS,
    "serve compare": {
        **{name: f"backends.{place}" for name, place in OF_LOADS.items() if name != "models"},
        "models": "scenarios.source",
        "end_to_end": "settings.end_to_end",
        "backends": "backends.backend.name",
        "backend_options": "backends.backend.settings",
    },
    "show graph": {name: f"settings.{name}" for name in ("backend", "backend_options", "system")},
    "suite write": {"models": "models.name", "folder": "folder"},
    "machine survey": {"families": "families.name"},
    "advise places": {
        "models": "rankings.alternatives.model",
        "require": "settings.required",
        "systems": "systems.machine",
        "backends": "rankings.alternatives.backend",
        "prices": "settings.currency",
        "accuracies": "rankings.alternatives.accuracy",
        **dict.fromkeys(("prompt", "generate", "task"), "settings.workload"),
    },
}
"""Places that differ for single actions."""

WITHOUT_TRACE = {*("force", "retry_failed", "busy", "reimport"), *OUTPUT, *SHOWN}
"""Options that leave nothing in JSON: how stored samples are used, and where results go."""

ONLY_IN_COMMANDS = {
    "estimate models": {"results"},  # the samples, not what is done with them
    **{name: {"timeout_s"} for name in ("show repeats", "show graph", "suite write")},
    "advise places": {"timeout_s"},  # of imports alone
    "show layers": {"timeout_s"},
    "suite time": {"bricks", "results"},
    "machine calibrate": {"probes", "rates", "forget"},
    # A survey goes on from what is stored, which other models and sizes gave.
    "machine survey": {"folder", "extend", "models", "timeout_s", *fields_of(LoadOptions)},
    "study corpus": {"quick", "folder", "source"},
}

IN_RECORDS = {
    "models": "models.source",
    **dict.fromkeys(("backend", "backends"), "software.backends.name"),
    "backend_options": "software.backends.settings",
    **dict.fromkeys(("protocol", "condition"), "protocol.name"),
    **{name: f"composing.{name}" for name in ("granularity", "split", "composer", "predictor")},
    "quantity": "task.quantity",
    "end_to_end": "task.end_to_end",
    "measure": "measures",
    "system": "hardware.machine",
}
"""Places of a job's fields in records, where these are not in ``protocol``."""


@pytest.mark.parametrize(
    ("text", "number"), [("4", 4), ("prompt=8,token=4", {"prompt": 8, "token": 4})]
)
def test_threads_are_one_number_or_one_for_each_phase(text, number):
    assert SETTINGS["threads_by_phase"].kind.text(text) == number
    assert checked(threads_by_phase=number) == {"threads_by_phase": number}


@pytest.mark.parametrize("text", ["0", "x", "prompt=8,4", "prompt=0,token=1", "2,4", "prompt="])
def test_other_threads_are_refused(text):
    with pytest.raises(click.BadParameter, match="is not a number of threads"):
        SETTINGS["threads_by_phase"].kind.text(text)


def options_of_all() -> Iterator[click.Parameter]:
    """Options of our commands."""
    for action in ACTIONS.values():
        yield from (each for each in loaded(action).params if isinstance(each, click.Option))


def arguments_of(function) -> set[str]:
    """Names of a function's arguments, and of those that its keywords stand for."""
    found = set(inspect.signature(function).parameters)
    return found | set(Measuring.__annotations__) if "measuring" in found else found


TYPED = {"model": "models", "bricks": "folder", "imported": "files"}
"""Fields of arguments that commands call otherwise."""


@pytest.mark.parametrize(("command", "jobs"), [(c, j) for c, *j in COMMANDS.values()], ids=COMMANDS)
def test_options_of_a_command_are_the_fields_of_its_jobs(command, jobs):
    names = {TYPED.get(each.name, each.name) for each in command.params if each.expose_value}
    known = set().union(*map(fields_of, jobs))
    # The timeout counts for imports as well, and only for these where nothing runs.
    of_models = MODELS | {"timeout_s"} - known
    assert names - of_models - OUTPUT - SHOWN == known


@pytest.mark.parametrize(("command", "jobs"), [(c, j) for c, *j in COMMANDS.values()], ids=COMMANDS)
def test_a_job_has_the_defaults_of_its_options(command, jobs):
    values = command.make_context("", [], resilient_parsing=True).params
    for job in jobs:
        known = {f.name: f.default for f in fields(job) if f.default not in (MISSING, None)}
        assert {name: values[name] for name in known} == known


def has(kind: Any, path: str) -> bool:
    """Whether objects of a type have a field at a path, in one of the types of a union."""
    name, _, rest = path.partition(".")
    found = [kind]
    for each in found:
        found += get_args(each)
    hints = [get_type_hints(each) for each in found if hasattr(each, "__annotations__")]
    return any(name in each and (not rest or has(each[name], rest)) for each in hints)


def object_of(action: Action) -> Any:
    """Type of the object that an action writes."""
    module, _, name = action.writes.partition(":")
    return getattr(importlib.import_module(module), name)


@pytest.mark.parametrize("name", ACTIONS)
def test_the_settings_in_json_are_the_options(name):
    written = object_of(ACTIONS[name])
    assert has(written, "settings") == (name not in WITHOUT_SETTINGS), (
        f"{name} writes its settings with --json, or is in WITHOUT_SETTINGS"
    )
    if name in WITHOUT_SETTINGS:
        return
    options = {each.name for each in loaded(ACTIONS[name]).params if each.expose_value} - {"model"}
    places = {each: f"settings.{each}" for each in options} | PLACES | PLACES_OF.get(name, {})
    free = WITHOUT_TRACE | ONLY_IN_COMMANDS.get(name, set())
    assert {each for each in options - free if not has(written, places[each])} == set()
    if "dims" in options - free:
        read = fields_of(LoadOptions)
        assert {each for each in read if not has(written, f"settings.{each}")} == set()


@pytest.mark.parametrize("job", [EstimateJob, CompareJob, CheckJob])
def test_records_keep_the_fields_of_jobs_and_how_models_were_read(job):
    kept = fields_of(job) - WITHOUT_TRACE - COMMAND_ALONE.get(job, set())
    places = {each: IN_RECORDS.get(each, f"protocol.{each}") for each in kept}
    places |= {each: f"task.reading.{each}" for each in fields_of(LoadOptions)}
    assert {each for each, place in places.items() if not has(ResultsRecordData, place)} == set()


@pytest.mark.parametrize(("job", "function"), FUNCTIONS)
def test_arguments_of_the_api_are_the_fields_of_its_job(job, function):
    expected = fields_of(job) - COMMAND_ALONE.get(job, set()) | FUNCTION_ALONE.get(job, set())
    assert arguments_of(function) - {"measuring", "store"} - MODELS == expected


@pytest.mark.parametrize("arguments", [Measuring, AtSizes], ids=lambda each: each.__name__)
def test_keywords_of_the_api_are_settings(arguments):
    assert arguments.__annotations__.keys() <= SETTINGS.keys()


def test_messages_spell_an_option_as_commands_declare_it():
    every = [each for each in options_of_all() if each.name in SETTINGS]
    assert len({each.name for each in every}) > 30
    for each in every:
        several = option_of(each.name)
        single = several.removesuffix("s")  # of --system and --backend, each time for one of them
        if each.name == "outputs":  # no message names it; --output may be a file
            assert MODEL_OUTPUT in each.opts
            continue
        assert several in each.opts or (each.multiple and single in each.opts)


def test_an_option_has_a_spelling_of_its_own_in_each_command():
    for action in ACTIONS.values():
        spelled = [text for each in loaded(action).params for text in each.opts]
        assert len(set(spelled)) == len(spelled), action


def refused(setting, further, key):
    """The hint where the value of a setting is of no kind that it has."""
    with pytest.raises(DLBricksError, match=f"{setting.name} cannot be") as error:
        checked(further, **{key: object()})
    return error.value.hint


@pytest.mark.parametrize("key", list(SETTINGS))
def test_a_wrong_value_is_refused_in_words(key):
    assert (
        refused(SETTINGS[key], {}, key) == f"{SETTINGS[key].name} takes {SETTINGS[key].kind.words}."
    )


@pytest.mark.parametrize("key", list(OWN))
def test_a_wrong_value_of_another_distribution_is_refused_in_its_words(key):
    assert refused(OWN[key], OWN, key) == f"{key} takes {OWN[key].kind.words}."
