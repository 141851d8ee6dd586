"""Advice on files that no importer reads: their kind, and how to convert them."""

from __future__ import annotations

_TF = "python -m tf2onnx.convert makes an ONNX file of it (pip install tf2onnx)."
_WEIGHTS = "It contains weights without a graph: name the model's ONNX file or its code."

#: Advice by the ending of a file's name.
_ADVICE = {
    (".h5", ".hdf5", ".keras"): f"A Keras model: {_TF}",
    (".tflite", ".lite"): f"A TensorFlow Lite model: {_TF}",
    (".savedmodel", ".meta", ".pbtxt"): f"A TensorFlow model: {_TF}",
    (".mlmodel", ".mlpackage"): "A Core ML model: export the model that it was made from to ONNX.",
    (".caffemodel", ".prototxt"): "A Caffe model: convert it to ONNX first.",
    (".torchscript",): "A TorchScript file: export the module that it was made from, with "
    "torch.export or torch.onnx.",
    (".onnxtxt", ".textproto"): "A model as text: onnx.save(onnx.load(PATH), "
    "'model.onnx') makes an ONNX file of it.",
    (".ubj", ".cbm", ".txt", ".joblib"): "If it is a trained model of "
    "scikit-learn, XGBoost, LightGBM or CatBoost: skl2onnx or onnxmltools converts the "
    "trained model to an ONNX file.",
    (".pdmodel", ".pdiparams"): "A PaddlePaddle model: paddle2onnx makes an ONNX file of it.",
    (".xml", ".engine", ".plan", ".ort"): "Compiled for one runtime: name the ONNX file that it "
    "was made from.",
    (".gguf", ".ggml", ".npz", ".npy", ".msgpack"): _WEIGHTS,
    (".py",): "Python code: name a factory in it, torch:module:factory",
    ("config.json",): "The configuration of a language model is named as llm:PATH/config.json.",
    (".json",): "An MXNet graph is called NAME-symbol.json, with NAME-0000.params beside it.",
    (".zip", ".gz", ".tgz", ".tar", ".xz", ".bz2", ".zst", ".7z"): "An archive: unpack it first.",
}


def advice(spec: str) -> str:
    """Advice for a file by its name, followed by a space; empty if there is none."""
    name = spec.lower()
    found = next((text for suffixes, text in _ADVICE.items() if name.endswith(suffixes)), "")
    return f"{found.removesuffix('.')}. " if found else ""
