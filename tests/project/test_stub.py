"""The type stub of the native module is what its bindings say."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from jax_ipu import _ipu

ROOT = Path(__file__).parents[2]
# As docs/adding_things.md gives it: in the folder of the bindings, as the checkout's own jax_ipu has no native module.
BINDINGS = ROOT / "pjrt_plugin/bindings"
COMMAND = ["-m", "nanobind.stubgen", "-q", "-m", "jax_ipu._ipu", "-p", "stub_patterns.txt", "-o"]


def test_the_stub_is_not_stale(tmp_path):
    new = tmp_path / "_ipu.pyi"
    subprocess.run([sys.executable, *COMMAND, str(new)], check=True, cwd=BINDINGS)
    command = " ".join(["(cd pjrt_plugin/bindings && ../../.venv/bin/python", *COMMAND, "../../jax_ipu/_ipu.pyi)"])
    assert new.read_text() == (ROOT / "jax_ipu/_ipu.pyi").read_text(), f"run: {command}"
    assert command in (ROOT / "docs/adding_things.md").read_text()


def test_plain_structs_are_compared_and_shown_by_their_fields():
    spec = _ipu.InputSpec(dtype="bf16", shape=(2, 3), donated=True)
    assert (spec.dtype, spec.shape, spec.donated, spec.aliased_output) == ("bf16", (2, 3), True, -1)
    assert spec == _ipu.InputSpec(dtype="bf16", shape=[2, 3], donated=True)
    spec.shape = np.array([4]).tolist()
    assert spec != _ipu.InputSpec(dtype="bf16", shape=(2, 3), donated=True)
    assert "dtype='bf16', shape=(4,)" in repr(spec)
    with pytest.raises(TypeError, match="no field 'typo'"):
        _ipu.InputSpec(typo=1)
    with pytest.raises(TypeError, match="the field 'donated' takes bool"):
        _ipu.InputSpec(donated="yes")
    with pytest.raises(TypeError, match="sharding"):
        _ipu.OutputSpec(sharding="text")


def test_executables_whose_parts_do_not_fit_together_cannot_be_made():
    with pytest.raises(_ipu.Error, match="does not exist") as raised:
        _ipu.Executable(name="f", target="ipu2:4", outputs=[_ipu.OutputSpec(forwarded_input=0)])
    assert raised.value.code == 3
    with pytest.raises(_ipu.Error, match="more bytes than memory can be addressed"):
        _ipu.Executable(name="f", target="ipu2:4", inputs=[_ipu.InputSpec(shape=(2**62, 4))])
