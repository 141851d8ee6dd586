"""Further architectures of timm, torchvision and transformers, small where that is possible.

They are verified, not timed: ``dlbricks compare outputs torch:torch_architectures:NAME``.
Names are ``timm__NAME`` and ``tv__NAME`` for any network of timm and torchvision (``ALL``
lists those that were tried), and ``hf__KIND`` for those of ``_TRANSFORMERS``. The packages are
needed for nothing else. Weights are random.
"""

from collections.abc import Callable
from typing import Any

import timm
import torch
import transformers
from torch_outputs import LastHidden, Segmentation
from torchvision import models

_VOCABULARY = 1000

TIMM = (  # noqa: SIM905
    "bat_resnext26ts beit_base_patch16_224 botnet26t_256 cait_xxs24_224 coatnet_0_224 "
    "convit_tiny convmixer_768_32 crossvit_tiny_240 cspresnet50 davit_tiny "
    "deit3_small_patch16_224 dla34 dpn68 eca_botnext26ts_256 edgenext_small efficientformer_l1 "
    "efficientnetv2_rw_t efficientvit_b0 efficientvit_m0 ese_vovnet19b_dw "
    "eva02_tiny_patch14_224 fastvit_t8 focalnet_tiny_srf gcvit_xxtiny gernet_s ghostnetv2_100 "
    "gmlp_s16_224 halonet26t hardcorenas_a hgnet_tiny hiera_tiny_224 hrnet_w18_small "
    "inception_next_tiny inception_resnet_v2 inception_v4 lambda_resnet26t lcnet_050 levit_128 "
    "mambaout_femto maxxvit_rmlp_nano_rw_256 mixnet_s mobilenetv4_conv_small mobileone_s0 "
    "mvitv2_tiny nest_tiny nextvit_small pit_ti_224 pvt_v2_b0 rdnet_tiny regnety_002 "
    "repghostnet_050 repvgg_a0 res2net50_14w_8s resmlp_12_224 resnest14d resnetv2_50 rexnet_100 "
    "samvit_base_patch16_224 selecsls42 sequencer2d_s seresnet50 shvit_s1 skresnet18 starnet_s1 "
    "swiftformer_xs swin_tiny_patch4_window7_224 swinv2_tiny_window8_256 tf_efficientnet_lite0 "
    "tiny_vit_5m_224 tinynet_a tnt_s_patch16_224 twins_pcpvt_small twins_svt_small "
    "visformer_tiny vit_relpos_small_patch16_224 vovnet39a xception41"
).split()

TORCHVISION = (  # noqa: SIM905
    "alexnet densenet121 efficientnet_v2_s fcn_resnet50 inception_v3 "
    "lraspp_mobilenet_v3_large mc3_18 mobilenet_v2 mvit_v1_b r2plus1d_18 r3d_18 raft_small "
    "regnet_x_400mf s3d shufflenet_v2_x0_5 squeezenet1_0 swin3d_t swin_v2_t vgg11 vit_b_32"
).split()

_HEADS = {"num_hidden_layers": 2, "num_attention_heads": 4}
_SIZES = {"hidden_size": 128, "intermediate_size": 256, **_HEADS}
_TEXT = {"vocab_size": _VOCABULARY, **_SIZES}
_GPT = {"vocab_size": _VOCABULARY, "n_embd": 128, "n_layer": 2, "n_head": 4, "rotary_dim": 16}
_DECODES = {"use_cache": False}
_BART = {
    f"{half}_{what}": number
    for half in ("encoder", "decoder")
    for what, number in (("layers", 2), ("attention_heads", 4), ("ffn_dim", 256))
}


def _tokens(count: int) -> torch.Tensor:
    return torch.randint(0, _VOCABULARY, (1, count))


def _image(size: int = 224) -> torch.Tensor:
    return torch.randn(1, 3, size, size)


def _video(frames: int) -> torch.Tensor:
    return torch.randn(1, frames, 3, 224, 224)


def _sound() -> torch.Tensor:
    return torch.randn(1, 8000)


