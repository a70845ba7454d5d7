"""The program and the options that ``jax.jit`` would give to the compiler of ``ipu``, made without a device."""

from __future__ import annotations

import functools
import io
import math
import os
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jax_ipu import environment
from jax_ipu.config import Config, config
from jax_ipu.integration.jitted import is_jitted, lowering_of

PLATFORM = "ipu"
# What pjrt_plugin/pjrt/plugin.cc tells jaxlib; a test compares programs.
STABLEHLO_VERSION = "1.17.0"
# Files of this package that call the functions of users: their lines say nothing of the program.
_CALLERS = (
    *("integration/programs.py", "integration/jitted.py", "integration/tracebacks.py", "estimates.py", "debug.py"),
    *("reports", "command_line"),
)


class Program(NamedTuple):
    """A program for `num_ipus` IPUs: a StableHLO artifact with source lines, and an xla.CompileOptionsProto."""

    mlir: bytes
    options: bytes
    num_ipus: int


def program_of(
    fun: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    donate_argnums: int | tuple[int, ...] = (),
    compiler_options: Mapping[str, Any] | None = None,
) -> Program:
    """The program of ``jax.jit(fun, donate_argnums)(*args, **kwargs)``.

    Args:
        fun: a function that ``jax.jit`` can trace; or one that is jitted already, also by ``nnx.jit`` or
            ``eqx.filter_jit`` or as a method, for which `donate_argnums` is ignored.
        args, kwargs: its arguments, or ``jax.ShapeDtypeStruct`` in their place.
        donate_argnums: as in ``jax.jit``.
        compiler_options: as in ``jax.jit``, besides those that a jitted function has already.

    Raises:
        ValueError: `fun` is an object of JAX that is lowered for the devices of another platform.
    """
    from jax._src.interpreters import mlir
    from jax._src.interpreters import pxla as typed_pxla

    pxla: Any = typed_pxla

    if not callable(fun):
        raise TypeError(
            f"expected a function and its arguments, as in estimate(f, x), not the result of a call: got {fun!r:.80},"
            f" of the type {type(fun).__name__}"
        )
    if compiler_options is not None and not isinstance(compiler_options, Mapping):
        raise TypeError(
            'compiler_options are a dictionary, such as {"ipu_outline": "always"}, not of the type'
            f" {type(compiler_options).__name__}"
        )
    if donate_argnums != () and is_jitted(fun):
        warnings.warn(
            f"donate_argnums={donate_argnums!r} has no effect: the function is jitted already; give it to its jax.jit",
            stacklevel=2,
        )
    environment.warn_once(os.environ, Config.variables())  # no backend is made, which would do so
    _exclude_callers()
    lowering = lowering_of(fun, args, kwargs, donate_argnums)
    if tuple(lowering._platforms) != (PLATFORM,):
        raise ValueError(
            f"the function is for {', '.join(lowering._platforms)}, not for {PLATFORM}: give it the argument "
            f'backend="{PLATFORM}", or use jax.jit with shardings instead'
        )
    # From here on as JAX's UnloadedMeshExecutable.from_hlo.
    given = lowering.compile_args
    module, shapes = lowering._hlo, given["shape_poly_state"]
    if shapes is not None and shapes.uses_dim_vars:
        module = mlir.refine_polymorphic_shapes(module)
    inputs, outputs = pxla.get_prop_to_input_output(
        given["in_shardings"], given["out_shardings"], len(given["ordered_effects"])
    )
    num_ipus = max(given["num_devices"], _mesh_size(module))
    options = {**dict(lowering._compiler_options_kvs), **(compiler_options or {})}
    devices: Any = np.arange(num_ipus)
    serialized = pxla.create_compile_options(
        module, given["tuple_args"], inputs, outputs, given["backend"], devices, options
    ).SerializeAsString()
    return Program(artifact(module), config.compile_options(serialized), num_ipus)


@functools.cache
def _exclude_callers() -> None:
    """Leaves the lines of this package out of the source lines of programs."""
    from jax._src import source_info_util

    for name in _CALLERS:
        source_info_util.register_exclusion(str(Path(__file__).parents[1] / name))


def _mesh_size(module: Any) -> int:
    """The size of the largest mesh in the program. JAX does not count abstract meshes inside of it as devices."""
    from jaxlib.mlir.dialects import sdy

    meshes = [sdy.MeshAttr(op.attributes["mesh"]) for op in module.body.operations if op.operation.name == "sdy.mesh"]
    return max((math.prod(sdy.MeshAxisAttr(axis).size for axis in mesh.axes) for mesh in meshes), default=1)


def artifact(module: Any) -> bytes:
    """The bytes that jaxlib gives to the plugin: it expands CHLO, but some ops stay as composites."""
    from jaxlib import _jax
    from jaxlib.mlir.dialects import stablehlo

    stream = io.BytesIO()
    module.operation.write_bytecode(stream)
    version = stablehlo.get_smaller_version(STABLEHLO_VERSION, stablehlo.get_current_version())
    # "Mixed": other dialects than StableHLO, like Shardy's, stay as they are.
    written: bytes = _jax.mlir.serialize_portable_artifact(stream.getvalue(), version, use_mixed_serialization=True)
    return written
