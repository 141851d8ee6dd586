"""Networks of transformers and torchvision as modules that hand on one tensor."""

import torch


class LastHidden(torch.nn.Module):
    """A network of transformers that hands on its last hidden state alone."""

    def __init__(self, module, **arguments):
        super().__init__()
        self.module = module
        self.arguments = arguments

    def forward(self, *inputs):
        return self.module(*inputs, **self.arguments).last_hidden_state


class Segmentation(torch.nn.Module):
    """A segmentation network of torchvision that hands on a tensor, not a dictionary."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, image):
        return self.module(image)["out"]
