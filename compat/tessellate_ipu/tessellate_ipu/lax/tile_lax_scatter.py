"""Names of `tessellate_ipu.lax`."""

from tessellate_ipu.lax import *  # noqa: F403
