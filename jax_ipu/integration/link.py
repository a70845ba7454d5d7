"""``jax_ipu.link``: programs that share an engine because the user asks for it.

JAX compiles a jitted function inside its first call. So the name of the group is in a context variable during the
call, and is added to the compiler options of what is compiled there. Tested with jax 0.10.2 and 0.12.0.
"""

from __future__ import annotations

import contextvars
import functools
import itertools
from collections.abc import Callable
from typing import Any

from jax_ipu.integration.jitted import PLATFORM, is_jitted
from jax_ipu.integration.tracebacks import boundary, unseen

_group: contextvars.ContextVar[str] = contextvars.ContextVar("link group", default="")
_numbers = itertools.count(1)


def enable() -> None:
    """Adds the name of the group whose function is being called to the options of what JAX compiles."""
    from jax._src import compiler

    compile_or_get_cached: Any = compiler.compile_or_get_cached

    @unseen
    def compile_for_group(
        backend: Any,
        module: Any,
        devices: Any,
        options: Any,
        host_callbacks: Any,
        executable_devices: Any,
        *rest: Any,
    ) -> Any:
        group = _group.get() if backend.platform == PLATFORM else ""
        if group:
            options.env_option_overrides = [*options.env_option_overrides, ("ipu_link", group)]
        if group and not host_callbacks:
            # A program from the persistent cache has lost what it was compiled from, and could not be linked.
            return compiler.backend_compile_and_load(backend, module, executable_devices, options, host_callbacks)
        return compile_or_get_cached(backend, module, devices, options, host_callbacks, executable_devices, *rest)

    replacement: Any = compile_for_group
    compiler.compile_or_get_cached = replacement


@boundary
def link(*programs: Callable[..., Any]) -> tuple[Callable[..., Any], ...]:
    """Functions that share one engine of an IPU, and the variables of the arrays that they hand to each other.

    A program keeps donated state in SRAM until another program is loaded. Of linked programs, the second one that is
    called is compiled together with the first: both stay loaded, and neither weights nor programs cross the host link
    when they take turns, but for what they read and write in ``pinned_host`` memory. The program that takes the most
    cycles decides how the arrays are mapped to tiles. Programs that take most of each other's arrays are linked without
    being asked, unless ``JAX_IPU_LINK=0``.

    Where programs do not fit into the IPU together, or one cannot be linked (it calls functions of the host, or takes
    its operations from PopLibs), a warning says so once, and they take turns. So do programs for different sets of
    IPUs, and those over IPUs of several processes. An engine has at most eight programs. None of them is stored in
    JAX's persistent cache.

    Args:
        programs: functions for one IPU or for the same several, jitted by ``jax.jit`` with what they donate, or not
            yet. They are compiled in their first call of the result.

    Returns:
        A function for each, to be called in its place.

    Raises:
        TypeError: fewer than two programs, or one that is not callable.

    Examples:
        >>> import jax, jax.numpy as jnp, numpy as np, jax_ipu
        >>> ipu = jax.devices("ipu")[0]
        >>> step = jax.jit(lambda w, x: (w + x, w.sum()), donate_argnums=0)
        >>> step, evaluate = jax_ipu.link(step, lambda w, x: (w * x).sum())
        >>> w, x = jax.device_put((np.ones(1000, np.float32), np.ones(1000, np.float32)), ipu)
        >>> for _ in range(3):
        ...     w, _ = step(w, x)
        ...     print(evaluate(w, x))
        ...     loads = jax_ipu.counters(ipu).engine_loads
        2000.0
        3000.0
        4000.0
        >>> w, _ = step(w, x)
        >>> jax_ipu.counters(ipu).engine_loads - loads
        0
    """
    if len(programs) < 2 or not all(map(callable, programs)):
        raise TypeError(f"jax_ipu.link takes two functions or more, not {', '.join(map(repr, programs)) or 'none'}")
    group = new_group()
    return tuple(member(program, group) for program in programs)


def new_group() -> str:
    """The name of a group of programs that share engines; no other group has it in this process."""
    return f"link{next(_numbers)}"


def member(program: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The function as one of the group."""
    import jax

    function: Any = program if is_jitted(program) else jax.jit(program)

    @unseen
    @functools.wraps(program)
    def call(*args: Any, **kwargs: Any) -> Any:
        token = _group.set(name)
        try:
            return function(*args, **kwargs)
        finally:
            _group.reset(token)

    return call


def compile_member(program: Any, name: str, *args: Any) -> None:
    """Compiles the jitted function as one of the group for such arguments, which its next call then needs not do."""
    token = _group.set(name)
    try:
        program.lower(*args).compile()
    finally:
        _group.reset(token)
