"""GraphCoreManager: models of any framework on IPUs, for people who do not write JAX.

Thin: models become JAX functions (:mod:`jax_ipu.models`), and the ``ipu`` platform compiles and runs them.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import jax

from jax_ipu.config import config
from jax_ipu.integration.tracebacks import boundary
from jax_ipu.models import archive, plans, training
from jax_ipu.models.adapters import adapt, adapt_loss
from jax_ipu.models.arrays import arguments
from jax_ipu.models.compiled import CompiledModel, place_loaded
from jax_ipu.models.devices import PLATFORM, describe_devices, first_devices, target_name
from jax_ipu.models.optimizers import optimizer_of
from jax_ipu.models.planner import Planner
from jax_ipu.models.precision import PRECISIONS
from jax_ipu.models.search import CompiledPlan, Search
from jax_ipu.models.traced_model import TracedModel, trace
from jax_ipu.reports import Report, report_of
from jax_ipu.reports.result import checked_path


class GraphCoreManager:
    """Compiles models for IPUs and runs them.

    A model may be a Python function over NumPy-like arrays, ``(apply_fn, params)``, a flax, equinox, Keras 3 or PyTorch
    model, an ONNX file, StableHLO, or a ``jax.export.Exported``. Its weights go to the IPUs once and stay there.

    Attributes:
        num_ipus: the setting, as given.
        precision: the setting, as given.
        memory_proportion: the setting, as given.
        enable_half_partials: the setting, as given.
        compile_only: the setting, as given.

    Examples:
        >>> import numpy as np
        >>> from jax_ipu import GraphCoreManager
        >>> weights = np.eye(4, dtype=np.float32)
        >>> with GraphCoreManager() as ipu:
        ...     compiled = ipu.compile_model(lambda x: x @ weights, np.ones((2, 4), np.float32))
        ...     outputs = ipu.execute_model(compiled, np.full((2, 4), 3, np.float32))
        >>> outputs.tolist()
        [[3.0, 3.0, 3.0, 3.0], [3.0, 3.0, 3.0, 3.0]]
    """

    @boundary
    def __init__(
        self,
        num_ipus: int = 1,
        precision: str = "float32",
        memory_proportion: float = 0.6,
        enable_half_partials: bool = False,
        compile_only: bool = False,
    ) -> None:
        """Checks the settings; acquires no IPUs.

        Args:
            num_ipus: IPUs that each model uses. The batch is distributed over them when it divides, else the weights,
                or the layers of a training step.
            precision: "float32", "float16", or "mixed": half products and activations, but sums, exponentials,
                divisions and roots, and so normalisations, softmax and losses, in float32.
            memory_proportion: part of a tile's memory for the temporaries of a matrix product or convolution; less
                memory usually means more cycles.
            enable_half_partials: keep partial sums of half products in half: less memory, fewer cycles, more rounding.
            compile_only: compile without a device; models can be saved, but not run.

        Raises:
            ValueError: a setting that is not valid.
        """
        if not isinstance(num_ipus, int) or num_ipus < 1:
            raise ValueError(f"num_ipus={num_ipus!r} is not valid: give a whole number of at least 1")
        if precision not in PRECISIONS:
            raise ValueError(f"precision={precision!r} is not valid: give one of {', '.join(PRECISIONS)}")
        if not hasattr(memory_proportion, "__float__") or not 0 < memory_proportion <= 1:
            raise ValueError(f"memory_proportion={memory_proportion!r} is not valid: give a number above 0, at most 1")
        self.num_ipus = num_ipus
        self.precision = precision
        self.memory_proportion = float(memory_proportion)
        self.enable_half_partials = bool(enable_half_partials)
        self.compile_only = bool(compile_only)
        self._lock = threading.RLock()
        self._state = "new"
        self._devices: list[Any] = []
        self._models: weakref.WeakSet[CompiledModel] = weakref.WeakSet()

    # Lifecycle -----------------------------------------------------------------------------------------------------

    @boundary
    def initialize(self) -> None:
        """Acquires the IPUs. A second call has no effect; a call after finalize() acquires them again.

        Raises:
            RuntimeError: there are fewer IPUs than num_ipus.

        Examples:
            >>> from jax_ipu import GraphCoreManager
            >>> ipu = GraphCoreManager()
            >>> ipu.initialize()
            >>> ipu.get_ipu_count() >= 1
            True
        """
        with self._lock:
            if self._state == "ready":
                return
            if not self.compile_only:
                self._devices = first_devices(self.num_ipus)
            self._state = "ready"

    def finalize(self) -> None:
        """Releases the models that this manager compiled, and their memory. A second call has no effect.

        Examples:
            >>> from jax_ipu import GraphCoreManager
            >>> ipu = GraphCoreManager()
            >>> ipu.initialize()
            >>> ipu.finalize()
            >>> ipu.get_ipu_count()
            Traceback (most recent call last):
            RuntimeError: this GraphCoreManager was finalized: call initialize() before you use it again
        """
        with self._lock:
            for model in list(self._models):
                model.release()
            self._models.clear()
            self._devices = []
            self._state = "finalized"

    @boundary
    def __enter__(self) -> GraphCoreManager:
        self.initialize()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.finalize()

    def _check_ready(self) -> None:
        if self._state == "finalized":
            raise RuntimeError("this GraphCoreManager was finalized: call initialize() before you use it again")
        if self._state == "new":
            raise RuntimeError(
                "this GraphCoreManager is not initialised: call initialize(), or use it as `with GraphCoreManager() as "
                "ipu:`"
            )

    def _start(self) -> None:
        """Initialises the manager at its first model."""
        if self._state == "new":
            self.initialize()
        self._check_ready()

    # Information --------------------------------------------------------------------------------------------------

    @boundary
    def get_ipu_count(self) -> int:
        """The number of IPUs of the platform, independent of num_ipus.

        Examples:
            >>> import jax
            >>> from jax_ipu import get_graphcore_manager
            >>> get_graphcore_manager().get_ipu_count() == len(jax.devices("ipu"))
            True
        """
        with self._lock:
            self._check_ready()
            return len(config.device_ids()) if self.compile_only else len(jax.local_devices(backend=PLATFORM))

    @boundary
    def get_ipu_info(self) -> list[dict[str, Any]]:
        """One dictionary for each IPU.

        Keys: id, architecture, num_tiles, memory_per_tile and memory_total (bytes), clock_frequency (Hz), device
        ("model" or "hardware"), memory_in_use (bytes), used (whether this manager uses it), and models: what the IPU
        holds of each compiled model.

        Examples:
            >>> from jax_ipu import GraphCoreManager
            >>> with GraphCoreManager() as ipu:
            ...     info = ipu.get_ipu_info()[0]
            >>> info["architecture"], info["num_tiles"], info["used"], info["models"]
            ('ipu2', 1472, True, [])
        """
        with self._lock:
            self._check_ready()
            info = describe_devices(with_memory=not self.compile_only)
            for i, description in enumerate(info):
                models = [model for model in self._models if i < len(model.distribution)]
                description["used"] = i < self.num_ipus
                description["models"] = [f"{model.kind}: {model.distribution[i]}" for model in models]
            return info

    # Models -------------------------------------------------------------------------------------------------------

    @boundary
    def compile_model(self, model: Any, example_inputs: Any) -> CompiledModel:
        """Compiles a model for inputs of the shapes and types of `example_inputs`.

        Args:
            model: see the class.
            example_inputs: the argument, or a tuple of the arguments; pytrees of arrays, or of jax.ShapeDtypeStruct.

        Raises:
            TypeError: the model is of no known kind; the message lists them.
            RuntimeError: it does not fit; the message names the fullest tiles and the largest tensors.

        Examples:
            Weights may be given as a pytree, and inputs by their shapes:

            >>> import jax, numpy as np
            >>> from jax_ipu import GraphCoreManager
            >>> params = {"w": np.ones((4, 2), np.float32), "b": np.zeros(2, np.float32)}
            >>> example = jax.ShapeDtypeStruct((3, 4), np.float32)
            >>> with GraphCoreManager() as ipu:
            ...     model = ipu.compile_model((lambda p, x: x @ p["w"] + p["b"], params), example)
            ...     outputs = model(np.ones((3, 4), np.float32))
            >>> outputs.shape, model.cost.cycles > 0
            ((3, 2), True)
        """
        self._start()
        inputs = arguments(example_inputs)
        traced = trace(adapt(model, inputs), inputs, self.precision)
        return self._adopt(traced, self._planner().first_that_fits(traced))

    @boundary
    def optimize_model(self, model: Any, example_inputs: Any) -> CompiledModel:
        """Compiles a model with the plan that fits and takes the fewest cycles according to the IPU model.

        Tries several memory proportions, half partials where they are enabled, the IPUs of the manager (and one of them
        alone), and slices of the batch where the model treats its rows independently. ``.report`` of the result tells
        what was tried, what was chosen and what it saves. Raises as compile_model.

        Examples:
            >>> import numpy as np
            >>> from jax_ipu import GraphCoreManager
            >>> weights = np.ones((64, 64), np.float32)
            >>> with GraphCoreManager() as ipu:
            ...     best = ipu.optimize_model(lambda x: x @ weights, np.ones((8, 64), np.float32))
            >>> best.report.splitlines()[0].split(":")[0]
            'chosen'
        """
        self._start()
        inputs = arguments(example_inputs)
        traced = trace(adapt(model, inputs), inputs, self.precision)
        planner = self._planner()
        search = planner.search(
            traced,
            lambda: self._slice_counts(model, traced),
            lambda rows: trace(adapt(model, rows), rows, self.precision),
        )
        compiled = self._adopt(traced, search.best())
        compiled.report = search.report(planner.plan("none", 1))
        return compiled

    @boundary
    def report(self, model: Any, example_inputs: Any, path: str | Path | None = None) -> Report:
        """Everything that the IPU model knows of a model, for a browser: see :func:`jax_ipu.report`. Nothing is run.

        The plan is the one of compile_model; where nothing fits, the report says what is too large.

        Args:
            model: as for compile_model.
            example_inputs: as for compile_model.
            path: where to save the report: an HTML file, or its data if the name ends in .json; by default nowhere.

        Raises:
            TypeError: the model is of no known kind; the message lists them.
            ValueError: the name in `path` ends in neither .html nor .json.

        Examples:
            >>> import numpy as np
            >>> from jax_ipu import GraphCoreManager
            >>> with GraphCoreManager() as ipu:
            ...     report = ipu.report(lambda x: x + 1, np.ones(64, np.float32))
            >>> report.fits
            True
        """
        if path is not None:
            checked_path(path)
        self._start()
        inputs = arguments(example_inputs)
        traced = trace(adapt(model, inputs), inputs, self.precision)
        result = report_of(self._planner().compilation(traced))
        if path is not None:
            result.save(path)
        return result

    @boundary
    def execute_model(self, compiled_model: CompiledModel, inputs: Any) -> Any:
        """Runs a compiled model.

        Args:
            compiled_model: a result of compile_model, optimize_model or load.
            inputs: as the example inputs: the argument, or a tuple of the arguments. Arrays of NumPy or JAX, or tensors
                of PyTorch.

        Returns:
            The outputs in the model's structure: PyTorch tensors if the inputs have any, else JAX arrays if the
            inputs have any, else NumPy arrays.

        Raises:
            ValueError: the inputs do not have the structure or shapes that the model was compiled for.
            RuntimeError: the model was released, or compiled without a device.

        Examples:
            >>> import numpy as np
            >>> from jax_ipu import GraphCoreManager
            >>> with GraphCoreManager() as ipu:
            ...     add = ipu.compile_model(lambda x, y: x + y, (np.zeros(3, np.float32), np.zeros(3, np.float32)))
            ...     outputs = ipu.execute_model(add, (np.arange(3, dtype=np.float32), np.ones(3, np.float32)))
            >>> outputs
            array([1., 2., 3.], dtype=float32)
        """
        self._check_ready()
        if not isinstance(compiled_model, CompiledModel):
            raise TypeError(f"execute_model takes what compile_model gives, not a {type(compiled_model).__name__}")
        return compiled_model.execute(inputs)

    @boundary
    def load(self, path: str | Path) -> CompiledModel:
        """Loads a model that was saved with :meth:`CompiledModel.save`; nothing is compiled.

        Raises:
            ValueError: the file is no compiled model, is damaged, is of another version or target, or is for more IPUs
                than this manager has.

        Examples:
            >>> import tempfile, numpy as np
            >>> from jax_ipu import GraphCoreManager
            >>> path = tempfile.mkdtemp() + "/model.ipu"
            >>> with GraphCoreManager(compile_only=True) as compiler:
            ...     compiler.compile_model(lambda x: x.sum(), np.ones(8, np.float32)).save(path)
            >>> with GraphCoreManager() as ipu:
            ...     float(ipu.load(path)(np.ones(8, np.float32)))
            8.0
        """
        self._start()
        stored = archive.read(Path(path))
        target = target_name()
        if stored.target != target:
            raise ValueError(
                f"{path} was compiled for {stored.target}, but this is {target}: compile it again for this target"
            )
        if stored.plan.num_ipus > self.num_ipus:
            raise ValueError(
                f"{path} was compiled for {stored.plan.num_ipus} IPUs, but this manager has {self.num_ipus}: use "
                f"GraphCoreManager(num_ipus={stored.plan.num_ipus})"
            )
        placed = None
        if not self.compile_only:
            placed = place_loaded(stored.executable, stored.plan, stored.signature, stored.weights, self._devices)
        model = CompiledModel(
            stored.kind,
            stored.precision,
            stored.target,
            stored.plan,
            stored.cost,
            stored.signature,
            stored.weights,
            placed,
            stored.executable,
        )
        self._models.add(model)
        return model

    @boundary
    def compile_training_step(
        self,
        model: Any,
        loss: Callable[[Any, Any], Any] | str | None,
        optimizer: Any,
        example_batch: Any,
        gradient_accumulation: int = 1,
        learning_rate: float = 0.01,
        optimize: bool = False,
        seed: int = 0,
        optimizer_settings: Mapping[str, Any] | None = None,
    ) -> training.TrainingStep:
        """Compiles a training step that keeps weights and optimiser state on the IPU.

        Args:
            model: a model with weights.
            loss: a function (outputs, targets) -> scalar, or "mean_squared_error" or "cross_entropy"; one of
                PyTorch (torch.nn.CrossEntropyLoss(), torch.nn.functional.mse_loss); or None for a model that computes
                its loss itself: its output, or `loss` in it.
            optimizer: an optax optimiser (anything with `init` and `update`); one of PyTorch (torch.optim.SGD, Adam or
                AdamW, whose learning rates may change from step to step); or the name of one: "sgd", "momentum",
                "adam", ... of optax, "SGD", "Adam", "AdamW" as PyTorch has them.
            example_batch: (inputs, targets), where several inputs are a tuple; or a dict with the targets under
                "labels". With loss=None, the model's inputs.
            gradient_accumulation: into how many micro-batches the batch is cut; their gradients are averaged, then the
                weights change once.
            learning_rate: for an optimiser given by its name.
            optimize: try recomputation and several memory proportions, and take the fastest plan that fits.
            seed: seed of the random numbers of a model with dropout. Every step draws new ones; the same seed gives the
                same steps.
            optimizer_settings: other settings of an optimiser given by its name, e.g. {"momentum": 0.9}.

        Raises:
            ValueError: the model has no weights, or the batch does not divide.
            RuntimeError: it does not fit, or this manager compiles only.

        Examples:
            >>> import numpy as np
            >>> from jax_ipu import GraphCoreManager
            >>> params = {"w": np.zeros((4, 1), np.float32)}
            >>> batch = np.eye(4, dtype=np.float32), np.ones((4, 1), np.float32)
            >>> with GraphCoreManager() as ipu:
            ...     step = ipu.compile_training_step(
            ...         (lambda p, x: x @ p["w"], params), "mean_squared_error", "sgd", batch, learning_rate=0.5
            ...     )
            ...     first, second = step(batch), step(batch)
            >>> first, second < first
            (1.0, True)
        """
        self._start()
        if self.compile_only:
            raise RuntimeError("a training step needs a device for its state: use a manager without compile_only")
        inputs, _ = training.Batches(loss is None).split(example_batch)
        trainer = training.Trainer(
            adapt(model, inputs),
            adapt_loss(loss),
            optimizer_of(optimizer, learning_rate, optimizer_settings),
            example_batch,
            gradient_accumulation,
            self.precision,
            seed,
        )
        step = self._planner().training_step(
            trainer, optimize, lambda search: self._in_stages(trainer, gradient_accumulation, search)
        )
        self._models.add(step)
        return step

    def _in_stages(self, trainer: training.Trainer, micro_batches: int, search: Search) -> training.TrainingStep | None:
        """The step with the model's layers on different IPUs; None where `search` has one that takes fewer cycles.

        Raises the error of `search` where neither fits.
        """
        from jax_ipu.pipelines.model_step import StagedTrainingStep

        plan = self._planner().plan("stages", self.num_ipus)
        try:
            step = StagedTrainingStep(trainer, plan, target_name(), self.precision, micro_batches, self._devices)
        except ValueError as reason:
            search.add_note(f"It was not cut into stages on {self.num_ipus} IPUs either: {str(reason).splitlines()[0]}")
            return None
        if not search.nothing_fits and search.best().cost <= step.cost:
            step.release()
            return None
        return step

    # Compilation --------------------------------------------------------------------------------------------------

    def _planner(self) -> Planner:
        return Planner(
            self.num_ipus,
            self.precision,
            self.memory_proportion,
            self.enable_half_partials,
            None if self.compile_only else self._devices,
        )

    def _adopt(self, traced: TracedModel, compiled: CompiledPlan) -> CompiledModel:
        model = self._planner().model(traced, compiled)
        with self._lock:
            self._models.add(model)
        return model

    def _slice_counts(self, model: Any, traced: TracedModel) -> Sequence[int]:
        """Candidate numbers of batch slices, ascending; more than one only if the model treats rows independently."""
        counts = list(plans.slice_counts(traced))
        if self.compile_only or not counts or traced.fixed_shapes:
            return ()
        independent = plans.rows_are_independent(traced, counts[-1], lambda rows: self.compile_model(model, rows))
        return counts if independent else ()


_global_lock = threading.Lock()
_global_manager: GraphCoreManager | None = None


def get_graphcore_manager() -> GraphCoreManager:
    """The manager of the process, initialised with default settings and shared by all threads.

    Examples:
        >>> from jax_ipu import get_graphcore_manager
        >>> get_graphcore_manager() is get_graphcore_manager()
        True
    """
    global _global_manager
    with _global_lock:
        if _global_manager is None:
            _global_manager = GraphCoreManager()
        _global_manager.initialize()
        return _global_manager
