"""Networks of torchvision, timm and transformers that nothing of DLBricks was made with.

The kinds of layers that predictions rest on were chosen before any of these was looked at. As in
:mod:`torch_packages`, each name is a function that returns a module and example inputs.
"""

from functools import partial

from torch_packages import _decoder, _encoder, _image, _text_encoder, _timm, _torchvision

tv_densenet169 = partial(_torchvision, "densenet169")
tv_regnet_y1 = partial(_torchvision, "regnet_y_1_6gf")
tv_swin_v2 = partial(_torchvision, "swin_v2_t")

tm_convit = partial(_timm, "convit_tiny")
tm_crossvit = partial(_timm, "crossvit_tiny_240", 240)
tm_cspresnet = partial(_timm, "cspresnet50")
tm_davit = partial(_timm, "davit_tiny")
tm_efficientformer = partial(_timm, "efficientformer_l1")
tm_gernet = partial(_timm, "gernet_s")
tm_hardcore = partial(_timm, "hardcorenas_a")
tm_lcnet = partial(_timm, "lcnet_100")
tm_mobileone = partial(_timm, "mobileone_s1")
tm_mvit = partial(_timm, "mvitv2_tiny")
tm_nest = partial(_timm, "nest_tiny")
tm_tinynet = partial(_timm, "tinynet_a", 192)
tm_volo = partial(_timm, "volo_d1_224")

_WIDTHS = {
    "hidden_size": 384,
    "num_hidden_layers": 6,
    "num_attention_heads": 6,
    "intermediate_size": 1536,
}

hf_beit = partial(_encoder, "Beit", _image(), **_WIDTHS)
hf_codegen = partial(_decoder, "CodeGen", 64, n_embd=512, n_layer=6, n_head=8, rotary_dim=32)
hf_data2vec = partial(_text_encoder, "Data2VecText", 96, **_WIDTHS)
hf_ernie = partial(_text_encoder, "Ernie", 128, **_WIDTHS)
hf_mistral = partial(
    _decoder, "Mistral", 48, hidden_size=640, num_hidden_layers=5, num_attention_heads=10,
    num_key_value_heads=2, intermediate_size=1792,
)  # fmt: skip
hf_nystrom = partial(_text_encoder, "Nystromformer", 128, **_WIDTHS)
hf_stablelm = partial(
    _decoder, "StableLm", 96, hidden_size=512, num_hidden_layers=6, num_attention_heads=8,
    num_key_value_heads=8, intermediate_size=1536,
)  # fmt: skip
