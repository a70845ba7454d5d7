"""The file format of a compiled model: a header, the executable, the weights, and a SHA-256 digest of these."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from jax_ipu import _ipu
from jax_ipu.files import explained
from jax_ipu.models.plans import Cost, Plan
from jax_ipu.models.traced_model import Array, Signature, shape_of

_MAGIC = b"jax_ipu\0"
# Increase this number with every change of the file format.
_FORMAT = 2
_DIGEST_BYTES = 32


class Stored(NamedTuple):
    """The contents of a file."""

    kind: str
    precision: str
    target: str  # e.g. "ipu2:1472"
    plan: Plan
    cost: Cost
    signature: Signature
    weights: list[Array]
    executable: bytes


def write(path: Path, stored: Stored) -> None:
    """Writes the file.

    Raises ValueError: the inputs or outputs contain objects of classes that the file cannot describe.
    """
    from jax_ipu.version import __version__

    signature = stored.signature
    header = {
        "format": _FORMAT,
        "version": __version__,
        "kind": stored.kind,
        "precision": stored.precision,
        "target": stored.target,
        "plan": list(stored.plan),
        "cost": list(stored.cost),
        "in_tree": _tree_text(signature.in_tree, "inputs"),
        "inputs": [[list(spec.shape), spec.dtype.name] for spec in signature.inputs],
        "declared": [dtype.name for dtype in signature.declared],
        "out_tree": _tree_text(signature.out_tree, "outputs"),
        "outputs": [[list(spec.shape), spec.dtype.name] for spec in signature.outputs],
        "weights": [[list(w.shape), w.dtype.name] for w in stored.weights],
        "executable_bytes": len(stored.executable),
    }
    text = json.dumps(header).encode()
    parts = [_MAGIC, len(text).to_bytes(8, "little"), text, stored.executable]
    parts += [np.ascontiguousarray(weight).tobytes() for weight in stored.weights]
    digest = hashlib.sha256()
    # Write to a temporary file first, so that an interrupted writer leaves no incomplete file.
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with explained("the model cannot be written", "give another path"), temporary.open("wb") as file:
            for part in parts:
                digest.update(part)
                file.write(part)
            file.write(digest.digest())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def read(path: Path) -> Stored:
    """Reads the file.

    Raises ValueError: the file is not a compiled model, is damaged, or was written by another version.
    Raises OSError: the file cannot be read.
    """
    with explained("the model cannot be read", "give the path that CompiledModel.save was given"):
        data = path.read_bytes()
    start = len(_MAGIC) + 8
    if len(data) < start + _DIGEST_BYTES or not data.startswith(_MAGIC):
        raise ValueError(f"{path} is not a model saved by jax_ipu")
    body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if hashlib.sha256(body).digest() != digest:
        raise ValueError(f"{path} is damaged: its contents do not match its checksum. Save the model again.")
    try:
        return _read_body(path, body)
    except _Refused:
        raise
    # What JSON, NumPy and JAX raise for a header whose fields are missing, of other types or of other values.
    except (
        AttributeError,
        IndexError,
        KeyError,
        MemoryError,
        OverflowError,
        RecursionError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:
        raise ValueError(f"{path} is damaged: its header is not valid ({error!r}). Save the model again.") from error


class _Refused(ValueError):
    """An error whose message is for the user as it is."""


def _read_body(path: Path, body: bytes) -> Stored:
    start = len(_MAGIC) + 8
    size = int.from_bytes(body[len(_MAGIC) : start], "little")
    header = json.loads(body[start : start + size])
    _check_version(path, header)
    executable_bytes = header["executable_bytes"]
    if type(executable_bytes) is not int or not 0 <= executable_bytes <= len(body) - start - size:
        raise ValueError(f"an executable of {executable_bytes!r} bytes")
    position = start + size + executable_bytes
    executable = body[start + size : position]
    weights = []
    for shape, name in header["weights"]:
        dtype, count = _dtype(name), math.prod(_shape(shape))
        if count * dtype.itemsize > len(body) - position:
            raise ValueError(f"a weight of shape {shape} is larger than what is left of the file")
        weights.append(np.frombuffer(body, dtype, count, position).reshape(shape))
        position += count * dtype.itemsize
    if position != len(body):
        raise ValueError(f"{len(body) - position} bytes behind the last weight")
    signature = Signature(
        _tree(header["in_tree"]),
        [shape_of(_shape(shape), _dtype(name)) for shape, name in header["inputs"]],
        [_dtype(name) for name in header["declared"]],
        _tree(header["out_tree"]),
        [shape_of(_shape(shape), _dtype(name)) for shape, name in header["outputs"]],
    )
    kind, precision, target = (header[name] for name in ("kind", "precision", "target"))
    if not all(isinstance(text, str) for text in (kind, precision, target)):
        raise ValueError("the kind, the precision or the target is not text")
    if signature.in_tree.num_leaves != len(signature.inputs) or len(signature.declared) != len(signature.inputs):
        raise ValueError("the numbers of inputs differ")
    if signature.out_tree.num_leaves != len(signature.outputs):
        raise ValueError("the numbers of outputs differ")
    _ipu.Executable.deserialize(executable)
    return Stored(kind, precision, target, Plan(*header["plan"]), Cost(*header["cost"]), signature, weights, executable)


def _shape(shape: Any) -> tuple[int, ...]:
    if not all(type(d) is int and d >= 0 for d in shape):
        raise ValueError(f"the shape {shape}")
    return tuple(shape)


def _check_version(path: Path, header: dict[str, Any]) -> None:
    from jax_ipu.version import __version__

    if (header["format"], header["version"]) != (_FORMAT, __version__):
        raise _Refused(
            f"{path} was saved by jax_ipu {header['version']} (format {header['format']}), this is {__version__} "
            f"(format {_FORMAT}): save it again with this version"
        )


def _dtype(name: str) -> np.dtype[Any]:
    return np.dtype(jax.numpy.dtype(name))


def _tree_text(tree: Any, what: str) -> str:
    try:
        data: bytes = tree.serialize_using_proto()
    except ValueError as error:
        raise ValueError(
            f"the {what} of the model hold objects of classes of their own ({tree}): only dicts, lists, tuples and "
            "None can be saved"
        ) from error
    return base64.b64encode(data).decode()


def _tree(text: str) -> Any:
    registry = jax.tree_util.default_registry
    return jax.tree_util.PyTreeDef.deserialize_using_proto(registry, base64.b64decode(text))
