"""Expands batch_norm_training, batch_norm_inference and batch_norm_grad by their definitions in StableHLO."""

from __future__ import annotations

from jax_ipu.compiler.ir import Op, Value
from jax_ipu.compiler.passes.rewriter import Rewriter, Rule

# Narrow floats are summed in f32, and the sum is rounded once.
_ACCUMULATED = {"f16": "f32", "bf16": "f32"}


class _Features:
    """Arithmetic on the operand; the other operands have one number for each feature."""

    def __init__(self, op: Op, rewriter: Rewriter) -> None:
        operand = op.operands[0]
        self.rewriter = rewriter
        self.shape = operand.shape
        self.dtype = _ACCUMULATED.get(operand.dtype, operand.dtype)
        self.feature = op.attrs["feature_index"]
        self.epsilon = op.attrs["epsilon"]
        self.others = [d for d in range(len(self.shape)) if d != self.feature]
        self.operands = [rewriter.convert(o, self.dtype) for o in op.operands]

    def spread(self, value: Value) -> Value:
        return self.rewriter.broadcast(value, self.shape, (self.feature,))

    def binary(self, name: str, a: Value, b: Value) -> Value:
        """The op `name` of two values; one with a number for each feature is broadcast to the shape of the operand."""
        if a.shape != b.shape:
            a, b = (v if v.shape == self.shape else self.spread(v) for v in (a, b))
        return self.rewriter.elementwise(name, a, b)

    def count(self) -> Value:
        """The number of elements of each feature."""
        number = 1
        for d in self.others:
            number *= self.shape[d]
        return self.rewriter.full((self.shape[self.feature],), self.dtype, number)

    def mean(self, value: Value) -> Value:
        return self.binary("divide", self.rewriter.sum(value, self.others), self.count())

    def deviation(self, variance: Value) -> Value:
        epsilon = self.rewriter.full(variance.shape, self.dtype, self.epsilon)
        return self.rewriter.elementwise("sqrt", self.binary("add", variance, epsilon))

    def normalized(self, centered: Value, scale: Value, offset: Value, variance: Value) -> Value:
        scaled = self.binary("multiply", scale, centered)
        return self.binary("add", self.binary("divide", scaled, self.deviation(variance)), offset)

    def results(self, op: Op, values: list[Value]) -> list[Value]:
        return [self.rewriter.convert(v, r.dtype) for v, r in zip(values, op.results, strict=True)]


def _inference(op: Op, rewriter: Rewriter) -> list[Value]:
    f = _Features(op, rewriter)
    operand, scale, offset, mean, variance = f.operands
    return f.results(op, [f.normalized(f.binary("subtract", operand, mean), scale, offset, variance)])


def _training(op: Op, rewriter: Rewriter) -> list[Value]:
    f = _Features(op, rewriter)
    operand, scale, offset = f.operands
    mean = f.mean(operand)
    centered = f.binary("subtract", operand, mean)
    variance = f.mean(f.binary("multiply", centered, centered))
    return f.results(op, [f.normalized(centered, scale, offset, variance), mean, variance])


def _grad(op: Op, rewriter: Rewriter) -> list[Value]:
    f = _Features(op, rewriter)
    operand, scale, mean, variance, grad_output = f.operands
    centered = f.binary("subtract", operand, mean)
    deviation = f.deviation(variance)
    total = rewriter.sum(grad_output, f.others)
    correlation = rewriter.sum(f.binary("multiply", grad_output, centered), f.others)
    slope = f.binary("divide", correlation, f.binary("multiply", deviation, deviation))
    # N * grad - sum(grad) - centered * sum(grad * centered) / (variance + epsilon)
    bracket = f.binary("subtract", f.binary("multiply", f.count(), grad_output), total)
    bracket = f.binary("subtract", bracket, f.binary("multiply", slope, centered))
    factor = f.binary("divide", f.binary("divide", scale, deviation), f.count())
    return f.results(op, [f.binary("multiply", factor, bracket), f.binary("divide", correlation, deviation), total])


RULES: dict[str, Rule] = {
    "batch_norm_inference": _inference,
    "batch_norm_training": _training,
    "batch_norm_grad": _grad,
}
