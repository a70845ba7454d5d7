"""BERT as the garden's examples have it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "garden"))

from bert_model import IGNORED, Config, _layer, batch, encode, init, loss

__all__ = ["IGNORED", "Config", "_layer", "batch", "encode", "init", "loss"]
