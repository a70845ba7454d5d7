"""Convolutions of random programs."""

from __future__ import annotations

import math

from support.programs import COMPLEX, FLOATS, INTS, Drawer, Step
from support.random_programs.program_text import text_call
from support.stablehlo_text import array, tensor


def convolution(d: Drawer) -> Step:
    v = d.value((*FLOATS, *COMPLEX, *INTS), finite=True)
    w = d.value((v.dtype,), finite=True)
    rank, channels, features = d.integer(0, 3), d.integer(1, 3), d.integer(1, 3)
    groups, batch_groups = d.pick(((1, 1), (2, 1), (1, 2)))
    space = [d.integer(1, 6 if rank < 3 else 4) for _ in range(rank)]
    window = [d.integer(1, 3 if rank < 3 else 2) for _ in range(rank)]
    lhs = (batch_groups * d.integer(1, 2), groups * channels, *space)
    rhs = (groups * batch_groups * features, channels, *window)
    # The positions of batch or features, channels and the spatial dimensions.
    places = [d.order(rank + 2) if d.flag() else tuple(range(rank + 2)) for _ in range(3)]
    lhs, rhs = (tuple(s[p.index(i)] for i in range(rank + 2)) for s, p in zip((lhs, rhs), places[:2], strict=True))
    stride, base, dilation = ([d.integer(1, 2) for _ in range(rank)] for _ in range(3))
    padding = [(d.integer(-1, 3), d.integer(0, 3)) for _ in range(rank)]
    text = (
        f"lax.conv_general_dilated(fit({v.name}, {lhs}), fit({w.name}, {rhs}), {stride}, {padding}, "
        f"{base}, {dilation}, lax.ConvDimensionNumbers(*{places}), feature_group_count={groups}, "
        f"batch_group_count={batch_groups})"
    )
    terms = channels * math.prod(window) * (2 if v.dtype in COMPLEX else 1)
    return Step(text, terms * v.bound * w.bound, terms * (v.error * w.bound + w.error * v.bound), terms)


def _convolution(d: Drawer, *, dynamic: bool) -> Step:
    v = d.value((*FLOATS, *COMPLEX, "int32"), finite=True)
    w = d.value((v.dtype,), finite=True)
    rank, channels, features = d.integer(1, 3), d.integer(1, 3), d.integer(1, 3)
    groups, batch_groups = d.pick(((1, 1), (2, 1), (1, 2), (3, 1)))
    space = [d.integer(1, 6 if rank < 3 else 4) for _ in range(rank)]
    window = [d.integer(1, 4 if rank < 3 else 2) for _ in range(rank)]
    lhs = [batch_groups * d.integer(1, 2), groups * channels, *space]
    rhs = [groups * batch_groups * features, channels, *window]
    stride, base, dilation = ([d.integer(1, 3) for _ in range(rank)] for _ in range(3))
    padding = [(d.integer(-1, 3), d.integer(0, 3)) for _ in range(rank)]
    turned = [d.flag() for _ in range(rank)]
    out = [lhs[0] // batch_groups, rhs[0]]
    for i in range(rank):
        extent = (space[i] - 1) * base[i] + 1 + sum(padding[i]) - ((window[i] - 1) * dilation[i] + 1)
        out.append(max(0, extent // stride[i] + 1))
    letters = [str(i) for i in range(rank)]
    labels = [["b", "f", *letters], ["o", "i", *letters], ["b", "f", *letters]]
    shapes = [lhs, rhs, out]
    for k in range(3):
        order = d.order(rank + 2)
        labels[k] = [labels[k][i] for i in order]
        shapes[k] = [shapes[k][i] for i in order]
    shown = "x".join(f"[{', '.join(part)}]" for part in labels[:2]) + f"->[{', '.join(labels[2])}]"
    reverse = f", reverse = [{', '.join(str(t).lower() for t in turned)}]"
    pads = [list(p) for p in padding]
    static = "" if dynamic else f"pad = {pads}, "
    types = f"{tensor(shapes[0], v.dtype)}, {tensor(shapes[1], v.dtype)}"
    windows = f"stride = {stride}, {static}lhs_dilate = {base}, rhs_dilate = {dilation}{reverse}"
    counts = f"{{batch_group_count = {batch_groups} : i64, feature_group_count = {groups} : i64}}"
    if dynamic:
        given = (
            f"window_strides = {array(stride)}, lhs_dilation = {array(base)}, rhs_dilation = {array(dilation)}, "
            f"window_reversal = {array(turned, 'i1')}, dimension_numbers = #stablehlo.conv<{shown}>, "
            f"batch_group_count = {batch_groups} : i64, feature_group_count = {groups} : i64"
        )
        kind = f"tensor<{rank}x2xi32>"
        body = (
            f'%p = stablehlo.constant dense<{pads}> : {kind} %r = "stablehlo.dynamic_conv"(%0, %1, %p) '
            f"{{{given}}} : ({types}, {kind}) -> {tensor(shapes[2], v.dtype)}"
        )
    else:
        body = (
            f"%r = stablehlo.convolution(%0, %1) dim_numbers = {shown}, window = {{{windows}}} {counts} : "
            f"({types}) -> {tensor(shapes[2], v.dtype)}"
        )
    reference = ""
    if dynamic:
        places = [[labels[k].index(x) for x in ("bf", "oi", "bf")[k]] for k in range(3)]
        places = [(*p, *(labels[k].index(x) for x in letters)) for k, p in enumerate(places)]
        axes = tuple(labels[1].index(letters[i]) for i in range(rank) if turned[i])
        reference = (
            f"lambda x, y: lax.conv_general_dilated(x, lax.rev(y, {axes}), {stride}, {padding}, {base}, {dilation}, "
            f"lax.ConvDimensionNumbers(*{places}), feature_group_count={groups}, batch_group_count={batch_groups})"
        )
    operands = [f"fit({v.name}, {tuple(shapes[0])})", f"fit({w.name}, {tuple(shapes[1])})"]
    text = text_call(body, [(shapes[2], v.dtype)], operands, reference)
    terms = channels * math.prod(window) * batch_groups * (2 if v.dtype in COMPLEX else 1)
    return Step(text, terms * v.bound * w.bound, terms * (v.error * w.bound + w.error * v.bound), terms)


def dynamic_conv(d: Drawer) -> Step:
    return _convolution(d, dynamic=True)


def reversed_convolution(d: Drawer) -> Step:
    """A convolution with window reversal."""
    return _convolution(d, dynamic=False)


OPERATIONS = (convolution, dynamic_conv, reversed_convolution)
