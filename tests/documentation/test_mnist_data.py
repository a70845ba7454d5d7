import gzip
import importlib.util
import struct
from pathlib import Path

import numpy as np
import pytest

path = Path(__file__).parents[2] / "examples" / "mnist" / "datasets.py"
spec = importlib.util.spec_from_file_location("mnist_datasets", path)
datasets = importlib.util.module_from_spec(spec)
spec.loader.exec_module(datasets)


def idx(values):
    return b"\x00\x00\x08" + bytes([values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape) + values.tobytes()


@pytest.mark.parametrize("compress", [False, True])
def test_idx_files_are_read(tmp_path, compress):
    rng = np.random.default_rng(0)
    arrays = {
        "train-images-idx3-ubyte": rng.integers(0, 256, (5, 28, 28), dtype=np.uint8),
        "train-labels-idx1-ubyte": rng.integers(0, 10, 5, dtype=np.uint8),
        "t10k-images-idx3-ubyte": rng.integers(0, 256, (3, 28, 28), dtype=np.uint8),
        "t10k-labels-idx1-ubyte": rng.integers(0, 10, 3, dtype=np.uint8),
    }
    for name, values in arrays.items():
        data = idx(values)
        (tmp_path / (name + (".gz" if compress else ""))).write_bytes(gzip.compress(data) if compress else data)
    data = datasets.load(tmp_path, fetch=False)
    np.testing.assert_allclose(data.train_images[..., 0] * 255, arrays["train-images-idx3-ubyte"], rtol=1e-6)
    np.testing.assert_array_equal(data.test_labels, arrays["t10k-labels-idx1-ubyte"])


def test_truncated_file_is_refused(tmp_path):
    file = tmp_path / "x"
    file.write_bytes(idx(np.zeros((4, 4), np.uint8))[:-1])
    with pytest.raises(ValueError, match="truncated"):
        datasets.read_idx(file)


def test_missing_file_says_what_to_do(tmp_path):
    with pytest.raises(SystemExit, match="--download"):
        datasets.load(tmp_path, fetch=False)


def test_bundled_digits():
    data = datasets.load(None, fetch=False)
    assert data.train_images.shape == (1437, 28, 28, 1) and data.test_images.shape == (360, 28, 28, 1)
    assert data.train_images.dtype == np.float32 and 0.9 <= data.train_images.max() <= 1.0
    assert set(data.train_labels) == set(range(10))
