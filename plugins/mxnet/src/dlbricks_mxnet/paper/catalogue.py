"""The networks of Table 1 of the paper, and the functions that build them.

Titles, tasks and numbers of layers are those of Table 1 in Li et al., "DLBricks", ICPE
2020; the tasks are image classification (IC), image processing (IP), object detection
(OD), regression (RG) and semantic segmentation (SS). Importing this module imports no
framework.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Entry:
    """One network of the table.

    Attributes:
        number: Its row in the table.
        slug: Short name, unique without the number where models differ in more than weights.
        title: Its name in the table.
        task: The table's abbreviation.
        layers: How many layers the table counts.
        builder: ``"module:function"`` in this package; gives an uninitialized block.
        inputs: Shape of each input without the batch.
        arguments: Arguments of the function.
    """

    number: int
    slug: str
    title: str
    task: str
    layers: int
    builder: str
    inputs: Mapping[str, Shape]
    arguments: Mapping[str, Any]

    @property
    def label(self) -> str:
        """Name of the model in reports, chosen to sort and read well."""
        return f"{self.number:02d}_{self.slug}"

    def build(self) -> Any:
        """The network as a Gluon ``HybridBlock`` without weights; imports MXNet."""
        module, _, function = self.builder.partition(":")
        return getattr(importlib.import_module(f"{__package__}.{module}"), function)(
            **self.arguments
        )


Row = tuple[int, str, str, int, str, tuple[Shape, ...], Mapping[str, Any]]


def row(
    number: int, slug: str, title: str, layers: int, builder: str, *shapes: Shape, **arguments: Any
) -> Row:
    """A line of the tables below; several inputs are called data0, data1 and so on."""
    return number, slug, title, layers, builder, shapes, arguments


# Two lines a network: the row of the table, then its function.
# fmt: off

_CLASSIFICATION = (  # 1 to 21
    row(1, "ademxapp_a", "Ademxapp Model A Trained on ImageNet Competition Data", 142,
        "ademxapp:classifier", (3, 320, 320)),
    row(2, "vgg16_age_lap", "Age Estimation VGG-16 Trained on IMDB-WIKI and Looking at People Data",
        40, "vgg:vgg", (3, 224, 224), convolutions=(2, 2, 3, 3, 3), classes=101),
    row(3, "vgg16_age", "Age Estimation VGG-16 Trained on IMDB-WIKI Data", 40,
        "vgg:vgg", (3, 224, 224), convolutions=(2, 2, 3, 3, 3), classes=101),
    row(4, "capsnet", "CapsNet Trained on MNIST Data", 53,
        "capsnet:capsnet", (1, 28, 28), (11520,)),
    row(5, "vgg16_gender", "Gender Prediction VGG-16 Trained on IMDB-WIKI Data", 40,
        "vgg:vgg", (3, 224, 224), convolutions=(2, 2, 3, 3, 3), classes=2),
    row(6, "inception_v1_sos", "Inception V1 Trained on Extended Salient Object Subitizing Data",
        147, "inception_v1:inception_v1", (3, 224, 224), classes=5),
    row(7, "inception_v1", "Inception V1 Trained on ImageNet Competition Data", 147,
        "inception_v1:inception_v1", (3, 224, 224), classes=1000),
    row(8, "inception_v1_places", "Inception V1 Trained on Places365 Data", 147,
        "inception_v1:inception_v1", (3, 224, 224), classes=365),
    row(9, "inception_v3", "Inception V3 Trained on ImageNet Competition Data", 311,
        "inception_v3:inception_v3", (3, 299, 299)),
    row(10, "mobilenet_v2", "MobileNet V2 Trained on ImageNet Competition Data", 153,
        "mobilenet_v2:mobilenet_v2", (3, 224, 224)),
    row(11, "resnet101", "ResNet-101 Trained on ImageNet Competition Data", 347,
        "resnet:resnet", (3, 224, 224), depths=(3, 4, 23, 3)),
    row(12, "resnet101_yfcc", "ResNet-101 Trained on YFCC100m Geotagged Data", 344,
        "resnet:preactivated_resnet", (3, 224, 224), depths=(3, 4, 23, 3), classes=15527),
    row(13, "resnet152", "ResNet-152 Trained on ImageNet Competition Data", 517,
        "resnet:resnet", (3, 224, 224), depths=(3, 8, 36, 3)),
    row(14, "resnet50", "ResNet-50 Trained on ImageNet Competition Data", 177,
        "resnet:resnet", (3, 224, 224), depths=(3, 4, 6, 3)),
    row(15, "senet154", "Squeeze-and-Excitation Net Trained on ImageNet Competition Data", 874,
        "senet:senet", (3, 224, 224), depths=(3, 8, 36, 3)),
    row(16, "squeezenet_v1_1", "SqueezeNet V1.1 Trained on ImageNet Competition Data", 69,
        "squeezenet:squeezenet", (3, 227, 227)),
    row(17, "vgg16", "VGG-16 Trained on ImageNet Competition Data", 40,
        "vgg:vgg", (3, 224, 224), convolutions=(2, 2, 3, 3, 3), classes=1000),
    row(18, "vgg19", "VGG-19 Trained on ImageNet Competition Data", 46,
        "vgg:vgg", (3, 224, 224), convolutions=(2, 2, 4, 4, 4), classes=1000),
    row(19, "wide_resnet50_2", "Wide ResNet-50-2 Trained on ImageNet Competition Data", 176,
        "resnet:wide_resnet", (3, 224, 224), depths=(3, 4, 6, 3), widening=2),
    row(20, "imageidentify_v1", "Wolfram ImageIdentify Net V1", 232,
        "imageidentify:imageidentify", (3, 224, 224)),
    row(21, "resnet50_nsfw", "Yahoo Open NSFW Model V1", 177,
        "resnet:resnet", (3, 224, 224), depths=(3, 4, 6, 3), classes=2, width=32, bias=True),
)

_PROCESSING = (  # 22 to 38
    row(22, "adain_style", "AdaIN-Style Trained on MS-COCO and Painter by Numbers Data", 109,
        "adain:adain", (3, 512, 512), (3, 512, 512)),
    row(23, "colorful", "Colorful Image Colorization Trained on ImageNet Competition Data", 58,
        "colorization:colorful", (1, 224, 224)),
    row(24, "colornet_imagenet",
        "ColorNet Image Colorization Trained on ImageNet Competition Data", 62,
        "colorization:colornet", (1, 224, 224), fusion=1),
    row(25, "colornet_places", "ColorNet Image Colorization Trained on Places Data", 62,
        "colorization:colornet", (1, 224, 224), fusion=3),
    row(26, "cyclegan_apple_orange",
        "CycleGAN Apple-to-Orange Translation Trained on ImageNet Competition Data", 94,
        "translation:cyclegan", (3, 256, 256)),
    row(27, "cyclegan_horse_zebra",
        "CycleGAN Horse-to-Zebra Translation Trained on ImageNet Competition Data", 94,
        "translation:cyclegan", (3, 256, 256)),
    row(28, "cyclegan_monet_photo", "CycleGAN Monet-to-Photo Translation", 94,
        "translation:cyclegan", (3, 256, 256)),
    row(29, "cyclegan_orange_apple",
        "CycleGAN Orange-to-Apple Translation Trained on ImageNet Competition Data", 94,
        "translation:cyclegan", (3, 256, 256)),
    row(30, "cyclegan_photo_cezanne", "CycleGAN Photo-to-Cezanne Translation", 96,
        "translation:cyclegan", (3, 256, 256), reflect=True),
    row(31, "cyclegan_photo_monet", "CycleGAN Photo-to-Monet Translation", 94,
        "translation:cyclegan", (3, 256, 256)),
    row(32, "cyclegan_photo_van_gogh", "CycleGAN Photo-to-Van Gogh Translation", 96,
        "translation:cyclegan", (3, 256, 256), reflect=True),
    row(33, "cyclegan_summer_winter", "CycleGAN Summer-to-Winter Translation", 94,
        "translation:cyclegan", (3, 256, 256)),
    row(34, "cyclegan_winter_summer", "CycleGAN Winter-to-Summer Translation", 94,
        "translation:cyclegan", (3, 256, 256)),
    row(35, "cyclegan_zebra_horse",
        "CycleGAN Zebra-to-Horse Translation Trained on ImageNet Competition Data", 94,
        "translation:cyclegan", (3, 256, 256)),
    row(36, "pix2pix_photo_map", "Pix2pix Photo-to-Street-Map Translation", 56,
        "translation:pix2pix", (3, 256, 256)),
    row(37, "pix2pix_map_photo", "Pix2pix Street-Map-to-Photo Translation", 56,
        "translation:pix2pix", (3, 256, 256)),
    row(38, "vdsr", "Very Deep Net for Super-Resolution", 40,
        "vdsr:vdsr", (1, 255, 255)),
)

_DETECTION = (  # 39 to 41
    row(39, "ssd_vgg_300", "SSD-VGG-300 Trained on PASCAL VOC Data", 145,
        "ssd:ssd_vgg", (3, 300, 300), size=300, classes=20),
    row(40, "ssd_vgg_512", "SSD-VGG-512 Trained on MS-COCO Data", 157,
        "ssd:ssd_vgg", (3, 512, 512), size=512, classes=80),
    row(41, "yolo_v2", "YOLO V2 Trained on MS-COCO Data", 106,
        "yolo:yolo_v2", (3, 416, 416)),
)

_REGRESSION = (  # 42 to 47
    row(42, "face_alignment_2d",
        "2D Face Alignment Net Trained on 300W Large Pose Data", 967,
        "fan:fan", (3, 256, 256)),
    row(43, "face_alignment_3d",
        "3D Face Alignment Net Trained on 300W Large Pose Data", 967,
        "fan:fan", (3, 256, 256)),
    row(44, "depth_wild",
        "Single-Image Depth Perception Net Trained on Depth in the Wild Data", 501,
        "depth:depth_in_the_wild", (3, 240, 320)),
    row(45, "depth_nyu_wild",
        "Single-Image Depth Perception Net Trained on NYU Depth V2 and Depth in the Wild Data", 501,
        "depth:depth_in_the_wild", (3, 240, 320)),
    row(46, "depth_nyu",
        "Single-Image Depth Perception Net Trained on NYU Depth V2 Data", 501,
        "depth:depth_in_the_wild", (3, 240, 320)),
    row(47, "vrn",
        "Unguided Volumetric Regression Net for 3D Face Reconstruction", 1029,
        "vrn:vrn", (3, 192, 192)),
)

_SEGMENTATION = (  # 48 to 50
    row(48, "ademxapp_a1_ade20k", "Ademxapp Model A1 Trained on ADE20K Data", 141,
        "ademxapp:segmentation", (3, 504, 504), classes=150),
    row(49, "ademxapp_a1_voc_coco",
        "Ademxapp Model A1 Trained on PASCAL VOC2012 and MS-COCO Data", 141,
        "ademxapp:segmentation", (3, 504, 504), classes=21),
    row(50, "context_camvid",
        "Multi-scale Context Aggregation Net Trained on CamVid Data", 53,
        "dilation:context_aggregation", (3, 900, 1100), classes=11),
)

# fmt: on


def _entry(task: str, line: Row) -> Entry:
    number, slug, title, layers, builder, shapes, arguments = line
    names = ("data",) if len(shapes) == 1 else tuple(f"data{i}" for i in range(len(shapes)))
    inputs = dict(zip(names, shapes, strict=True))
    return Entry(number, slug, title, task, layers, builder, inputs, arguments)


#: Every network by its number as users type it, in the table's order.
ENTRIES: Mapping[str, Entry] = {
    str(line[0]): _entry(task, line)
    for task, lines in (
        ("IC", _CLASSIFICATION),
        ("IP", _PROCESSING),
        ("OD", _DETECTION),
        ("RG", _REGRESSION),
        ("SS", _SEGMENTATION),
    )
    for line in lines
}
