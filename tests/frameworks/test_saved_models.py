"""Files of GraphCoreManager whose contents are damaged and whose digest is right: a ValueError each."""

import functools
import hashlib
import json

import numpy as np
import pytest

from jax_ipu import GraphCoreManager
from jax_ipu.models import archive

WEIGHTS = {"a": np.ones((4, 3), np.float32), "b": np.ones(3, np.float32)}


def apply(params, x):
    return x @ params["a"] + params["b"]


DAMAGED_HEADERS = {
    "nothing": lambda header: header.clear(),
    "no weights": lambda header: header.pop("weights"),
    "no text": lambda header: header.update(kind=3),
    "no number": lambda header: header.update(executable_bytes="9"),
    "negative": lambda header: header.update(executable_bytes=-1),
    "beyond the file": lambda header: header.update(executable_bytes=2**70),
    "unknown type": lambda header: header["weights"][0].__setitem__(1, "float31"),
    "object type": lambda header: header["weights"][0].__setitem__(1, "object"),
    "no shape": lambda header: header["weights"][0].__setitem__(0, "ab"),
    "negative shape": lambda header: header["weights"][0].__setitem__(0, [-1]),
    "overflow": lambda header: header["weights"][0].__setitem__(0, [2**62, 4]),
    "one weight more": lambda header: header["weights"].append(header["weights"][0]),
    "one weight less": lambda header: header["weights"].pop(),
    "one input less": lambda header: header["inputs"].pop(),
    "no tree": lambda header: header.update(in_tree="AAAA"),
    "no base64": lambda header: header.update(out_tree="%"),
    "tree of another size": lambda header: header.update(out_tree=header["in_tree"][:-4]),
    "plan": lambda header: header.update(plan=list(range(40))),
    "cost": lambda header: header.update(cost=7),
    "deep": lambda header: header.update(plan=[functools.reduce(lambda inner, _: [inner], range(900), 0)] * 9),
}


@pytest.mark.parametrize("name", DAMAGED_HEADERS)
def test_damaged_headers_of_saved_models(saved_model, name):
    """With the digest mended: every error is a ValueError that names the file."""
    path, data = saved_model
    size = int.from_bytes(data[8:16], "little")
    header = json.loads(data[16 : 16 + size])
    DAMAGED_HEADERS[name](header)
    text = json.dumps(header).encode()
    body = data[:8] + len(text).to_bytes(8, "little") + text + data[16 + size : -32]
    path.write_bytes(body + hashlib.sha256(body).digest())
    with pytest.raises(ValueError, match=path.name):
        archive.read(path)


def test_damaged_executables_and_text_in_saved_models(saved_model):
    path, data = saved_model
    size = int.from_bytes(data[8:16], "little")
    for position in (16, 16 + size + 40):  # in the header, in the executable
        body = data[:position] + b"\xff" + data[position + 1 : -32]
        path.write_bytes(body + hashlib.sha256(body).digest())
        with pytest.raises(ValueError, match="is damaged"):
            archive.read(path)
    body = data[:8] + (2**63).to_bytes(8, "little") + data[16:-32]
    path.write_bytes(body + hashlib.sha256(body).digest())
    with pytest.raises(ValueError, match="is damaged"):
        archive.read(path)


@pytest.fixture
def saved_model(tmp_path, one_saved_model):
    return tmp_path / "damaged.ipu", one_saved_model


@pytest.fixture(scope="module")
def one_saved_model(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "model.ipu"
    with GraphCoreManager(compile_only=True) as manager:
        manager.compile_model((apply, WEIGHTS), np.ones((2, 4), np.float32)).save(path)
    return path.read_bytes()
