"""Decoders: language models that are built from the configuration files they ship with.

``fields`` reads a configuration strictly, ``families`` turns one into the description of a decoder
(``architecture``), and ``build`` writes the decoder in ONNX operators. No weight is ever read.
"""
