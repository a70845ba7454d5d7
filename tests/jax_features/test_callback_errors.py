"""A failed callback says which one it is, where the program calls it, what was expected and what came."""

import re
from pathlib import Path

import jax
import numpy as np
import pytest
from jax.experimental import io_callback
from jax.experimental.buffer_callback import buffer_callback

HERE = Path(__file__).name
PAIR = jax.ShapeDtypeStruct((2,), np.float32)
ipu = jax.devices("ipu")[0]


def three(x):
    return np.ones(3, np.float32)


def integers(x):
    return np.ones(2, np.int32)


def two(x):
    return np.ones(2, np.float32), np.ones(2, np.float32)


def nothing(x):
    pass


def text(x):
    return "text"


def fails(x):
    raise KeyError("the cause")


def fails_with_buffers(context, out, x):
    raise KeyError("the cause")


class Model:
    def __call__(self, x):
        return np.ones(3, np.float32)

    def method(self, x):
        raise KeyError("the cause")


SHAPE = r"output shape .*Expected: \(2,\), Actual: \(3,\)\. Make the callback return float32\[2\], or tell {api} that"
RAISED = r"Traceback .*in \w+\n    raise KeyError\(\"the cause\"\)\n.*KeyError: 'the cause'$"
API = {"pure": "jax.pure_callback", "io": "jax.experimental.io_callback", "debug": "jax.debug.callback"}
# The function, its name in the message, how it is called, and the rest of the message.
FAILURES = [
    (three, "three", "pure", SHAPE),
    (three, "three", "io", SHAPE),
    (integers, "integers", "pure", r"output dtype .*Expected: float32, Actual: int32\. .* returns int32\[2\]$"),
    (two, "two", "pure", r"Expected: 1, Actual: 2\. .*or tell {api} that it returns float32\[2\], float32\[2\]$"),
    (nothing, "nothing", "io", r"Expected: 1, Actual: 0\. Make the callback return float32\[2\]"),
    (text, "text", "pure", r"TypeError: .*<U4 is not a valid"),
    (fails, "fails", "pure", RAISED),
    (fails, "fails", "io", RAISED),
    (fails, "fails", "debug", RAISED),
    (Model(), "Model", "pure", SHAPE),
    (Model().method, "method", "io", RAISED),
    (lambda x: np.ones(3, np.float32), "<lambda>", "pure", SHAPE),
    (np.sin, "sin", "pure", r"Expected: \(2,\), Actual: \(\)\."),
]


def run(function, api):
    def program(x):
        if api == "debug":
            return jax.debug.callback(function, x)
        return (jax.pure_callback if api == "pure" else io_callback)(function, PAIR, x)

    with pytest.raises(jax.errors.JaxRuntimeError) as caught:
        jax.block_until_ready(jax.jit(program)(jax.device_put(1.0, ipu)))
    jax.effects_barrier()
    return str(caught.value)


@pytest.mark.parametrize(("function", "name", "api", "rest"), FAILURES)
def test_failure(function, name, api, rest):
    message = run(function, api)
    defined = rf" \({HERE}:\d+\)" if hasattr(function, "__code__") or name == "method" else ""
    where = rf"the callback '{name}'{defined} of {API[api]} at {HERE}:\d+ \(run\.<locals>\.program\):\n"
    assert re.search(where + "(?s:.*)" + "(?s:" + rest.replace("{api}", API[api]) + ")", message), message
    # Neither frames of JAX are among those of the user nor those of this package.
    assert "site-packages" not in message
    assert "callbacks.py" not in message


def test_buffer_callback():
    f = jax.jit(lambda x: buffer_callback(fails_with_buffers, PAIR)(x))
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"(?s)'fails_with_buffers' .*buffer_callback.*the cause"):
        f(jax.device_put(1.0, ipu)).block_until_ready()


def test_print():
    with pytest.raises(jax.errors.JaxRuntimeError, match=rf"the callback of jax\.debug\.print at {HERE}:\d+ .*\n.*'d'"):
        jax.jit(lambda x: jax.debug.print("{x:d}", x=x))(jax.device_put(1.0, ipu))
    jax.effects_barrier()
