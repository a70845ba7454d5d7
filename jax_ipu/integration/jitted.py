"""What JAX lowers when a function is called that is jitted already: by ``jax.jit``, or by a library around it.

``nnx.jit`` and ``eqx.filter_jit`` have a ``lower`` that returns an object of their own, for the default platform. So
the lowering is taken where JAX makes it. Tested with jax 0.10.2 and 0.12.0, flax 0.12 and equinox 0.13.
"""

from __future__ import annotations

import contextvars
import functools
import types
from collections.abc import Callable
from typing import Any

from jax_ipu.integration.tracebacks import unseen

PLATFORM = "ipu"
# The lowerings that JAX has made for PLATFORM since `lowering_of` began; None outside of it.
_lowerings: contextvars.ContextVar[list[Any] | None] = contextvars.ContextVar("lowerings", default=None)


def lowering_of(
    fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], donate_argnums: int | tuple[int, ...]
) -> Any:
    """JAX's lowering of ``fun(*args, **kwargs)`` for PLATFORM, or for the devices of ``jax.pmap``.

    `donate_argnums` are for a function that is not jitted.
    """
    import jax

    function: Any
    function, args, kwargs = _unbound(fun, args, kwargs)
    if not is_jitted(function):
        function = jax.jit(function, donate_argnums=donate_argnums)
    if _is_pmapped(function):
        return function.lower(*args, **kwargs)._lowering
    _record_lowerings()
    made: list[Any] = []
    token = _lowerings.set(made)
    try:
        function.lower(*args, **kwargs)
    finally:
        _lowerings.reset(token)
    if not made:
        raise TypeError(f"{type(function).__name__}.lower did not lower a function of JAX: give the function itself")
    return made[-1]._lowering


def _is_pmapped(function: Any) -> bool:
    """``jax.pmap`` returns a plain function with attributes, and chooses the devices itself."""
    return isinstance(function, types.FunctionType)


def is_jitted(function: Any) -> bool:
    """Whether it is what ``jax.jit`` or a library returns for a function; other classes may have a method ``lower``."""
    if isinstance(function, types.MethodType):
        return False
    return callable(getattr(function, "lower", None)) and hasattr(function, "__wrapped__")


def _unbound(fun: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """A jitted function and all of its arguments, where `fun` has some of these: a method, or a partial application.

    A method has the attribute ``lower`` of its function, which would not be given the object.
    """
    # equinox has classes of its own for both.
    if hasattr(fun, "__self__") and is_jitted(function := getattr(fun, "__func__", None)):
        return function, (fun.__self__, *args), kwargs
    if _is_partial(fun):
        whole = _unbound(fun.func, (*fun.args, *args), {**fun.keywords, **kwargs})
        if is_jitted(whole[0]):
            return whole
    return fun, args, kwargs


def _is_partial(fun: Any) -> bool:
    if isinstance(fun, functools.partial):
        return True
    return type(fun).__name__ == "Partial" and all(hasattr(fun, name) for name in ("func", "args", "keywords"))


@functools.cache
def _record_lowerings() -> None:
    """Wraps the one method by which JAX lowers traced functions; it does what it did outside of `lowering_of`."""
    from jax._src import stages

    traced: Any = stages.Traced
    original = traced.lower

    @unseen
    @functools.wraps(original)
    def lower(self: Any, *args: Any, **options: Any) -> Any:
        made = _lowerings.get()
        if made is None:
            return original(self, *args, **options)
        options["lowering_platforms"] = options.get("lowering_platforms") or (PLATFORM,)
        lowered = original(self, *args, **options)
        made.append(lowered)
        return lowered

    traced.lower = lower
