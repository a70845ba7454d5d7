"""How many supersteps a program takes."""

import numpy as np

import jax_ipu


def expanded(array):
    """A column of a report, of which run lengths may be written."""
    if isinstance(array, list):
        return np.array(array)
    return np.repeat(np.array(array["rle"][::2]), array["rle"][1::2])


def supersteps(function, *shapes, kind="", target="ipu2"):
    """The supersteps of one call, those of loops once for each trip: of operations of a kind, "" for all."""
    data = jax_ipu.report(function, *shapes, target=target).as_dict()
    own = [row["id"] for row in data["operations"] if kind in row["kind"]]
    steps = data["steps"]
    executions = expanded(steps["executions"]) * expanded(steps["counted"])
    return sum(int(n) for n, of in zip(executions, steps["operation"], strict=True) if of in own)
