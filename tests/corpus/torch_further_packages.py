"""Further networks of torchvision, timm and transformers, which only the atlas knows.

As in :mod:`torch_packages`, each name is a function that returns a module and example inputs.
"""

from functools import partial

import torch
from torch_packages import _decoder, _encoder, _image, _text_encoder, _timm, _torchvision

tv_convnext_s = partial(_torchvision, "convnext_small")
tv_effv2s = partial(_torchvision, "efficientnet_v2_s")
tv_regnet_x800 = partial(_torchvision, "regnet_x_800mf")
tv_resnet18 = partial(_torchvision, "resnet18")

tm_cait = partial(_timm, "cait_xxs24_224")
tm_convnextv2 = partial(_timm, "convnextv2_nano")
tm_edgenext = partial(_timm, "edgenext_small", 256)
tm_effb2 = partial(_timm, "efficientnet_b2", 256)
tm_efficientvit = partial(_timm, "efficientvit_b1")
tm_fastvit = partial(_timm, "fastvit_t8", 256)
tm_fbnet = partial(_timm, "fbnetv3_b")
tm_gmlp = partial(_timm, "gmlp_s16_224")
tm_incnext = partial(_timm, "inception_next_tiny")
tm_levit = partial(_timm, "levit_192")
tm_lite0 = partial(_timm, "tf_efficientnet_lite0")
tm_mbv4 = partial(_timm, "mobilenetv4_conv_small")
tm_mbv4m = partial(_timm, "mobilenetv4_conv_medium", 256)
tm_mixnet = partial(_timm, "mixnet_s")
tm_pvt = partial(_timm, "pvt_v2_b0")
tm_repvgg = partial(_timm, "repvgg_a0")
tm_resmlp = partial(_timm, "resmlp_12_224")
tm_resnest = partial(_timm, "resnest14d")
tm_rexnet = partial(_timm, "rexnet_100")
tm_selecsls = partial(_timm, "selecsls42b")
tm_sknet = partial(_timm, "skresnet18")
tm_tinyvit = partial(_timm, "tiny_vit_5m_224")
tm_twins = partial(_timm, "twins_svt_small")
tm_visformer = partial(_timm, "visformer_tiny")
tm_vovnet = partial(_timm, "ese_vovnet19b_dw")
tm_xception = partial(_timm, "xception41")

_WIDTHS = {
    "hidden_size": 384,
    "num_hidden_layers": 6,
    "num_attention_heads": 6,
    "intermediate_size": 1536,
}
_OF_DECODERS = {
    "hidden_size": 512,
    "num_hidden_layers": 6,
    "num_attention_heads": 8,
    "intermediate_size": 2048,
}

hf_bloom = partial(_decoder, "Bloom", 64, hidden_size=512, n_layer=6, n_head=8)
hf_deberta = partial(_text_encoder, "DebertaV2", 64, **{**_WIDTHS, "num_hidden_layers": 4})
hf_gemma = partial(_decoder, "Gemma", 64, **_OF_DECODERS, num_key_value_heads=1, head_dim=64)
hf_hubert = partial(
    _encoder, "Hubert", (torch.randn(1, 8000),), **{**_WIDTHS, "num_hidden_layers": 4}
)
hf_mpnet = partial(_text_encoder, "MPNet", 64, **_WIDTHS)
hf_opt = partial(_decoder, "OPT", 64, **_OF_DECODERS, ffn_dim=2048, word_embed_proj_dim=512)
hf_phi = partial(_decoder, "Phi", 64, **_OF_DECODERS)
hf_roberta = partial(_text_encoder, "Roberta", 128, **{**_WIDTHS, "num_attention_heads": 12})
hf_squeezebert = partial(_text_encoder, "SqueezeBert", 64, **_WIDTHS, embedding_size=384)
hf_vitmsn = partial(_encoder, "ViT", _image(), **{**_WIDTHS, "num_hidden_layers": 8})
