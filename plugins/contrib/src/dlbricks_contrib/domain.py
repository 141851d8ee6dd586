"""Names of ONNX Runtime's own operators."""

DOMAIN = "com.microsoft"
"""Domain of ONNX Runtime's own operators."""

WITHOUT_DOMAIN = "SimplifiedLayerNormalization"
"""Operator of ONNX Runtime that exporters write without its domain."""
