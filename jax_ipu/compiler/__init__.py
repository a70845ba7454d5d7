"""The compiler from StableHLO to Poplar: `compile` and its options. Knows neither JAX nor PJRT."""

from jax_ipu.compiler.api import compile
from jax_ipu.compiler.errors import CompileError
from jax_ipu.compiler.options import Options, compile_options

__all__ = ["CompileError", "Options", "compile", "compile_options"]
