"""StableHLO text as an operation of JAX, for code that jax.lax cannot express in programs that JAX traces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core
from jax.interpreters import mlir
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import func

from jax_ipu.compiler.frontend.quantized import load_quantized_types

_NAMES = {"bool": "i1", "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64"}
_NAMES |= {"complex64": "complex<f32>", "complex128": "complex<f64>"}


def element(dtype: str) -> str:
    """Returns MLIR's name of a type."""
    if dtype.startswith("float8_") or dtype.startswith("float4_"):
        width, form = dtype.removeprefix("float").split("_")
        return f"f{width}{form.upper()}"
    return _NAMES.get(dtype) or dtype.replace("uint", "ui").replace("int", "i")


def tensor(shape: Sequence[int], dtype: str) -> str:
    return f"tensor<{''.join(f'{n}x' for n in shape)}{element(dtype)}>"


def array(numbers: Sequence[int], dtype: str = "i64") -> str:
    return f"array<{dtype}{': ' if numbers else ''}{', '.join(str(n).lower() for n in numbers)}>"


def region(arguments: Sequence[tuple[str, str]], body: str, results: Sequence[tuple[str, str]]) -> str:
    """Returns a region in generic form, over values (name, type)."""
    taken = ", ".join(f"{name}: {kind}" for name, kind in arguments)
    given = ", ".join(name for name, _ in results), ", ".join(kind for _, kind in results)
    return f"({{ ^bb0({taken}): {body} stablehlo.return {given[0]} : {given[1]} }})"


text_p = core.Primitive("stablehlo_text")
text_p.multiple_results = True


def hlo(
    body: str, results: Sequence[tuple[Sequence[int], str]], *operands: Any, reference: Callable[..., Any] | None = None
) -> Any:
    """Returns the values %r, or %r#0, %r#1, ..., that the text of a function body computes from %0, %1, ...

    results: their (shape, dtype). reference: the same computation in JAX, for XLA:CPU, if it cannot run the text.
    """
    types = tuple((tuple(shape), dtype) for shape, dtype in results)
    made = text_p.bind(*map(jnp.asarray, operands), body=body, results=types, reference=reference)
    return made[0] if len(made) == 1 else made


@text_p.def_abstract_eval
def _shapes(*operands: Any, body: str, results: Any, reference: Any) -> list[Any]:
    del operands, body, reference
    return [jax.core.ShapedArray(shape, jnp.dtype(dtype)) for shape, dtype in results]


def _lower(context: Any, *operands: Any, body: str, results: Any, reference: Any) -> Any:
    arguments = ", ".join(f"%{i}: {tensor(aval.shape, aval.dtype.name)}" for i, aval in enumerate(context.avals_in))
    types = ", ".join(tensor(shape, dtype) for shape, dtype in results)
    names = ", ".join(f"%r#{i}" for i in range(len(results))) if len(results) > 1 else "%r"
    text = f"func.func @main({arguments}) -> ({types}) {{\n{body}\nreturn {names} : {types}\n}}"
    module = context.module_context.module
    if "!quant." in body:
        load_quantized_types(module.context)
    source = ir.Module.parse(text)
    made = source.body.operations[0].type.results
    name = mlir.merge_mlir_modules(module, "text", source, context.module_context.symbol_table)
    return func.CallOp(made, ir.FlatSymbolRefAttr.get(name), list(operands)).results


def _lower_reference(context: Any, *operands: Any, body: str, results: Any, reference: Any) -> Any:
    if reference is None:
        return _lower(context, *operands, body=body, results=results, reference=reference)
    return mlir.lower_fun(lambda *xs: jax.tree.leaves(reference(*xs)), multiple_results=True)(context, *operands)


mlir.register_lowering(text_p, _lower)
mlir.register_lowering(text_p, _lower_reference, platform="cpu")
