"""Handwritten digits: the four MNIST files, or scikit-learn's 1,797 bundled digits if the files are missing."""

from __future__ import annotations

import gzip
import hashlib
import struct
import urllib.error
import urllib.request
from pathlib import Path
from typing import NamedTuple

import numpy as np

MIRRORS = (
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
)
# SHA-256 of the compressed files.
FILES = {
    "train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
}


class Digits(NamedTuple):
    """Images float32 [n, 28, 28, 1] in [0, 1], labels int32 [n]."""

    name: str
    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray


def read_idx(path: Path) -> np.ndarray:
    """Reads an IDX file of unsigned bytes, compressed or not."""
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    if len(data) < 4 or data[:3] != b"\x00\x00\x08":
        raise ValueError(f"{path} is not an IDX file of unsigned bytes (it starts with {data[:4]!r})")
    rank = data[3]
    shape = struct.unpack_from(f">{rank}I", data, 4)
    values = np.frombuffer(data, np.uint8, offset=4 + 4 * rank)
    if values.size != int(np.prod(shape)):
        raise ValueError(f"{path} is truncated: shape {shape} needs {int(np.prod(shape))} bytes, it has {values.size}")
    return values.reshape(shape)


def download(directory: Path) -> None:
    """Downloads the missing MNIST files and checks them."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, digest in FILES.items():
        path = directory / name
        if path.exists() and hashlib.sha256(path.read_bytes()).hexdigest() == digest:
            continue
        errors = []
        for mirror in MIRRORS:
            try:
                with urllib.request.urlopen(mirror + name, timeout=60) as response:
                    data = response.read()
            except (urllib.error.URLError, OSError) as error:
                errors.append(f"{mirror}: {error}")
                continue
            if hashlib.sha256(data).hexdigest() == digest:
                path.write_bytes(data)
                break
            errors.append(f"{mirror}: the file's checksum is wrong")
        else:
            raise SystemExit(f"Could not download {name}:\n  " + "\n  ".join(errors))


def _mnist(directory: Path) -> Digits:
    arrays = []
    for name in FILES:
        for candidate in (directory / name, directory / name.removesuffix(".gz")):
            if candidate.exists():
                arrays.append(read_idx(candidate))
                break
        else:
            raise SystemExit(
                f"{directory} has no {name} (nor the uncompressed file). Add --download to fetch the four MNIST files."
            )
    train_x, train_y, test_x, test_y = arrays
    return Digits(
        "MNIST",
        train_x[..., None].astype(np.float32) / 255,
        train_y.astype(np.int32),
        test_x[..., None].astype(np.float32) / 255,
        test_y.astype(np.int32),
    )


def _bundled() -> Digits:
    from scipy.ndimage import zoom
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = zoom(digits.images.astype(np.float32) / 16, (1, 3.5, 3.5), order=1)[..., None]
    order = np.random.default_rng(0).permutation(len(images))
    images, labels = images[order], digits.target[order].astype(np.int32)
    split = len(images) * 4 // 5
    return Digits(
        "scikit-learn's 1,797 handwritten digits, scaled to 28x28",
        images[:split],
        labels[:split],
        images[split:],
        labels[split:],
    )


def load(data_dir: Path | None, fetch: bool) -> Digits:
    """Loads MNIST from ``data_dir`` (after a download if ``fetch``), or else the bundled digits."""
    if fetch:
        data_dir = data_dir or Path("mnist_data")
        download(data_dir)
    return _mnist(data_dir) if data_dir else _bundled()
