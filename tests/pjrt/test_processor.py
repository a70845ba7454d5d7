"""A processor without AVX2 gets a message, not an illegal instruction."""

import ctypes
import os
import shutil
import subprocess
import sys
import textwrap

import pytest
from pypjrt._abi import pjrt_0_114 as reference

import jax_ipu
from jax_ipu import _ipu

PACKAGES = os.path.dirname(os.path.dirname(jax_ipu.__file__))
IMPORT = f"""
    import sys
    sys.path.insert(0, {PACKAGES!r})
    try:
        import jax_ipu._ipu
    except ImportError as error:
        print(error)
"""


def run(script, *prefix, **environment):
    return subprocess.run(
        [*prefix, sys.executable, "-P", "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | environment,
        check=False,
    )


def test_python_gets_an_import_error():
    result = run(IMPORT, JAX_IPU_MAX_ISA="sse2")
    assert result.returncode == 0, result.stderr
    assert "needs a processor with AVX2 and FMA" in result.stdout and "JAX_IPU_MAX_ISA=sse2" in result.stdout


def test_jax_goes_on_without_the_platform():
    script = "import jax; print(jax.devices()[0].platform, jax.numpy.ones(2).sum())"
    result = run(script, JAX_IPU_MAX_ISA="sse2", JAX_PLATFORMS="")
    assert result.stdout.split()[-2:] == ["cpu", "2.0"] and "AVX2" in result.stderr


def test_other_clients_get_an_error_from_every_entry():
    # ctypes alone, as a client in C: no Python module is imported from the library.
    script = f"""
        import ctypes
        library = ctypes.PyDLL({_ipu.__file__!r})
        library.GetPjrtApi.restype = ctypes.POINTER(ctypes.c_size_t)
        table = library.GetPjrtApi()
        entry = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
        class Message(ctypes.Structure):
            _fields_ = [("struct_size", ctypes.c_size_t), ("extension", ctypes.c_void_p), ("error", ctypes.c_void_p),
                        ("message", ctypes.c_char_p), ("size", ctypes.c_size_t)]
        for name, slot in {[(name, reference.SLOT[name]) for name in ("PJRT_Plugin_Initialize", "PJRT_Client_Create")]}:
            error = entry(table[5 + slot])(ctypes.byref((ctypes.c_size_t * 40)(40 * 8)))
            message = Message(40, None, error, None, 0)
            entry(table[5 + {reference.SLOT["PJRT_Error_Message"]}])(ctypes.byref(message))
            print(name, message.message[:message.size].decode())
    """
    result = run(script, JAX_IPU_MAX_ISA="sse2")
    lines = result.stdout.splitlines()
    assert len(lines) == 2 and all("AVX2" in line for line in lines), result.stderr
    assert ctypes.sizeof(ctypes.c_size_t) == 8


@pytest.mark.nightly
@pytest.mark.parametrize("processor", ["Nehalem", "SandyBridge"])
def test_on_an_emulated_processor(processor):
    emulator = os.environ.get("QEMU_X86_64") or shutil.which("qemu-x86_64") or shutil.which("qemu-x86_64-static")
    if emulator is None:
        pytest.skip("needs qemu-x86_64 (Debian packages qemu-user, qemu-user-static)")
    result = run(IMPORT, emulator, "-cpu", processor)
    assert result.returncode == 0, result.stderr
    assert "needs a processor with AVX2 and FMA" in result.stdout and "lacks AVX2" in result.stdout
