"""Thread-local JAX settings, such as those of `with jax.enable_x64(True)`, for callbacks.

A callback runs on a thread of the runtime. Its program was traced under the settings of the calling thread, and JAX
compiles another program when one of them changes, so the settings are known when the callback is lowered.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, ParamSpec

Parameters = ParamSpec("Parameters")


def with_settings_of_this_thread(function: Callable[Parameters, None]) -> Callable[Parameters, None]:
    """Wraps `function` so that it sees, on any thread, the trace-relevant settings of the current thread."""
    from jax._src import config

    unset = config.config_ext.unset
    values = [(setting, setting.get_local()) for setting in _settings()]
    changed = [(setting, value) for setting, value in values if value is not unset]
    if not changed:
        return function

    def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
        with contextlib.ExitStack() as stack:
            for setting, value in changed:
                stack.callback(setting.set_local, setting.swap_local(value))
            function(*args, **kwargs)

    return call


def _settings() -> list[Any]:
    from jax._src import config, mesh

    traced = set(config.trace_context_names())
    owners = {**vars(config), **vars(mesh)}.values()
    settings = {owner.name: owner for owner in owners if isinstance(owner, config.config_ext.Config)}
    return [setting for name, setting in settings.items() if name in traced]
