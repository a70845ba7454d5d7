"""Simulations: stencils, bodies that attract each other, differential equations."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental.ode import odeint

from .program import MakeProgram, array, program


def _new_inside(u: Any) -> Any:
    """The heat equation's next values of all points but those of the border."""
    neighbours = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
    return u[1:-1, 1:-1] + 0.1 * (neighbours - 4 * u[1:-1, 1:-1])


def stencil_at(u: Any, steps: int) -> Any:
    """The heat equation with a fixed border; the inside is set by `.at`."""
    return lax.fori_loop(0, steps, lambda _, u: u.at[1:-1, 1:-1].set(_new_inside(u)), u)


def stencil_update_slice(u: Any, steps: int) -> Any:
    """As `stencil_at`; the inside is set by dynamic_update_slice."""
    return lax.fori_loop(0, steps, lambda _, u: lax.dynamic_update_slice(u, _new_inside(u), (1, 1)), u)


def stencil_pad(u: Any, steps: int) -> Any:
    """The heat equation with zeros around the grid, which is padded in each step."""
    return lax.fori_loop(0, steps, lambda _, u: _new_inside(jnp.pad(u, 1)), u)


STENCILS = {".at": stencil_at, "dynamic_update_slice": stencil_update_slice, "pad": stencil_pad}


def n_body(positions: Any, velocities: Any, masses: Any) -> Any:
    """One leapfrog step of n bodies, [n, 3], with softened gravity; all pairs."""
    difference = positions[None] - positions[:, None]
    distance = jnp.sum(difference**2, -1) + 1e-2
    acceleration = jnp.sum(difference * (masses[None] * distance**-1.5)[..., None], 1)
    velocities = velocities + 0.01 * acceleration
    return positions + 0.01 * velocities, velocities


def _runge_kutta(x: Any) -> Any:
    """1,000 steps of RK4 of coupled oscillators with a drive, x: [n]."""

    def slope(t: Any, x: Any) -> Any:
        return -0.5 * x + 0.3 * jnp.sin(jnp.roll(x, 1)) + jnp.cos(t)

    def step(i: Any, x: Any) -> Any:
        dt = 0.01
        t = i * dt
        k1 = slope(t, x)
        k2 = slope(t + dt / 2, x + dt / 2 * k1)
        k3 = slope(t + dt / 2, x + dt / 2 * k2)
        k4 = slope(t + dt, x + dt * k3)
        return x + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

    return lax.fori_loop(0, 1000, step, x)


def _lorenz(x: Any) -> Any:
    """1,000 steps of RK4 of the Lorenz system, and all states."""

    def slope(x: Any) -> Any:
        return jnp.stack([10 * (x[1] - x[0]), x[0] * (28 - x[2]) - x[1], x[0] * x[1] - 8 / 3 * x[2]])

    def step(x: Any, _: Any) -> tuple[Any, Any]:
        dt = 1e-3
        k1 = slope(x)
        k2 = slope(x + dt / 2 * k1)
        k3 = slope(x + dt / 2 * k2)
        k4 = slope(x + dt * k3)
        x = x + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return x, x

    return lax.scan(step, x, None, length=1000)[1]


def _van_der_pol(x: Any, times: Any) -> Any:
    """An oscillator by JAX's adaptive Dormand-Prince method."""
    return odeint(lambda x, _: jnp.stack([x[1], (1 - x[0] ** 2) * x[1] - x[0]]), x, times)


def _product_of_quaternions(a: Any, b: Any) -> Any:
    (aw, ax, ay, az), (bw, bx, by, bz) = a.T, b.T
    return jnp.stack(
        [
            aw * bw - ax * bx - ay * by - az * bz,
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
        ],
        -1,
    )


def _rigid_bodies(state: Any) -> Any:
    """500 steps of n bodies that turn, fall on springs and meet the floor."""
    inertia = jnp.array([1.0, 2.0, 3.0])

    def step(state: Any, _: Any) -> tuple[Any, Any]:
        position, velocity, turned, spin = state
        velocity = velocity + 0.01 * (jnp.array([0, 0, -9.81]) - 4 * position)
        depth = jnp.where(position[:, 2:] < 0, -100 * position[:, 2:] - velocity[:, 2:], 0)
        velocity = velocity + 0.01 * jnp.pad(depth, ((0, 0), (2, 0)))
        position = position + 0.01 * velocity
        spin = spin - 0.01 * jnp.cross(spin, inertia * spin) / inertia
        turned = turned + 0.005 * _product_of_quaternions(turned, jnp.pad(spin, ((0, 0), (1, 0))))
        turned = turned / jnp.linalg.norm(turned, axis=-1, keepdims=True)
        return (position, velocity, turned, spin), position

    return lax.scan(step, state, None, length=500)[1]


def _bodies(count: int) -> Any:
    return tuple(array(count, columns, seed=seed) for seed, columns in enumerate((3, 3, 4, 3)))


def _life(u: Any) -> Any:
    """Conway's Game of Life on a torus, 20 generations."""

    def step(_: Any, u: Any) -> Any:
        shifts = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j]
        count = sum(jnp.roll(u, shift, (0, 1)) for shift in shifts)
        return ((count == 3) | ((count == 2) & (u == 1))).astype(u.dtype)

    return lax.fori_loop(0, 20, step, u)


PROGRAMS: dict[str, MakeProgram] = {
    **{
        f"stencil {name} 512x512 x 50": program(lambda u, f=f: f(u, 50), array(512, 512))
        for name, f in STENCILS.items()
    },
    "N-body 1024": program(n_body, array(1024, 3), array(1024, 3), abs(array(1024))),
    "RK4 n=1": program(_runge_kutta, array(1)),
    "RK4 n=16": program(_runge_kutta, array(16)),
    "RK4 n=256": program(_runge_kutta, array(256)),
    "RK4 of Lorenz": program(_lorenz, array(3)),
    "odeint of Van der Pol's oscillator": program(
        _van_der_pol, np.array([1, 0], np.float32), np.linspace(0, 10, 50, dtype=np.float32)
    ),
    "products of 65536 quaternions": program(_product_of_quaternions, array(65536, 4), array(65536, 4, seed=1)),
    "rigid bodies 1": program(_rigid_bodies, _bodies(1), tolerance=1e-2),
    "rigid bodies 100": program(_rigid_bodies, _bodies(100), tolerance=1e-2),
    "Game of Life 512x512 x 20": program(_life, (array(512, 512) > 0.5).astype("int32")),
    "scan 1000 steps": program(
        lambda x: lax.scan(lambda c, _: (jnp.tanh(c) + 0.1, c.sum()), x, None, length=1000), array(64)
    ),
}
