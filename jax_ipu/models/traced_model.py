"""A model traced for one set of input shapes: a function of flat lists of arrays, independent of its framework."""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from jax_ipu.models.arrays import to_array
from jax_ipu.models.model import Model
from jax_ipu.models.precision import retyped, storage_dtype
from jax_ipu.models.sharing import share
from jax_ipu.models.wide import check_fits, types_kept

Array = np.ndarray[Any, Any]
_PACKAGES = (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), str(Path(__file__).parents[1]))


class Signature(NamedTuple):
    """The inputs and outputs of a traced model: their structures, shapes and types."""

    in_tree: Any
    inputs: list[jax.ShapeDtypeStruct]  # with the types on the IPU
    declared: list[np.dtype[Any]]  # types of the inputs in the traced model
    out_tree: Any
    outputs: list[jax.ShapeDtypeStruct]  # with the types in the traced model

    def flatten(self, inputs: tuple[Any, ...]) -> list[Any]:
        """Returns the inputs as flat arrays with the types on the IPU.

        Raises ValueError: the structure, a shape or a type differs from what the model was compiled for.
        """
        paths, tree = jax.tree_util.tree_flatten_with_path(inputs)
        if tree != self.in_tree:
            wanted, given = len(self.in_tree.children()), len(inputs)
            if wanted != given:
                raise ValueError(f"the model was compiled for {wanted} input{'s' * (wanted != 1)}, and gets {given}")
            raise ValueError(f"the model was compiled for inputs of the structure {self.in_tree}, not {tree}")
        arrays = []
        for (path, leaf), spec, declared in zip(paths, self.inputs, self.declared, strict=True):
            array, name = to_array(leaf), _name_of_input(path)
            if array.shape != spec.shape:
                raise ValueError(
                    f"{name} has the shape {array.shape}, but the model was compiled for {spec.shape}: "
                    "compile it again with example inputs of this shape"
                )
            if not np.can_cast(array.dtype, declared, "same_kind") and array.dtype != spec.dtype:
                raise ValueError(
                    f"{name} is {array.dtype}, but the model was compiled for {declared}: convert it, or compile the"
                    " model again with example inputs of this type"
                )
            check_fits(array, spec.dtype, name)
            arrays.append(array if array.dtype == spec.dtype else np.asarray(array).astype(spec.dtype))
        return arrays

    def unflatten(self, outputs: Sequence[Any], wrap: Callable[[Array], Any]) -> Any:
        """Returns the outputs with the types and structure of the traced model; `wrap` converts each array."""
        arrays = [np.asarray(o).astype(spec.dtype, copy=False) for o, spec in zip(outputs, self.outputs, strict=True)]
        return jax.tree.unflatten(self.out_tree, [wrap(array) for array in arrays])


def _name_of_input(path: Sequence[Any]) -> str:
    """As "input 0", or "input 1['tokens']" for a leaf of a pytree."""
    return f"input {path[0].idx}{jax.tree_util.keystr(tuple(path[1:]))}"


class TracedModel(NamedTuple):
    """A traced model: `run(weights, inputs)` returns the outputs, all as flat lists; `weights` are on the host."""

    kind: str
    run: Callable[[Sequence[Any], Sequence[Any]], list[Any]]
    weights: list[Array]
    signature: Signature
    fixed_shapes: bool = False  # the model cannot be traced for other shapes
    wide: bool = False  # types of 64 bits are kept, see `wide.types_kept`

    @property
    def batch(self) -> int:
        """The size of the leading dimension of the first input; 0 for a scalar or without inputs."""
        shapes = [spec.shape for spec in self.signature.inputs]
        return int(shapes[0][0]) if shapes and shapes[0] else 0

    def batched(self) -> list[bool]:
        """Whether each input has a leading dimension of the size of the batch."""
        return [len(spec.shape) > 0 and spec.shape[0] == self.batch for spec in self.signature.inputs]


def shape_of(shape: Sequence[int], dtype: Any) -> jax.ShapeDtypeStruct:
    """Returns a ShapeDtypeStruct, for whose constructor JAX declares no types."""
    struct: Any = jax.ShapeDtypeStruct
    result: jax.ShapeDtypeStruct = struct(tuple(shape), dtype)
    return result


def spec_of(leaf: Any) -> jax.ShapeDtypeStruct:
    """Returns the shape of an input and its type in JAX."""
    array = to_array(leaf)
    return shape_of(array.shape, jax.dtypes.canonicalize_dtype(array.dtype))


def trace(model: Model, inputs: tuple[Any, ...], precision: str) -> TracedModel:
    """Traces a model for example inputs.

    Raises ValueError: the model's types are fixed, and `precision` would change them.
    """
    if model.fixed_types and precision != "float32":
        raise ValueError(
            f'a {model.kind} has its types already: export it in {precision}, and use precision="float32", which '
            "leaves all types as they are"
        )
    leaves, tree = jax.tree.flatten((model.trainable, model.frozen))
    weights = share(leaves)

    def apply(arrays: list[Any], inputs: tuple[Any, ...]) -> Any:
        trainable, frozen = jax.tree.unflatten(tree, weights.expand(arrays))
        return model.apply(trainable, frozen, *inputs)

    with types_kept(model.wide):
        traced = trace_flat(model.kind, apply, weights.arrays, inputs, precision)
    return traced._replace(fixed_shapes=model.fixed_types, wide=model.wide)


def trace_flat(
    kind: str, apply: Callable[..., Any], weights: list[Any], inputs: tuple[Any, ...], precision: str
) -> TracedModel:
    """Traces apply(weights, inputs). Arrays that the function closes over become weights.

    Raises TypeError: the model uses the values of its inputs while it is traced.
    """
    leaves, in_tree = jax.tree.flatten(inputs)
    specs = [spec_of(leaf) for leaf in leaves]

    def flat(weights: list[Any], leaves: list[Any]) -> Any:
        return apply(weights, jax.tree.unflatten(in_tree, leaves))

    try:
        closed, shapes = jax.make_jaxpr(flat, return_shape=True)([spec_of(weight) for weight in weights], specs)
    except (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError) as error:
        raise TypeError(
            f"the model needs the values of its inputs while it is compiled{_where(error)}: it may call functions of "
            "NumPy on them, for which jax.numpy has the same names, or choose by them with `if` or `while`, for which "
            "there are jax.numpy.where, jax.lax.cond and jax.lax.while_loop"
        ) from error
    out_leaves, out_tree = jax.tree.flatten(shapes)
    captured = len(closed.consts)
    evaluate = retyped(closed, precision)

    def run(weights: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
        return evaluate(weights[:captured], [*weights[captured:], *inputs])

    signature = Signature(
        in_tree,
        [shape_of(spec.shape, storage_dtype(spec.dtype, precision)) for spec in specs],
        [np.dtype(spec.dtype) for spec in specs],
        out_tree,
        [shape_of(leaf.shape, leaf.dtype) for leaf in out_leaves],
    )
    stored = [np.asarray(weight) for weight in (*closed.consts, *weights)]
    # Copy: the weights go to the IPU with the first call, and their owner may change the originals before it.
    return TracedModel(kind, run, [np.array(w, storage_dtype(w.dtype, precision)) for w in stored], signature)


def _where(error: BaseException) -> str:
    """Returns the last source line of the traceback outside of installed packages and of this one."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(_PACKAGES)]
    return f', at {frames[-1].filename}:{frames[-1].lineno}, "{frames[-1].line}"' if frames else ""


def no_run(weights: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
    """Stub for `TracedModel.run` of a model that a step function runs."""
    raise AssertionError("this model is run by a step function of its own")
