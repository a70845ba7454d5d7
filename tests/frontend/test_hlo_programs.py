"""Programs that come as HLO protos in place of StableHLO."""

import numpy as np
import pytest
from jaxlib import _hlo

from jax_ipu import _ipu
from jax_ipu.compiler import CompileError, compile
from jax_ipu.compiler.proto import proto_fields

TARGET = "ipu2:16"
HEAD = """
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
"""


def proto(text):
    return _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()


def message(field, data):
    size, rest = bytearray(), len(data)
    while rest > 0x7F:
        size.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([field << 3 | 2, *size, rest]) + data


# The second argument is donated; both results and arguments lie in different orders in memory.
PROGRAM = f"""HloModule m, input_output_alias={{ {{0}}: (1, {{}}, must-alias) }},
  entry_computation_layout={{(f32[4,5]{{0,1}}, f32[4,5]{{1,0}})->(f32[4,5]{{0,1}}, f32[])}}
{HEAD}
ENTRY main {{
  w = f32[4,5]{{0,1}} parameter(0)
  x = f32[4,5]{{1,0}} parameter(1)
  y = f32[4,5]{{0,1}} subtract(w, x)
  zero = f32[] constant(0)
  r = f32[] reduce(y, zero), dimensions={{0,1}}, to_apply=sum
  ROOT t = (f32[4,5]{{0,1}}, f32[]) tuple(y, r)
}}
"""


@pytest.mark.parametrize("program_format", ["hlo", "hlo_with_config"])
@pytest.mark.parametrize("execution", ["fast", "tile"])
def test_layouts_and_donation(program_format, execution):
    program = proto(PROGRAM)
    if program_format == "hlo_with_config":
        program = message(1, program)
        assert proto_fields(program)[0][0] == 1
    executable = compile(program, program_format, b"", TARGET)
    w, x = np.arange(20, dtype=np.float32).reshape(4, 5), np.full((4, 5), 3, np.float32)
    # Column-major in memory are the first argument and the first result.
    difference, total = _ipu.run(executable, [w.T.tobytes(), x.tobytes()], execution)
    np.testing.assert_array_equal(np.frombuffer(difference, np.float32).reshape(5, 4).T, w - x)
    assert np.frombuffer(total, np.float32) == (w - x).sum()


def test_collectives():
    """Groups of devices keep their order in the translation."""
    text = f"""HloModule m, replica_count=4
{HEAD}
ENTRY main {{
  x = f32[3] parameter(0)
  ROOT r = f32[3] all-reduce(x), replica_groups={{{{0,3}},{{1,2}}}}, to_apply=sum
}}
"""
    # CompileOptionsProto.executable_build_options.num_replicas = 4
    executable = compile(proto(text), "hlo", message(3, bytes([4 << 3, 4])), TARGET)
    values = [np.full(3, 10**r, np.float32) for r in range(4)]
    results = _ipu.run_replicas(executable, [[v.tobytes()] for v in values])
    assert [np.frombuffer(r[0], np.float32)[0] for r in results] == [1001, 110, 110, 1001]


@pytest.mark.parametrize(
    ("program", "program_format", "words"),
    [
        (b"what?", "hlo", "is not a serialised xla.HloModuleProto"),
        (b"", "hlo", "is not a serialised xla.HloModuleProto"),
        (b"\x10\x05", "hlo_with_config", "is not a serialised xla.HloModuleProto"),
        (proto(PROGRAM)[:100], "hlo", 'Send StableHLO, in the format "mlir", instead'),
    ],
)
def test_what_is_no_program_is_refused(program, program_format, words):
    with pytest.raises(CompileError, match=words) as caught:
        compile(program, program_format, b"", TARGET)
    assert caught.value.code == 3
