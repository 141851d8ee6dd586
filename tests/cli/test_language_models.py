"""Language models and sweeps through the command line, on a real backend."""

import re
from pathlib import Path

import pytest

pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.usefixtures("kept_workers")

ONE = ("--backend", "onnxruntime", "--threads", "1", "--store", "s.sqlite", "--json", "r.json")


@pytest.fixture
def decoders(save_decoder, dlbricks):
    """Two decoders, and one without open sizes, in the current folder."""
    save_decoder("a.onnx")
    save_decoder("b.onnx", ("batch_size", "sequence_length", "past_sequence_length"), blocks=1)
    save_decoder("fixed.onnx", (1, 4, 4))


@pytest.fixture
def told(dlbricks, decoders, read):
    """A command that works: what it printed, and its JSON."""

    def run(*arguments, status=0):
        command, *rest = arguments
        done = dlbricks(command, *ONE, *rest)
        assert done.status == status, done.err
        assert max(map(len, done.out.splitlines())) <= 80
        return " ".join(done.out.split()), read("r.json")

    return run


def test_measured_times_stand_beside_estimates(told):
    out, data = told(
        "estimate",
        "--measure",
        "a.onnx",
        "--prompt",
        "8",
        "--generate",
        "5",
        "--end-to-end",
        "--runs",
        "3",
    )
    (answer,) = data["answers"]
    models = {each["name"]: each for each in data["models"]}
    assert answer["ttft"]["measured"] == models[answer["prefill_model"]]["measured"]
    for name in ("ttft", "tpot", "total"):
        time = answer[name]
        ratio = time["estimate"] / time["measured"]
        assert time["normalized"] == pytest.approx(ratio)
        assert time["measured_interval"][0] <= time["measured_interval"][1]
    depths = [models[each["model"]]["measured"] for each in answer["curve"]]
    assert min(depths) <= answer["tpot"]["measured"] <= max(depths)
    total = answer["ttft"]["measured"] + 4 * answer["tpot"]["measured"]
    assert answer["total"]["measured"] == pytest.approx(total)
    assert "1 thread: prompt 8, generate 5; first token after" in out
    assert "measured" in out


def test_prompts_and_tokens_have_threads_of_their_own(told):
    out, data = told(
        "estimate", "a.onnx", "--task", "chat", "--generate", "6", "--threads", "prompt=2,token=1"
    )
    (answer,) = data["answers"]
    assert (answer["prompt"], answer["generate"]) == (192, 6)
    assert data["phase_threads"] == {"prompt": 2, "token": 1}
    assert "threads: prompt 2, token 1" in out
    _, one = told("estimate", "a.onnx", "--task", "chat", "--generate", "6")
    (alone,) = one["answers"]
    assert answer["tpot"]["estimate"] == pytest.approx(alone["tpot"]["estimate"])
    assert answer["ttft"]["estimate"] < alone["ttft"]["estimate"]
    assert [each["depth"] for each in answer["tokens"]] == [192, 193, 194, 195, 196]
    assert answer["memory"]["cache_bytes_per_1000_tokens"] > 0
    # A small model's memory is not in billions of bytes.
    assert re.search(r"cache per 1,000 tokens [\d.]+ [kM]?B", " ".join(out.split()))
    assert answer["engine"] == "onnxruntime on the graph of a as it is"
    assert f"Figures are for {answer['engine']}." in out


def test_threads_of_phases_are_measured_apart(told):
    _, data = told(
        "estimate", "--measure", "b.onnx", "--prompt", "8", "--generate", "2",
        "--threads", "prompt=2,token=1", "--runs", "2",
    )  # fmt: skip
    (answer,) = data["answers"]
    assert min(answer[each]["estimate"] for each in ("ttft", "tpot")) > 0
    assert [each["name"] for each in data["models"]] == ["b [8 after 0]", "b [1 after 8]"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(("--threads", "prompt=2,token=1"), "is for the times of language models' answers"),
     (("--threads", "prompt=2,text=1", "--prompt", "4"), "does not name prompt and token")],
)  # fmt: skip
def test_threads_of_phases_need_an_answer(dlbricks, decoders, arguments, words):
    done = dlbricks("estimate", "a.onnx", *ONE, *arguments)
    assert (done.status, words in done.err) == (2, True)


def test_memory_to_reserve_is_told_of_peaks(told):
    out, data = told("estimate", "a.onnx", "--prompt", "8", "--generate", "2",
                     "--quantity", "peak-memory")  # fmt: skip
    (curve,) = data["curves"]
    reserve = curve["memory"]["reserve"]
    assert reserve == max(each["interval"][1] for each in curve["points"])
    assert f"Reserve {reserve:,.0f} MiB for a: 95 of 100 processes need less." in out