#: Kind -> name of its classes, example input, configuration, and arguments of the call.
_TRANSFORMERS: dict[str, tuple[str, Callable[[], torch.Tensor], dict[str, Any], dict[str, Any]]] = {
    "ast": ("AST", lambda: torch.randn(1, 1024, 128), _SIZES, {}),
    "bart": ("Bart", lambda: _tokens(16), {"vocab_size": _VOCABULARY, "d_model": 128, **_BART},
             _DECODES),
    "blip": ("BlipVision", _image, {**_SIZES, "image_size": 224}, {}),
    "bloom": ("Bloom", lambda: _tokens(16),
              {"vocab_size": _VOCABULARY, "hidden_size": 128, "n_layer": 2, "n_head": 4}, _DECODES),
    "canine": ("Canine", lambda: _tokens(64), _SIZES, {}),
    "clip_text": ("CLIPText", lambda: _tokens(20), {**_TEXT, "eos_token_id": 2}, {}),
    "clip_vision": ("CLIPVision", _image, _SIZES, {}),
    "codegen": ("CodeGen", lambda: _tokens(16), _GPT, _DECODES),
    "convbert": ("ConvBert", lambda: _tokens(32), _TEXT, {}),
    "cvt": ("Cvt", _image, {}, {}),
    "data2vec": ("Data2VecText", lambda: _tokens(20), _TEXT, {}),
    "debertav2": ("DebertaV2", lambda: _tokens(32), _TEXT, {}),
    "falcon": ("Falcon", lambda: _tokens(16),
               {"vocab_size": _VOCABULARY, "hidden_size": 128, **_HEADS}, _DECODES),
    "fnet": ("FNet", lambda: _tokens(32),
             {"vocab_size": _VOCABULARY, "hidden_size": 128, "num_hidden_layers": 2}, {}),
    "funnel": ("Funnel", lambda: _tokens(32),
               {"vocab_size": _VOCABULARY, "d_model": 128, "n_head": 4, "d_head": 32,
                "d_inner": 256, "block_sizes": [2, 2]}, {}),
    "gemma": ("Gemma", lambda: _tokens(16), {**_TEXT, "num_key_value_heads": 1, "head_dim": 32},
              _DECODES),
    "gemma2": ("Gemma2", lambda: _tokens(16), {**_TEXT, "num_key_value_heads": 1, "head_dim": 32},
               _DECODES),
    "glpn": ("GLPN", _image, {}, {}),
    "gptj": ("GPTJ", lambda: _tokens(16), _GPT, _DECODES),
    "hubert": ("Hubert", _sound, _SIZES, {}),
    "ibert": ("IBert", lambda: _tokens(32), _TEXT, {}),
    "layoutlm": ("LayoutLM", lambda: _tokens(32), _TEXT, {}),
    "levit": ("Levit", _image, {}, {}),
    "mamba": ("Mamba", lambda: _tokens(8),
              {"vocab_size": _VOCABULARY, "hidden_size": 64, "num_hidden_layers": 2}, _DECODES),
    "megatron": ("MegatronBert", lambda: _tokens(32), _TEXT, {}),
    "mixtral": ("Mixtral", lambda: _tokens(16),
                {**_TEXT, "num_key_value_heads": 2, "num_local_experts": 4}, _DECODES),
    "mobilevitv2": ("MobileViTV2", lambda: _image(256), {}, {}),
    "modernbert": ("ModernBert", lambda: _tokens(32),
                   {**_TEXT, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
                    "cls_token_id": 1, "sep_token_id": 2}, {}),
    "mpnet": ("MPNet", lambda: _tokens(32), _TEXT, {}),
    "mpt": ("Mpt", lambda: _tokens(16),
            {"vocab_size": _VOCABULARY, "d_model": 128, "n_layers": 2, "n_heads": 4}, _DECODES),
    "nystromformer": ("Nystromformer", lambda: _tokens(64), _TEXT, {}),
    "olmo": ("Olmo", lambda: _tokens(16), _TEXT, _DECODES),
    "opt": ("OPT", lambda: _tokens(16),
            {"vocab_size": _VOCABULARY, "hidden_size": 128, "ffn_dim": 256,
             "word_embed_proj_dim": 128, **_HEADS}, _DECODES),
    "patchtst": ("PatchTST", lambda: torch.randn(1, 32, 7),
                 {"d_model": 32, "num_hidden_layers": 2, "num_input_channels": 7}, {}),
    "phi": ("Phi", lambda: _tokens(16), _TEXT, _DECODES),
    "phi3": ("Phi3", lambda: _tokens(16),
             {**_TEXT, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}, _DECODES),
    "poolformer": ("PoolFormer", _image, {}, {}),
    "qwen3": ("Qwen3", lambda: _tokens(16), {**_TEXT, "num_key_value_heads": 2, "head_dim": 32},
              _DECODES),
    "roberta": ("Roberta", lambda: _tokens(32), _TEXT, {}),
    "roformer": ("RoFormer", lambda: _tokens(32), _TEXT, {}),
    "sam": ("SamVision", lambda: _image(512),
            {"hidden_size": 128, "image_size": 512, "output_channels": 64,
             "global_attn_indexes": [1], "window_size": 7, **_HEADS}, {}),
    "sew": ("SEW", _sound, _SIZES, {}),
    "siglip_vision": ("SiglipVision", _image, _SIZES, {}),
    "squeezebert": ("SqueezeBert", lambda: _tokens(20), {**_TEXT, "embedding_size": 128}, {}),
    "stablelm": ("StableLm", lambda: _tokens(16), {**_TEXT, "num_key_value_heads": 4}, _DECODES),
    "swin2sr": ("Swin2SR", lambda: _image(64),
                {"embed_dim": 60, "depths": [2, 2], "num_heads": [6, 6]}, {}),
    "t5": ("T5Encoder", lambda: _tokens(24),
           {"vocab_size": _VOCABULARY, "d_model": 128, "d_kv": 32, "d_ff": 256, "num_layers": 2,
            "num_heads": 4}, {}),
    "timesformer": ("Timesformer", lambda: _video(8), _SIZES, {}),
    "videomae": ("VideoMAE", lambda: _video(16), _SIZES, {}),
    "vit": ("ViT", _image, _SIZES, {}),
    "wavlm": ("WavLM", _sound, _SIZES, {}),
    "xlm_roberta": ("XLMRoberta", lambda: _tokens(32), _TEXT, {}),
    "xlnet": ("XLNet", lambda: _tokens(32),
              {"vocab_size": _VOCABULARY, "d_model": 128, "n_layer": 2, "n_head": 4,
               "d_inner": 256}, {}),
    "yolos": ("Yolos", lambda: _image(256), {**_SIZES, "image_size": [256, 256]}, {}),
}  # fmt: skip

