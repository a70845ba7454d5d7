"""StableHLO programs of several replicas on the model in every execution mode, and on XLA:CPU."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np
from jax._src.lib import _jax, xla_client

from jax_ipu import _ipu, compiler
from jax_ipu.compiler.types import SIZE

# IR type names -> NumPy.
_NUMPY = {"f32": np.float32, "s32": np.int32, "u32": np.uint32, "pred": np.bool_, "f64": np.float64}


def program(body: str, *results: tuple[str, str], replicas: int = 4) -> str:
    """Returns a module whose main has no arguments; `%r` is the index of the replica as an f32 scalar."""
    types = ", ".join(t for _, t in results)
    return f"""
module @m attributes {{mhlo.num_replicas = {replicas} : i32, mhlo.num_partitions = 1 : i32}} {{
  func.func @main() -> ({types}) {{
    %id = stablehlo.replica_id : tensor<ui32>
    %r = stablehlo.convert %id : (tensor<ui32>) -> tensor<f32>
    {body}
    return {", ".join(v for v, _ in results)} : {types}
  }}
}}"""


def run_ipu(text: str, mode: tuple[str, int], replicas: int = 4) -> list[list[np.ndarray]]:
    """Returns the results by replica."""
    execution, tiles = mode
    executable = compiler.compile(text.encode(), "mlir", b"", f"ipu2:{tiles}")
    types = executable.output_types
    assert all(dtype in SIZE for dtype, _ in types)
    results = _ipu.run_replicas(executable, [[] for _ in range(replicas)], execution)
    return [
        [np.frombuffer(d, _NUMPY[dtype]).reshape(shape) for d, (dtype, shape) in zip(data, types, strict=True)]
        for data in results
    ]


def run_cpu(text: str, replicas: int = 4, arguments: Sequence[Sequence[np.ndarray]] = ()) -> list[list[np.ndarray]]:
    """Returns the results by replica, for the arguments by replica."""
    devices = tuple(jax.devices("cpu")[:replicas])
    options = xla_client.CompileOptions()
    options.num_replicas = replicas
    options.device_assignment = xla_client.DeviceAssignment.create(np.array([[d.id] for d in devices], dtype=np.int32))
    loaded = devices[0].client.compile_and_load(text, _jax.DeviceList(devices), options)
    mesh = jax.sharding.Mesh(np.array(devices), "r")
    split = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("r"))
    operands = []
    for parts in zip(*arguments, strict=True):
        whole = np.stack(parts)
        placed = [jax.device_put(part[None], device) for part, device in zip(parts, devices, strict=True)]
        operands.append(jax.make_array_from_single_device_arrays(whole.shape, split, placed))
    by_result = loaded.execute_sharded(operands).disassemble_into_single_device_arrays()
    return [[np.asarray(parts[r]) for parts in by_result] for r in range(replicas)]
