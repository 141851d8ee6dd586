"""Networks of torchvision, timm and transformers; not in the corpus.

Each name is a function that returns a module and example inputs, as
``torch:torch_packages:NAME`` wants them. The three packages are needed for nothing else.
Weights are random.
"""

from functools import partial

import timm
import torch
import transformers
from torch_outputs import LastHidden, Segmentation
from torchvision import models

_VOCABULARY = 8000


def _image(size=224):
    return (torch.randn(1, 3, size, size),)


def _tokens(count):
    return torch.randint(0, _VOCABULARY, (1, count))


def _torchvision(name, **arguments):
    return getattr(models, name)(weights=None, **arguments), _image()


def _timm(name, size=224):
    return timm.create_model(name, pretrained=False), _image(size)


def _decoder(kind, tokens, **settings):
    config = getattr(transformers, f"{kind}Config")(vocab_size=_VOCABULARY, **settings)
    model = getattr(transformers, f"{kind}Model")(config)
    return LastHidden(model, use_cache=False), (_tokens(tokens),)


def _encoder(kind, inputs, **settings):
    config = getattr(transformers, f"{kind}Config")(**settings)
    return LastHidden(getattr(transformers, f"{kind}Model")(config)), inputs


def _text_encoder(kind, tokens, **settings):
    return _encoder(kind, (_tokens(tokens),), vocab_size=_VOCABULARY, **settings)


tv_convnext = partial(_torchvision, "convnext_tiny")
tv_effb0 = partial(_torchvision, "efficientnet_b0")
tv_googlenet = partial(_torchvision, "googlenet", init_weights=False, aux_logits=False)
tv_maxvit = partial(_torchvision, "maxvit_t")
tv_mbv3l = partial(_torchvision, "mobilenet_v3_large")
tv_mbv3s = partial(_torchvision, "mobilenet_v3_small")
tv_mnasnet = partial(_torchvision, "mnasnet0_5")
tv_regnet_y400 = partial(_torchvision, "regnet_y_400mf")
tv_resnext50 = partial(_torchvision, "resnext50_32x4d")
tv_shuffle = partial(_torchvision, "shufflenet_v2_x1_0")
tv_swin_t = partial(_torchvision, "swin_t")
tv_vitb16 = partial(_torchvision, "vit_b_16")
tv_wide = partial(_torchvision, "wide_resnet50_2")

tm_coat = partial(_timm, "coatnet_0_rw_224")
tm_darknet = partial(_timm, "cspdarknet53", 256)
tm_deit_t = partial(_timm, "deit_tiny_patch16_224")
tm_dla = partial(_timm, "dla34")
tm_ghost = partial(_timm, "ghostnet_100")
tm_hrnet = partial(_timm, "hrnet_w18_small")
tm_mixer = partial(_timm, "mixer_s16_224")
tm_mobilevit = partial(_timm, "mobilevit_s", 256)
tm_nfnet = partial(_timm, "eca_nfnet_l0")
tm_pool = partial(_timm, "poolformer_s12")
tm_res2net = partial(_timm, "res2net50_14w_8s")
tm_xcit = partial(_timm, "xcit_nano_12_p16_224")

hf_albert = partial(
    _text_encoder, "Albert", 32,
    hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072,
)  # fmt: skip
hf_dinov2 = partial(
    _encoder, "Dinov2", _image(),
    hidden_size=384, num_hidden_layers=12, num_attention_heads=6, image_size=224,
)  # fmt: skip
hf_distil = partial(
    _text_encoder, "DistilBert", 48, dim=768, n_layers=6, n_heads=12, hidden_dim=3072
)
hf_electra = partial(
    _text_encoder, "Electra", 32,
    hidden_size=256, num_hidden_layers=12, num_attention_heads=4, intermediate_size=1024,
)  # fmt: skip
hf_gpt2 = partial(_decoder, "GPT2", 64, n_embd=512, n_layer=6, n_head=8)
hf_gptneox = partial(
    _decoder, "GPTNeoX", 16,
    hidden_size=512, num_hidden_layers=6, num_attention_heads=8, intermediate_size=2048,
)  # fmt: skip
hf_llama = partial(
    _decoder, "Llama", 32,
    hidden_size=512, num_hidden_layers=6, num_attention_heads=8, num_key_value_heads=4,
    intermediate_size=1408,
)  # fmt: skip
hf_mobilebert = partial(_text_encoder, "MobileBert", 32, num_hidden_layers=12)
hf_qwen = partial(
    _decoder, "Qwen2", 1,
    hidden_size=384, num_hidden_layers=8, num_attention_heads=6, num_key_value_heads=2,
    intermediate_size=1024,
)  # fmt: skip
hf_segformer = partial(_encoder, "Segformer", _image(128))
hf_wav2vec2 = partial(
    _encoder, "Wav2Vec2", (torch.randn(1, 16000),),
    hidden_size=384, num_hidden_layers=6, num_attention_heads=6, intermediate_size=1536,
)  # fmt: skip


def hf_bert():
    config = transformers.BertConfig(
        vocab_size=_VOCABULARY, hidden_size=512, num_hidden_layers=6,
        num_attention_heads=8, intermediate_size=2048,
    )  # fmt: skip
    mask = torch.ones(1, 64, dtype=torch.int64)
    return LastHidden(transformers.BertModel(config)), (_tokens(64), mask)


def tv_deeplab():
    model = models.segmentation.deeplabv3_mobilenet_v3_large(weights=None, weights_backbone=None)
    return Segmentation(model), _image()
