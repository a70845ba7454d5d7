"""Marked loops lose the all-reduces of their conditions, unless they have other collectives."""

import pytest

from jax_ipu.compiler.frontend import batch_loops
from jax_ipu.compiler.frontend.parse import parse_module

MARKED = f'attributes {{mhlo.frontend_attributes = {{{batch_loops.MARK} = "true"}}}}'


def all_reduce(value, type_, reduction):
    return f"""
      %reduced = "stablehlo.all_reduce"({value}) ({{
        ^bb0(%p: tensor<{type_}>, %q: tensor<{type_}>):
          %pq = stablehlo.{reduction} %p, %q : tensor<{type_}>
          stablehlo.return %pq : tensor<{type_}>
      }}) {{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids,
           replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}} : (tensor<{type_}>) -> tensor<{type_}>"""


PERMUTE = """
      %moved = "stablehlo.collective_permute"(%x) {channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>,
           source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>} : (tensor<f32>) -> tensor<f32>"""
SUM = all_reduce("%x", "f32", "add").replace("%reduced", "%moved")
NOTHING = "%moved = stablehlo.add %x, %x : tensor<f32>"


def loop(body, marks):
    return f"""
module @m attributes {{mhlo.num_replicas = 1 : i32, mhlo.num_partitions = 2 : i32}} {{
  func.func @main(%start: tensor<f32>, %limit: tensor<f32>) -> tensor<f32> {{
    %end = stablehlo.while(%x = %start) : tensor<f32> {marks}
    cond {{
      %less = stablehlo.compare LT, %x, %limit : (tensor<f32>, tensor<f32>) -> tensor<i1>
      {all_reduce("%less", "i1", "or")}
      stablehlo.return %reduced : tensor<i1>
    }} do {{
      {body}
      stablehlo.return %moved : tensor<f32>
    }}
    return %end : tensor<f32>
  }}
}}"""


@pytest.mark.parametrize(
    ("body", "marks", "expected"),
    [(NOTHING, MARKED, 0), (NOTHING, "", 1), (PERMUTE, MARKED, 1), (SUM, MARKED, 2)],
    ids=["apart", "not marked", "with a permutation", "with a sum"],
)
def test_all_reduces_that_are_left(body, marks, expected):
    module = parse_module(loop(body, marks).encode())
    batch_loops.separate(module)
    assert module.operation.verify()
    assert str(module).count("all_reduce") == expected
