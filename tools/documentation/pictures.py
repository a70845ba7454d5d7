"""The pictures of the documents that reports and estimates draw: docs/images/*.svg.

python -m tools.documentation.pictures            # writes them
python -m tools.documentation.pictures --check    # fails where one is not what it would be now

Pictures of the report's page are made by tools/report_screenshots.py.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp

import jax_ipu
from jax_ipu.compiler.tables import seconds_text

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"


def shape(*sizes: int, dtype: jnp.dtype = jnp.float32) -> jax.ShapeDtypeStruct:
    """An argument."""
    return jax.ShapeDtypeStruct(sizes, dtype)


def block(p: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    """A layer of a small transformer without attention's heads: two products around an activation."""
    with jax.named_scope("attention"):
        scores = jax.nn.softmax((x @ p["q"]) @ (x @ p["k"]).swapaxes(-1, -2) / 16)
        x = x + scores @ (x @ p["v"])
    with jax.named_scope("mlp"):
        return x + jax.nn.gelu(x @ p["up"]) @ p["down"]


def step(params: list[dict[str, jax.Array]], x: jax.Array) -> tuple[list[dict[str, jax.Array]], jax.Array]:
    """A training step of a few layers."""

    def loss(params: list[dict[str, jax.Array]]) -> jax.Array:
        y = x
        for number, p in enumerate(params):
            with jax.named_scope(f"layer {number}"):
                y = block(p, y)
        return (y**2).mean()

    value, gradients = jax.value_and_grad(loss)(params)
    with jax.named_scope("update"):
        return jax.tree.map(lambda p, g: p - 0.01 * g, params, gradients), value


def layer(width: int = 256) -> dict[str, jax.ShapeDtypeStruct]:
    """The parameters of a layer."""
    sizes = {"q": width, "k": width, "v": width, "up": 4 * width}
    return {**{name: shape(width, size) for name, size in sizes.items()}, "down": shape(4 * width, width)}


def of_report(kind: str) -> Callable[[], str]:
    """A plot of the training step."""

    def draw() -> str:
        report = jax_ipu.report(step, [layer()] * 2, shape(16, 64, 256), target="ipu2", donate_argnums=0)
        return report.plot(kind).svg

    return draw


def schedule(stages: int = 4, batches: int = 6) -> str:
    """Stages of a model on IPUs of their own: what each does when, by the estimates of its programs."""

    def layers(params: list[dict[str, jax.Array]], x: jax.Array) -> jax.Array:
        for one in params:
            x = block(one, x)
        return x

    def last(params: list[dict[str, jax.Array]], x: jax.Array) -> jax.Array:
        return (layers(params, x) ** 2).mean()

    # Estimates need no devices: any objects that differ stand for the IPUs.
    pipe = jax_ipu.pipeline([layers] * (stages - 1) + [last], devices=range(stages), gradient_accumulation=batches)
    found = pipe.timeline([[layer()] * 2] * stages, shape(4 * batches, 64, 256))
    return found.svg(
        f"{stages} stages of two layers, {batches} micro-batches of 4 rows: {seconds_text(found.whole)} by the model"
    )


PICTURES: dict[str, Callable[[], str]] = {
    "memory.svg": of_report("memory"),
    "floor_plan.svg": of_report("floor plan"),
    "steps.svg": of_report("steps"),
    "roofline.svg": of_report("roofline"),
    "layers.svg": of_report("layers"),
    "schedule.svg": schedule,
}


def main() -> None:
    """Writes the pictures, or compares them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a picture is another one now")
    check = parser.parse_args().check
    stale = []
    for name, draw in PICTURES.items():
        text = draw()
        path = IMAGES / name
        if not check:
            path.write_text(text)
            print(f"{path}: {len(text) / 1000:.0f} KB")
        elif not path.exists() or path.read_text() != text:
            stale.append(name)
    if stale:
        raise SystemExit(f"not as they would be drawn now: {', '.join(stale)}: python -m tools.documentation.pictures")


if __name__ == "__main__":
    main()
