"""Pipelines: a model cut into stages, each on an IPU of its own."""

from jax_ipu.pipelines.splitting import Stages, split_into_stages
from jax_ipu.pipelines.timeline import Timeline
from jax_ipu.pipelines.training import Pipeline, PipelineState, pipeline

__all__ = ["Pipeline", "PipelineState", "Stages", "Timeline", "pipeline", "split_into_stages"]
