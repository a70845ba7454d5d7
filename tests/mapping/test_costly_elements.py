"""Elementwise ops of which an element takes long: few elements lie on more tiles than PopLibs' mapping uses."""

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import jax_ipu
from support.modes import array, check, each_mode


def _cycles(function, count):
    return jax_ipu.estimate(function, jax.ShapeDtypeStruct((count,), jnp.float32)).cycles


@pytest.mark.parametrize("function", [lax.digamma, lax.lgamma], ids=["digamma", "lgamma"])
def test_cycles_grow_with_the_elements(function):
    """Not those of 32 elements on a tile, from 100 to 47,000 elements."""
    few, some, many = (_cycles(function, count) for count in (100, 1000, 40_000))
    assert few <= some <= many
    assert 2 * some <= many


def test_sums_stay():
    """Sending the elements would take longer than adding them."""
    assert _cycles(lambda x: x + x, 1000) < _cycles(lambda x: x + x, 100_000)
    assert _cycles(lambda x: x + x, 100) == _cycles(lambda x: x + x, 1000)


@each_mode
def test_values(mode):
    """Also of operands that repeat, and where the next op wants the elements back."""
    x, row = array(20, 5, low=0.5), array(5, low=0.5, seed=1)
    check(lambda x, row: lax.digamma(x + row) @ x.T, x, row, mode=mode, grad=mode[1] == 8)


def test_part_of_what_a_linear_mapping_takes():
    """20,000 elements are 14 on each tile, or 32 on some."""
    assert _cycles(lax.lgamma, 20_000) < 0.6 * _cycles(lax.lgamma, 40_000)
