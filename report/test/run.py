"""A report with a run, and a folder of reports with its index: python report/test/run.py FOLDER."""

import sys
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import jax_ipu


def step(w, x):
    y = jax.pure_callback(np.tanh, jax.ShapeDtypeStruct((64, 256), jnp.float32), x @ w)
    return w - 0.01 * (x.T @ y), (y**2).mean()


def run(folder: Path) -> None:
    """Writes run.html and reports/index.html."""
    jax_ipu.config.report_dir = str(folder / "reports")
    ipu = jax.devices("ipu")[0]
    f = jax.jit(step, donate_argnums=0)
    w, x = jax.device_put(jnp.ones((256, 256)), ipu), np.ones((64, 256), np.float32)
    report = jax_ipu.report(f, w, x)
    w, loss = f(w, x)
    jnp.sin(w).block_until_ready()
    with tempfile.TemporaryDirectory() as profile:
        with jax.profiler.trace(profile):
            for _ in range(4):
                w, loss = f(w, x)
                float(loss)
        report.with_profile(profile).save(folder / "run.html")


if __name__ == "__main__":
    run(Path(sys.argv[1]))
