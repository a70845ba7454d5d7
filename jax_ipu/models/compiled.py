"""A compiled model, which keeps its weights on the IPUs and can be run and saved."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from jax_ipu import _ipu, compiler
from jax_ipu.compiler.options import serialize_options
from jax_ipu.compiler.types import numpy_dtype
from jax_ipu.integration.tracebacks import boundary
from jax_ipu.models import archive, plans
from jax_ipu.models.arrays import arguments, like_inputs
from jax_ipu.models.plans import Cost, Plan, Shardings
from jax_ipu.models.traced_model import Array, Signature, TracedModel, no_run
from jax_ipu.models.wide import types_kept

# (weights, inputs) -> (weights, outputs); all are flat lists.
Runner = Callable[[list[Any], list[Any]], tuple[Sequence[Any], Sequence[Any]]]


class Placed(NamedTuple):
    """An executable loaded on its devices; `serialize` returns bytes that another process can load."""

    run: Runner
    shardings: Shardings
    serialize: Callable[[], bytes]
    wide: bool  # its arguments may be of 64 bits


class CompiledModel:
    """A model compiled for given input shapes, as ``GraphCoreManager.compile_model`` returns it.

    Attributes:
        kind: the kind of the original model, e.g. "PyTorch".
        precision: "float32", "float16" or "mixed".
        plan: its distribution over IPUs and slices of the batch.
        cost: cycles of one call and bytes on the fullest tile, as the IPU model computes them.
        report: the plans that ``optimize_model`` compared and what its choice saves; "" without a search.

    Examples:
        >>> import numpy as np
        >>> from jax_ipu import get_graphcore_manager
        >>> model = get_graphcore_manager().compile_model(lambda x: x * x, np.ones(3, np.float32))
        >>> model.kind, model.precision, str(model.plan)
        ('function', 'float32', 'memory_proportion 0.6')
        >>> model(np.arange(3, dtype=np.float32))
        array([0., 1., 4.], dtype=float32)
    """

    def __init__(
        self,
        kind: str,
        precision: str,
        target: str,
        plan: Plan,
        cost: Cost,
        signature: Signature,
        weights: Sequence[Array],
        placed: Placed | None,
        data: bytes = b"",
    ) -> None:
        """`data`: the serialised executable of a model that is not `placed` on a device."""
        self.kind = kind
        self.precision = precision
        self.plan = plan
        self.cost = cost
        self.report = ""
        self._target = target
        self._signature = signature
        self._placed = placed
        self._data = data
        self._lock = threading.Lock()
        self._released = False
        self._weights: list[Any] = list(weights)
        if placed is not None:
            with types_kept(placed.wide):
                self._weights = [jax.device_put(w, s) for w, s in zip(weights, placed.shardings.weights, strict=True)]

    def __repr__(self) -> str:
        return f"<CompiledModel {self.kind}, {self.precision}, {self.plan}, {self.cost.cycles} cycles>"

    @boundary
    def __call__(self, *inputs: Any) -> Any:
        """Runs the model; see ``GraphCoreManager.execute_model``."""
        return self.execute(inputs)

    @boundary
    def execute(self, inputs: Any) -> Any:
        """Runs the model on inputs of the structure and shapes of the example inputs.

        Raises:
            ValueError: the inputs have another structure or other shapes.
            RuntimeError: the model was released, or compiled without a device.

        Examples:
            >>> import numpy as np
            >>> from jax_ipu import get_graphcore_manager
            >>> model = get_graphcore_manager().compile_model(lambda x: x * x, np.ones(3, np.float32))
            >>> model.execute(np.full(3, 2, np.float32))
            array([4., 4., 4.], dtype=float32)
        """
        inputs = arguments(inputs)
        outputs = self._step(self._signature.flatten(inputs))
        return self._signature.unflatten(outputs, like_inputs(inputs))

    def _step(self, inputs: list[Any]) -> list[Any]:
        with self._lock:
            self._check()
            if self._placed is None:
                raise RuntimeError(
                    "the model was compiled without a device (compile_only=True): save it with save(path), and load it "
                    "with GraphCoreManager().load(path) where there is an IPU"
                )
            # The run donates the weights and returns them: keep the returned arrays for the next run.
            with types_kept(self._placed.wide):
                weights, outputs = self._placed.run(self._weights, inputs)
            self._weights = list(weights)
            return list(outputs)

    def _check(self) -> None:
        if self._released:
            raise RuntimeError("the model was released by finalize(): compile it again after initialize()")

    @boundary
    def save(self, path: str | Path) -> None:
        """Writes the executable with its weights, for ``GraphCoreManager.load``, also on another machine.

        Raises:
            ValueError: the inputs or outputs contain objects of classes that a file cannot describe.

        Examples:
            >>> import numpy as np
            >>> from jax_ipu import get_graphcore_manager
            >>> model = get_graphcore_manager().compile_model(lambda x: x * x, np.ones(3, np.float32))
            >>> import pathlib, tempfile
            >>> path = pathlib.Path(tempfile.mkdtemp()) / "square.ipu"
            >>> model.save(path)
            >>> path.stat().st_size > 0
            True
        """
        with self._lock:
            self._check()
            data = self._data if self._placed is None else self._placed.serialize()
            weights = [np.asarray(w) for w in self._weights]
        archive.write(
            Path(path),
            archive.Stored(
                self.kind, self.precision, self._target, self.plan, self.cost, self._signature, weights, data
            ),
        )

    @property
    def distribution(self) -> list[str]:
        """A description for each IPU of the part of the model that it holds.

        Examples:
            >>> import numpy as np
            >>> from jax_ipu import get_graphcore_manager
            >>> model = get_graphcore_manager().compile_model(lambda x: x * x, np.ones(3, np.float32))
            >>> model.distribution
            ['the whole model']
        """
        return [] if self._placed is None or self._released else self._placed.shardings.description

    def release(self) -> None:
        """Frees the memory on the IPUs; the model cannot be run afterwards.

        Examples:
            >>> import numpy as np
            >>> from jax_ipu import get_graphcore_manager
            >>> model = get_graphcore_manager().compile_model(lambda x: x * x, np.ones(3, np.float32))
            >>> model.release()
            >>> model.distribution
            []
        """
        with self._lock:
            if self._placed is not None:
                for weight in self._weights:
                    weight.delete()
            self._released = True
            self._weights, self._placed, self._data = [], None, b""


def _options(plan: Plan) -> dict[str, Any]:
    """The compiler options; a plan that does not fit is followed by the next one, so none gets advice."""
    return {**plan.compiler_options(), "ipu_advice_seconds": 0.0}


def compile_on_devices(
    traced: TracedModel, plan: Plan, devices: Sequence[Any], target: str, step: Callable[..., Any]
) -> tuple[Placed, Cost]:
    """Compiles step(weights, inputs) for the devices.

    Raises jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED when the program does not fit.
    """
    shardings = plans.shardings_of(traced, plan, devices)
    executable = plans.lower(traced, shardings, step).compile(compiler_options=_options(plan))

    def serialize() -> bytes:
        # The runtime's serialised form also depends on the devices. Compilation is deterministic, so compile again.
        return compile_for_target(traced, plan, target, step)[0]

    return Placed(executable, shardings, serialize, traced.wide), Cost.of(executable.cost_analysis())


def program_for_target(traced: TracedModel, plan: Plan, step: Callable[..., Any]) -> tuple[bytes, str, bytes]:
    """The program of step(weights, inputs), its format and its options, as `compiler.compile` takes them."""
    lowered = plans.lower_for_target(traced, plan, step)
    text = str(lowered.compiler_ir("stablehlo").operation.get_asm(enable_debug_info=True)).encode()
    return text, "mlir", serialize_options(_options(plan))


def compile_for_target(traced: TracedModel, plan: Plan, target: str, step: Callable[..., Any]) -> tuple[bytes, Cost]:
    """Compiles step(weights, inputs) without a device.

    `target` is e.g. "ipu2:1472". Over several IPUs the executable is the program that each of them runs.
    """
    executable: _ipu.Executable = compiler.compile(*program_for_target(traced, plan, step), target)
    return executable.serialize(), Cost(int(executable.cycles), int(executable.fullest_tile_bytes))


def place_loaded(
    data: bytes, plan: Plan, signature: Signature, weights: Sequence[Array], devices: Sequence[Any]
) -> Placed:
    """Loads a serialised executable on the first `plan.num_ipus` of the devices."""
    # The types on the IPU. The shapes here are those of one IPU's part, so `signature.outputs` gives the whole ones.
    types = [numpy_dtype(name) for name, _ in _ipu.Executable.deserialize(data).output_types[len(weights) :]]

    def step(weights: list[Any], inputs: list[Any]) -> tuple[list[Any], list[Any]]:
        # Stub: JAX needs a function with this signature; the loaded executable replaces its body.
        return weights, [jax.numpy.zeros(o.shape, t) for o, t in zip(signature.outputs, types, strict=True)]

    traced = TracedModel("loaded", no_run, list(weights), signature, wide=True)
    shardings = plans.shardings_of(traced, plan, devices)
    options = {"ipu_executable": base64.b64encode(data).decode()}
    run = plans.lower(traced, shardings, step).compile(compiler_options=options)
    return Placed(run, shardings, lambda: data, traced.wide)
