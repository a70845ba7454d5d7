"""The reference of random programs: JAX on CPU, in a separate process if XLA:CPU may end it."""

import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any

import jax
import numpy as np
from hypothesis.errors import UnsatisfiedAssumption

from support.programs import Program

# The reference need not be fast: half of its time is compilation. XLA's algebraic simplifier is off: it joins two
# bitcasts to narrower types into one of another shape, which the verifier rejects, and it changes the values of a
# reduction of windows with two operands over an updated array. Without the simplifier, the reshape mover adds
# transposes without end. Folding a reduction of several constants ends the process.
FAST: dict[str, str | bool] = {
    "xla_backend_optimization_level": "0",
    "xla_llvm_disable_expensive_passes": True,
    "xla_disable_hlo_passes": "algsimp,reshape-mover,constant_folding",
}
# XLA's default options. Without the simplifier, other passes have errors: one loses the update of a
# dynamic_update_slice.
USUAL: dict[str, str | bool] = {}


def traced(program: Program, arguments: list[np.ndarray[Any, Any]]) -> jax.stages.Traced:
    """Returns the program traced for `arguments`, with 64-bit types."""
    donated = tuple(range(len(arguments))) if program.donates else ()
    return jax.jit(program.function(), donate_argnums=donated, keep_unused=True).trace(*arguments)


def on_cpu(
    program: Program, arguments_of: Callable[[Program], list[np.ndarray[Any, Any]]], options: dict[str, str | bool]
) -> list[np.ndarray[Any, Any]]:
    """Returns the program's results, compiled with XLA's `options`."""
    with jax.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy on NaN and overflow in constants; donated inputs without a use
        arguments = arguments_of(program)
        lowered = traced(program, arguments).lower(lowering_platforms=("cpu",))
        return [np.asarray(x) for x in lowered.compile(options)(*arguments)]


class Isolated:
    """Runs `function` in a separate process. A call that ends the process warns and rejects the example.

    Raises AssertionError if the process ended in more than one call in a hundred, not counting the first time.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.calls = self.ended = 0
        self._pool = self._start()

    @staticmethod
    def _start() -> ProcessPoolExecutor:
        return ProcessPoolExecutor(1, get_context("spawn"))

    def __enter__(self) -> "Isolated":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def __call__(self, *arguments: Any) -> Any:
        self.calls += 1
        try:
            return self._pool.submit(self.function, *arguments).result()
        except BrokenProcessPool:
            self._pool = self._start()
            self.ended += 1
        assert self.ended <= 1 + self.calls / 100, f"{self.ended} of {self.calls} calls ended the process"
        warnings.warn(f"the reference's process ended on {arguments}", stacklevel=2)
        raise UnsatisfiedAssumption
