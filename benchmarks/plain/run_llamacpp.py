"""Time to the first token and per token of llama.cpp, by llama-bench's definition.

python benchmarks/plain/run_llamacpp.py config.json --dtype q4_k_m --prompt 512 --generate 128

A file of drawn weights is written as llama.cpp's own converter would name them, and quantized by
llama.cpp itself. A prompt is processed into an empty cache, and tokens are drawn rather than
sampled. Of the rounds, each after a first one that does not count, the medians are printed.
Needs llama-cpp-python and gguf.
"""

import argparse
import ctypes
import json
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

import gguf
import llama_cpp as api
import numpy as np

TYPES = {"q4_0": 2, "q8_0": 7, "q4_k_m": 15, "q5_k_m": 17, "q6_k": 18}

parser = argparse.ArgumentParser()
parser.add_argument("configurations", nargs="+")
parser.add_argument("--dtype", default="f16", choices=["f16", *TYPES])
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--prompt", type=int, default=512)
parser.add_argument("--generate", type=int, default=128)
parser.add_argument("--after-prompt", action="store_true", help="tokens follow the prompt")
parser.add_argument("--rounds", type=int, default=5)
arguments = parser.parse_args()


def write(path, config):
    """A file with 16-bit weights."""
    kind = config["model_type"].removesuffix("_text").replace("mistral", "llama")
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    blocks, heads = config["num_hidden_layers"], config["num_attention_heads"]
    kv_heads = config.get("num_key_value_heads") or heads
    size = config.get("head_dim") or hidden // heads
    writer = gguf.GGUFWriter(path, kind)
    writer.add_tokenizer_model("none")
    writer.add_vocab_size(config["vocab_size"])
    writer.add_context_length(8192)
    writer.add_embedding_length(hidden)
    writer.add_block_count(blocks)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_key_length(size)
    writer.add_value_length(size)
    writer.add_layer_norm_rms_eps(config.get("rms_norm_eps", 1e-6))
    writer.add_rope_dimension_count(size)
    writer.add_rope_freq_base(config.get("rope_theta", 1e4))
    writer.add_file_type(1)
    if kind.startswith("gemma") and kind != "gemma":
        writer.add_sliding_window(config["sliding_window"])
    if config.get("attn_logit_softcapping"):
        writer.add_attn_logit_softcapping(config["attn_logit_softcapping"])
    if config.get("final_logit_softcapping"):
        writer.add_final_logit_softcapping(config["final_logit_softcapping"])
    draw = np.random.default_rng(0)
    pool = draw.normal(0, 0.02, 1 << 22).astype(np.float16)

    def matrix(name, columns, rows):
        writer.add_tensor(f"{name}.weight", np.resize(pool, (rows, columns)))

    def vector(name, columns):
        writer.add_tensor(name, draw.normal(1, 0.02, columns).astype(np.float32))

    matrix("token_embd", hidden, config["vocab_size"])
    vector("output_norm.weight", hidden)
    if not config.get("tie_word_embeddings", kind.startswith("gemma")):
        matrix("output", hidden, config["vocab_size"])
    if (config.get("rope_scaling") or {}).get("rope_type") == "llama3":
        vector("rope_freqs.weight", size // 2)
    for block in range(blocks):
        at = f"blk.{block}."
        sizes = {"attn_q": heads * size, "attn_k": kv_heads * size, "attn_v": kv_heads * size}
        if kind == "phi3":
            matrix(at + "attn_qkv", hidden, sum(sizes.values()))
            matrix(at + "ffn_up", hidden, 2 * inner)
        else:
            for name, rows in sizes.items():
                matrix(at + name, hidden, rows)
                if kind == "qwen2":
                    vector(f"{at}{name}.bias", rows)
            matrix(at + "ffn_gate", hidden, inner)
            matrix(at + "ffn_up", hidden, inner)
        matrix(at + "attn_output", heads * size, hidden)
        matrix(at + "ffn_down", inner, hidden)
        norms = {"attn_norm": hidden, "ffn_norm": hidden}
        if kind in ("gemma2", "gemma3"):
            norms |= {"post_attention_norm": hidden, "post_ffw_norm": hidden}
        if kind in ("qwen3", "gemma3"):
            norms |= {"attn_q_norm": size, "attn_k_norm": size}
        for name, columns in norms.items():
            vector(f"{at}{name}.weight", columns)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def quantized(path):
    """The file in the requested type."""
    if arguments.dtype not in TYPES:
        return path
    made = path.with_name("quantized.gguf")
    parameters = api.llama_model_quantize_default_params()
    parameters.ftype = TYPES[arguments.dtype]
    parameters.nthread = arguments.threads
    status = api.llama_model_quantize(
        str(path).encode(), str(made).encode(), ctypes.byref(parameters)
    )
    assert status == 0, status
    path.unlink()
    return made


def decode(context, tokens, first):
    """Processes tokens; the logits of the last one are computed."""
    for begin in range(0, len(tokens), 2048):
        part = tokens[begin : begin + 2048]
        batch = api.llama_batch_init(len(part), 0, 1)
        batch.n_tokens = len(part)
        for i, token in enumerate(part):
            batch.token[i], batch.pos[i] = token, first + begin + i
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, 0
            batch.logits[i] = i == len(part) - 1
        assert api.llama_decode(context, batch) == 0
        api.llama_batch_free(batch)
    api.llama_synchronize(context)


@api.llama_log_callback
def quiet(_level, _text, _data):
    """Keeps llama.cpp's log away."""


api.llama_log_set(quiet, ctypes.c_void_p(0))
api.llama_backend_init()
for configuration in arguments.configurations:
    config = json.loads(Path(configuration).read_text())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.gguf"
        write(path, config)
        file = quantized(path)
        model = api.llama_model_load_from_file(str(file).encode(), api.llama_model_default_params())
    parameters = api.llama_context_default_params()
    parameters.n_ctx = arguments.prompt + arguments.generate
    parameters.n_batch = 2048
    parameters.n_threads = parameters.n_threads_batch = arguments.threads
    parameters.swa_full = False
    context = api.llama_init_from_model(model, parameters)
    memory = api.llama_get_memory(context)
    random = np.random.default_rng(0)
    prompts, tokens = [], []
    for _ in range(1 + arguments.rounds):
        api.llama_memory_clear(memory, True)
        drawn = random.integers(0, config["vocab_size"], arguments.prompt).tolist()
        begin = perf_counter()
        decode(context, drawn, 0)
        prompts.append(1000 * (perf_counter() - begin))
        depth = arguments.prompt
        if not arguments.after_prompt:
            api.llama_memory_clear(memory, True)
            depth = 0
        begin = perf_counter()
        for i in range(arguments.generate):
            decode(context, [random.integers(0, config["vocab_size"]).item()], depth + i)
        tokens.append(1000 * (perf_counter() - begin) / arguments.generate)
    result = {"name": Path(configuration).stem, "dtype": arguments.dtype}
    result |= {"ttft_ms": median(prompts[1:]), "tpot_ms": median(tokens[1:])}
    result |= {
        "prompt_per_s": 1000 * arguments.prompt / result["ttft_ms"],
        "tokens_per_s": 1000 / result["tpot_ms"],
    }
    print(json.dumps(result), flush=True)
    api.llama_free(context)
    api.llama_model_free(model)