#: Classes that share the configuration of another.
_CONFIGURED_AS = {"T5Encoder": "T5"}

ALL = (
    *(f"timm__{name}" for name in TIMM),
    *(f"tv__{name}" for name in TORCHVISION),
    *(f"hf__{name}" for name in _TRANSFORMERS),
)


def _timm(name):
    model = timm.create_model(name, pretrained=False)
    return model, (torch.randn(1, *model.default_cfg["input_size"]),)


def _torchvision(name):
    if name in models.list_models(module=models.video):
        size = 112 if "18" in name else 224
        return models.get_model(name, weights=None), (torch.randn(1, 3, 16, size, size),)
    if name in models.list_models(module=models.segmentation):
        return Segmentation(models.get_model(name, weights=None, weights_backbone=None)), (
            _image(),
        )
    if name in models.list_models(module=models.optical_flow):
        return models.get_model(name, weights=None), (_image(128), _image(128))
    return models.get_model(name, weights=None), (_image(299 if name == "inception_v3" else 224),)


def _transformers(kind):
    name, example, settings, call = _TRANSFORMERS[kind]
    config = getattr(transformers, f"{_CONFIGURED_AS.get(name, name)}Config")(**settings)
    return LastHidden(getattr(transformers, f"{name}Model")(config), **call), (example(),)


_PACKAGES = {"timm": _timm, "tv": _torchvision, "hf": _transformers}


def __getattr__(name):
    package, _, model = name.partition("__")
    if package not in _PACKAGES or not model:
        raise AttributeError(name)
    return lambda: _PACKAGES[package](model)