def test_nothing_runs_for_an_estimate(told):
    out, data = told("estimate", "a.onnx", "--generate", "4", "--batch", "2")
    (answer,) = data["answers"]
    assert (answer["prompt"], answer["generate"], answer["batch"]) == (512, 4, 2)
    assert {each["origin"] for each in data["bricks"]} == {"predicted"}
    assert [each["depth"] for each in answer["curve"]] == [512, 513, 514]
    assert "batch 2" in out


def test_a_table_over_prompts_and_depths(told):
    out, data = told("estimate", "a.onnx", "b.onnx", "--sweep", "prompt=8,16", "--sweep",
                     "depth=0,64", "--generate", "3")  # fmt: skip
    asked = [(each["name"], each["prompt"], each["depth"]) for each in data["answers"]]
    sizes = [(8, 0), (8, 64), (16, 0), (16, 64)]
    assert asked == [(name, *size) for name in ("a", "b") for size in sizes]
    assert "2 models on" in out
    assert "8 workloads" in out


def test_one_bad_model_is_named_and_the_others_are_done(told):
    out, data = told("estimate", "fixed.onnx", "a.onnx", "absent.onnx", "--prompt", "4",
                     "--generate", "2", status=3)  # fmt: skip
    assert [each["name"] for each in data["answers"]] == ["a"]
    assert [each["where"] for each in data["failures"]] == ["fixed.onnx", "absent.onnx"]
    assert "leaves no dimension open for new tokens or the cache" in out


def test_a_sweep_of_any_dimension(told, dlbricks):
    out, data = told("estimate", "a.onnx", "--sweep", "sequence=1,8", "--dim", "past=2",
                     "--batch", "1", "--html", "r.html")  # fmt: skip
    (curve,) = data["curves"]
    assert [each["sizes"] for each in curve["points"]] == [{"sequence": 1}, {"sequence": 8}]
    assert [each["name"] for each in data["models"]] == [p["model"] for p in curve["points"]]
    assert data["answers"] == []
    assert "at 2 points" in out


def test_the_page_shows_the_curve_and_no_record_is_made_of_it(told, dlbricks, tmp_path):
    told("estimate", "a.onnx", "--prompt", "4", "--generate", "9", "--html", "r.html")
    page = (tmp_path / "r.html").read_text("utf-8")
    assert "Time of one output token over the number of tokens in the cache" in page
    assert "Time to first token, ms" in page
    done = dlbricks("results", "record", "r.json")
    assert done.status == 2
    assert "no record is made" in done.err


@pytest.mark.parametrize(
    ("options", "message"),
    [(("--prompt", "0"), "0 is not in the range"),
     (("--sweep", "prompt=0,4"), "--prompt 0 is too small"),
     (("--sweep", "width=1,2"), "leaves no dimension 'width' open"),
     (("--sweep", "sequence=1,x"), "write sizes with commas between"),
     (("--sweep", "sequence=-1"), "--sweep sequence=-1 is not a list of sizes"),
     (("--prompt", "4", "--sweep", "sequence=1,2"), "a workload has no 'sequence'"),
     (("--prompt", "4", "--sweep", "prompt=1,2"), "prompt is also given by itself"),
     (("--prompt", "4", "--batch", "2", "--sweep", "batch=1,2"), "batch is also given by itself"),
     (("--dim", "sequence=2", "--sweep", "sequence=1,2"), "sequence is also given by itself"),
     (("--sweep", "sequence=1", "--sweep", "sequence=2"), "sequence is given twice"),
     (("--prompt", "4", "--dim", "past=1"), "past varies in this request")],
    ids=str,
)  # fmt: skip
def test_wrong_input_is_told_in_a_line(dlbricks, decoders, options, message):
    done = dlbricks("estimate", "a.onnx", *ONE, *options)
    assert done.status == 2
    (line,) = [line for line in done.err.splitlines() if line.startswith("Error:")]
    assert message in line


