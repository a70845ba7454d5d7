"""Throughputs that others published for IPUs, each from a source that was read: for docs/model_garden.md."""

from __future__ import annotations

from typing import NamedTuple


class Figure(NamedTuple):
    """One published measurement."""

    what: str
    system: str
    ipus: int
    batch: str
    precision: str
    rate: float  # of the whole system, in `unit` a second
    unit: str
    source: str
    differs: str  # from the garden's program, beside the chip's own effects


_RESULTS = "https://www.graphcore.cn/performance-results/"
_BYTE = "https://github.com/bytedance/ByteMLPerf/blob/main/byte_mlperf/reports/IPU"
_HEAT = "https://github.com/simehaa/IPU/blob/main/README.md"
_ALL_REDUCE = "16 replicas add their gradients"
_HOST = "the host link is in it"

FIGURES = {
    "resnet50 training": Figure(
        "ResNet-50 v1.5, training, TensorFlow 1, SDK 3.0",
        "Bow Pod16",
        16,
        "3,520",
        "16.16",
        44059,
        "images",
        _RESULTS,
        f"{_ALL_REDUCE} after several micro-batches; {_HOST}",
    ),
    "resnet50 inference 4": Figure(
        "ResNet-50, inference",
        "C600",
        1,
        "4",
        "FP16",
        7062,
        "images",
        f"{_BYTE}/resnet50-torch-fp32/result-fp16.json",
        f"{_HOST}; whether partial sums are in half is not said",
    ),
    "resnet50 inference 32": Figure(
        "ResNet-50, inference",
        "C600",
        1,
        "32",
        "FP16",
        13542,
        "images",
        f"{_BYTE}/resnet50-torch-fp32/result-fp16.json",
        f"{_HOST}; whether partial sums are in half is not said",
    ),
    "bert_base training": Figure(
        "BERT Base, phase 1 pre-training, 128 tokens, PopART, SDK 3.1",
        "Bow Pod16",
        16,
        "65,536",
        "16.16",
        16391,
        "sequences",
        _RESULTS,
        "a pipeline over several IPUs for each replica; scores of the masked tokens only; next-sentence loss; "
        "an optimizer with moments",
    ),
    "bert_base inference": Figure(
        "BERT, question answering, 384 tokens",
        "C600",
        1,
        "40",
        "FP16",
        3134,
        "sequences",
        f"{_BYTE}/bert-torch-fp32/result-fp16.json",
        f"ours are full sequences of 384 tokens; {_HOST}",
    ),
    "bert_large training": Figure(
        "BERT Large, phase 1 pre-training, 128 tokens, TensorFlow 2, SDK 3.3",
        "Bow Pod16",
        16,
        "65,280",
        "16.16",
        4527,
        "sequences",
        _RESULTS,
        "scores of the masked tokens only; next-sentence loss; an optimizer with moments; "
        "the matrix of scores is that of the embedding",
    ),
    "vit training": Figure(
        "ViT, pre-training, PyTorch, SDK 3.0",
        "Bow Pod16",
        16,
        "65,536",
        "16.16",
        7615,
        "images",
        _RESULTS,
        "the source does not name the size; a pipeline for each replica",
    ),
    "heat 2d": Figure(
        "2D heat equation, 8,000 x 8,000, 1,000 moments in 0.30 s, vertices in C++",
        "GC200",
        1,
        "8,000 rows",
        "float32",
        8000 / 0.30,
        "rows",
        _HEAT,
        "vertices of their own on rectangles of cells, with two arrays in turn",
    ),
    "heat 2d 4": Figure(
        "2D heat equation, 14,000 x 14,000, 1,000 moments in 0.27 s, vertices in C++",
        "GC200",
        4,
        "14,000 rows",
        "float32",
        14000 * 14000 / 8000 / 0.27,
        "rows",
        _HEAT,
        "a square of 14,000; its rate is that of rows of 8,000 cells",
    ),
    "heat 2d 16": Figure(
        "2D heat equation, 27,000 x 27,000, 1,000 moments in 0.25 s, vertices in C++",
        "GC200",
        16,
        "27,000 rows",
        "float32",
        27000 * 27000 / 8000 / 0.25,
        "rows",
        _HEAT,
        "a square of 27,000; its rate is that of rows of 8,000 cells",
    ),
    "heat 3d": Figure(
        "3D heat equation, 360 x 360 x 360, 1,000 moments in 0.26 s, vertices in C++",
        "GC200",
        1,
        "360 rows",
        "float32",
        360 / 0.26,
        "rows",
        _HEAT,
        "vertices of their own on boxes of cells, with two arrays in turn",
    ),
}
