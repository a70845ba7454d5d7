"""The commands in the advice of a program that does not fit work as they are printed."""

import re
import shlex

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

import jax_ipu
from jax_ipu import command_line

ROWS, SQUARE = jax.ShapeDtypeStruct((2048, 256), jnp.float32), jax.ShapeDtypeStruct((256, 256), jnp.float32)
NOTHING = {"ipu_advice_seconds": 0}


def product(x, w):
    return jnp.tanh(x @ w)


def loss(params, x):
    return jnp.mean(product(x, params["w"]) ** 2)


def commands(function, *args):
    reason = jax_ipu.estimate(function, *args, target="ipu2:1", compiler_options=NOTHING).reason
    return re.findall(r"jax-ipu [^;]*?(?=[;.,]?$|, w(?:ith|here) |; )", reason, re.MULTILINE)


def test_commands_name_the_file_the_function_the_arguments_and_the_chip():
    name, arguments = f"{shlex.quote(__file__)}:product", "--arg 'f32[2048,256]' --arg 'f32[256,256]'"
    one = f"jax-ipu estimate {name} {arguments} --target ipu2:1"
    assert commands(product, ROWS, SQUARE) == [
        f"jax-ipu estimate {name} {arguments} --target ipu2",
        one.replace("f32", "f16"),
        f"jax-ipu largest-batch {name} --arg 'f32[b,256]' --arg 'f32[256,256]' --target ipu2:1",
        f"jax-ipu estimate {name} --args-from SHARDED --target ipu2:1",
        f"jax-ipu largest-batch {name} --arg 'f16[b,256]' --arg 'f16[256,256]' --target ipu2:1",
    ]


def sharded_arguments():
    rows = NamedSharding(AbstractMesh((4,), ("ipus",)), PartitionSpec("ipus"))
    return jax.ShapeDtypeStruct((8, 8), jnp.float32, sharding=rows), jax.ShapeDtypeStruct((8, 8), jnp.float32)


SHARDED = sharded_arguments  # as the advice calls what the user is to write


@pytest.mark.parametrize("number", [0, 2, 3, 4])
def test_commands_run(number, capsys):
    command = shlex.split(commands(product, ROWS, SQUARE)[number])
    assert command_line.main(command[1:]) == 0
    printed = capsys.readouterr().out
    assert {0: "on ipu2:1472", 2: "largest batch", 3: "on 4 IPUs of ipu2:1", 4: "largest batch"}[number] in printed


def test_functions_that_a_command_cannot_name():
    def inner(x, w):
        return product(x, w)

    for function, name in ((inner, "inner"), (lambda x, w: product(x, w), "FUNCTION")):
        for command in commands(function, ROWS, SQUARE):
            assert f" FILE.py:{name} " in command


def test_arguments_that_are_pytrees():
    for command in commands(loss, {"w": SQUARE}, ROWS):
        assert f" {shlex.quote(__file__)}:loss " in command and "--arg " not in command