def test_another_quantity_of_prompts_and_of_tokens_at_depths(told):
    out, data = told(
        "estimate",
        "--measure",
        "a.onnx",
        "--prompt",
        "16",
        "--generate",
        "4",
        "--batch",
        "2",
        "--quantity",
        "load-time",
        "--runs",
        "2",
    )
    assert data["answers"] == []
    (curve,) = data["curves"]
    assert [each["sizes"] for each in curve["points"]] == [
        {"tokens": 16, "cache": 0, "batch": 2}, {"tokens": 1, "cache": 16, "batch": 2},
        {"tokens": 1, "cache": 17, "batch": 2}, {"tokens": 1, "cache": 18, "batch": 2},
    ]  # fmt: skip
    assert all(each["estimate"] > 0 for each in curve["points"])
    assert "Load time of a on onnxruntime" in out


def test_sizes_need_a_model(dlbricks):
    done = dlbricks("estimate", "--measure", "--backend", "onnxruntime", "--prompt", "4")
    assert done.status == 2
    assert "Name at least one MODEL" in done.err


@pytest.fixture
def advised(told, dlbricks, read):
    """Advice from a store in which a decoder was timed: what it printed, and its JSON."""
    told(
        "estimate",
        "--measure",
        "a.onnx",
        "--prompt",
        "8",
        "--generate",
        "5",
        "--runs",
        "3",
        "--end-to-end",
    )
    (answer,) = read("r.json")["answers"]

    def run(*arguments):
        done = dlbricks("advise", *arguments, "--store", "s.sqlite", "--json", "a.json")
        assert max(map(len, done.out.splitlines()), default=0) <= 80
        return done, " ".join(done.out.split())

    return run, answer


def test_advice_has_the_times_that_were_measured(advised, read):
    run, answer = advised
    done, out = run("a.onnx", "--prompt", "8", "--generate", "5", "--html", "a.html")
    assert done.status == 0, done.err
    data = read("a.json")
    assert data["settings"]["workload"] == {"prompt": 8, "generate": 5, "depth": 0, "batch": 1}
    ((place,),) = (ranking["alternatives"] for ranking in data["rankings"])
    assert (place["model"], place["source"], place["basis"]) == ("a", "a.onnx", "measured")
    assert place["estimate"] == pytest.approx(answer["total"]["measured"])
    assert place["interval"] == pytest.approx(answer["total"]["measured_interval"])
    values = [each["value"] for each in place["required"]]
    expected = [answer[name]["measured"] for name in ("ttft", "tpot")]
    assert values == pytest.approx(expected)
    assert place["per_second"] == pytest.approx(5e3 / place["estimate"])
    assert "a, prompt 8, generate 5: the fastest is onnxruntime" in out
    assert "TTFT: time to first token" in out
    assert "Total time" in Path("a.html").read_text("utf-8")


def test_advice_bounds_and_orders_predicted_answers(advised, read):
    run, _ = advised
    done, out = run("b.onnx", "a.onnx", "fixed.onnx", "--prompt", "8", "--by",
                    "time-to-first-token", "--require", "time-per-output-token<=1ns",
                    "--max-latency", "600s", "--batch", "2")  # fmt: skip
    assert done.status == 3, done.err
    data = read("a.json")
    assert [each["name"] for each in data["rankings"]] == ["b", "a"]
    assert data["settings"]["by"]["name"] == "time-to-first-token"
    assert data["settings"]["workload"] == {"prompt": 8, "generate": 128, "depth": 0, "batch": 2}
    assert [each["maximum"] for each in data["settings"]["required"]] == [pytest.approx(1e-6)]
    for ranking in data["rankings"]:
        (place,) = ranking["alternatives"]
        first, token = place["required"]
        assert place["by"]["value"] == first["value"]
        total = first["value"] + 127 * token["value"]
        assert place["estimate"] == pytest.approx(total)
        assert (place["allowed"], token["allowed"]) == (False, False)
    assert [each["where"] for each in data["failures"]] == ["fixed.onnx"]
    assert "leaves no dimension open for new tokens or the cache" in out


@pytest.mark.parametrize(
    ("options", "message"),
    [(("fixed.onnx", "--generate", "4"), "leaves no dimension open for new tokens or the cache"),
     (("a.onnx", "--prompt", "0"), "0 is not in the range"),
     (("a.onnx", "--prompt", "4", "--dim", "past=1"), "past varies in this request"),
     (("a.onnx", "--by", "time-to-first-token"), "a figure of a language model's answer"),
     (("a.onnx", "--prompt", "4", "--require", "peak-memory<=5MiB"), "not known of a whole")],
    ids=str,
)  # fmt: skip
def test_advice_refuses_what_is_no_answer(advised, options, message):
    run, _ = advised
    done, _ = run(*options)
    assert done.status == 2
    (line,) = [line for line in done.err.splitlines() if line.startswith("Error:")]
    assert message in line
