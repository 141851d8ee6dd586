"""Small transformers of five kinds, and two recommendation models; weights are random.

``torch:torch_small_transformers:NAME``. The transformers need the package of that name.
research/2026-11-mxnet-transformers.md tells how far estimates on MXNet are off.
"""

import torch
import transformers
from torch_outputs import LastHidden

_WORDS = 8000
_TABLES, _WIDTH, _NUMBERS = 26, 16, 13


def _tokens(count, low=0, high=_WORDS):
    return (torch.randint(low, high, (1, count)),)


def esm():
    config = transformers.EsmConfig(
        vocab_size=33, hidden_size=320, num_hidden_layers=6, num_attention_heads=20,
        intermediate_size=1280, max_position_embeddings=1026, position_embedding_type="rotary",
        pad_token_id=1, mask_token_id=32, token_dropout=False,
    )  # fmt: skip
    model = transformers.EsmModel(config, add_pooling_layer=False)
    return LastHidden(model), _tokens(128, 4, 24)


def gpt():
    config = transformers.GPT2Config(
        vocab_size=_WORDS, n_embd=256, n_layer=4, n_head=8, use_cache=False
    )
    return LastHidden(transformers.GPT2Model(config)), _tokens(64)


def llama():
    config = transformers.LlamaConfig(
        vocab_size=_WORDS, hidden_size=256, intermediate_size=688, num_hidden_layers=4,
        num_attention_heads=8, num_key_value_heads=4, use_cache=False,
    )  # fmt: skip
    return LastHidden(transformers.LlamaModel(config), use_cache=False), _tokens(64)


def vit():
    config = transformers.ViTConfig(
        hidden_size=384, num_hidden_layers=4, num_attention_heads=6, intermediate_size=1536
    )
    model = transformers.ViTModel(config, add_pooling_layer=False)
    return LastHidden(model), (torch.randn(1, 3, 224, 224),)


def whisper():
    config = transformers.WhisperConfig(
        d_model=256, encoder_layers=4, encoder_attention_heads=4, encoder_ffn_dim=1024,
        num_mel_bins=80, max_source_positions=300,
    )  # fmt: skip
    encoder = transformers.models.whisper.modeling_whisper.WhisperEncoder(config)
    return LastHidden(encoder), (torch.randn(1, 80, 600),)


class _Recommender(torch.nn.Module):
    """Embeddings of 26 columns and 13 numbers, through three linear layers."""

    def __init__(self):
        super().__init__()
        self.tables = torch.nn.ModuleList(
            torch.nn.Embedding(1000 + 100 * i, _WIDTH) for i in range(_TABLES)
        )
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(_TABLES * _WIDTH + _NUMBERS, 256), torch.nn.ReLU(),
            torch.nn.Linear(256, 128), torch.nn.ReLU(), torch.nn.Linear(128, 1),
        )  # fmt: skip

    def forward(self, ids, numbers):
        found = [table(ids[:, i]) for i, table in enumerate(self.tables)]
        return torch.sigmoid(self.layers(torch.cat([*found, numbers], 1)))


class _OfOneInput(_Recommender):
    """The same, fed with one float input whose first columns are indices."""

    def forward(self, x):
        return super().forward(x[:, :_TABLES].long(), x[:, _TABLES:])


def embeddings_of_indices():
    return _Recommender(), (torch.randint(0, 900, (64, _TABLES)), torch.rand(64, _NUMBERS))


def embeddings_of_a_float_input():
    return _OfOneInput(), (torch.rand(64, _TABLES + _NUMBERS),)
