"""jax.ffi: handlers registered for ``ipu`` run on the host while the device waits, like callbacks.

``jax.ffi.register_ffi_target`` passes every registration for a platform to a function that the platform's plugin gives
to jaxlib. Tested with jax 0.10.2 and 0.12.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jax_ipu.integration.tracebacks import unseen

PLATFORM = "ipu"
# API version of typed FFI handlers; version 0 is the legacy interface without types and errors.
_TYPED = 1


def enable() -> None:
    """Forwards registrations for the platform to the plugin, including those made earlier."""
    from jaxlib import xla_client

    xla_client.register_custom_call_handler(PLATFORM, _register_target)
    xla_client.register_custom_type_handler(PLATFORM, _register_type)


@unseen
def _register_target(name: str, function: Any, platform: str, api_version: int = 0, traits: Any = None) -> None:
    """`function`: a capsule with the address of a handler, or such capsules by stage."""
    from jax_ipu import _ipu

    del platform, traits  # Traits apply to GPU command buffers only.
    if api_version != _TYPED:
        raise NotImplementedError(
            f"The foreign function {name!r} has api_version={api_version}, but ipu calls typed handlers only: compile "
            "it with the headers in jax.ffi.include_dir() and register it with api_version=1."
        )
    _ipu.register_ffi_target(name, dict(function) if isinstance(function, Mapping) else {"execute": function})


@unseen
def _register_type(name: str, registration: Any) -> None:
    """`registration`: capsules with the addresses of the type's id and, under type_info, of its destructor."""
    from jax_ipu import _ipu

    if not isinstance(registration, Mapping):
        registration = {"type_id": registration}
    _ipu.register_ffi_type(name, registration["type_id"], registration.get("type_info"))
