"""The rows of docs/large_models.md, by name."""

from __future__ import annotations

from functools import partial

from larger import host_memory, language, several
from larger.language import garden
from larger.row import Row

ROWS = {
    "gpt2 x4": Row(
        "GPT-2 small (12 layers, 768, vocabulary 50,257, tied weights), f32, AdamW, blocks recomputed, batch 4 x 128,"
        " weights and state cut over 4 IPUs",
        "fits",
        partial(language.gpt2_over, 4, 4),
    ),
    "gpt2 x8": Row("the same over 8 IPUs, batch 8", "fits", partial(language.gpt2_over, 8, 8)),
    "code": Row(
        "code of 1, 2, 4 and 12 such layers (vocabulary 8,192, 4 IPUs, all tiles together)",
        "12 layers at most 1.5 times one",
        language.code_of_layers,
    ),
    "compile time": Row("compiling 1 and 12 of them", "at most 3 times", language.compile_time_of_layers),
    "turns": Row(
        "a training step and an evaluation that share four 512 x 512 weights, called in turns 20 times each (run)",
        "no engine loads, the bytes of the batches",
        several.programs_in_turns,
    ),
    "phased inference": Row(
        "`lax.scan` over weights [224, 2048, 2048] in `pinned_host` (3.5 GiB), one layer `device_put` a trip, 2,048"
        " rows",
        "fits one IPU, bytes within 1 %",
        host_memory.phased_inference,
    ),
    "optimiser": Row(
        "Adam for 40 weights of 2048 x 2048, its state in `pinned_host`, leaf by leaf",
        "peak as without the state",
        host_memory.optimiser_off_chip,
    ),
    "offload": Row(
        "`save_and_offload_only_these_names` for a `scan` over 12 layers of two products of 512, 4,096 rows",
        "peak well below all saved",
        host_memory.offloaded_activations,
    ),
    "stages 1024": Row(
        "4 equal stages of 8 layers of 1,024, `shard_map` and `ppermute` in a `scan`, 16 micro-batches",
        "within 5 % of 19 stages",
        partial(several.equal_stages, 1024),
    ),
    "stages 512": Row("the same with layers of 512", "within 5 % of 19 stages", partial(several.equal_stages, 512)),
    "phased training": Row(
        "training with momentum of stacked layers [232, 2048, 2048], weights, momentum and gradients in `pinned_host`",
        "fits one IPU, bytes within 1 %",
        host_memory.phased_training,
    ),
    "phased training, run": Row(
        "the same with [640, 256, 256] on 64 tiles (run)",
        "values of the CPU, bytes within 1 %",
        host_memory.phased_training_runs,
    ),
    "bert": Row(
        "BERT-base, f32, the moments of AdamW in `pinned_host`, batch 1 x 128, one IPU",
        "fits, moments in and out once within 1 %",
        language.bert_off_chip,
    ),
    "resnet f32": Row(
        "ResNet-50 training, f32, batch 4, one IPU",
        "fits",
        partial(language.of_the_garden, "resnet50", "training", garden.Options(4, precision="float32")),
    ),
    "resnet f16": Row(
        "ResNet-50 training, f16, batch 16, one IPU",
        "fits",
        partial(language.of_the_garden, "resnet50", "training", garden.Options(16, precision="float16")),
    ),
    "gpt2 1024": Row(
        "GPT-2 small training, f16, batch 4 x 1,024, 4 IPUs",
        "fits",
        partial(language.of_the_garden, "gpt2", "training 1024", garden.Options(4, 4, precision="float16")),
    ),
    "bert x4": Row(
        "BERT-base training, f32, AdamW, batch 4 x 128, weights and state cut over 4 IPUs",
        "fits",
        partial(language.of_the_garden, "bert_base", "training", garden.Options(4, 4, precision="float32")),
    ),
    "bert large": Row(
        "BERT-Large pre-training, f16, `jax_ipu.pipeline` over 4 IPUs, batch 1,024",
        "at most 10 % longer than its busiest IPU computes",
        several.bert_large_pipeline,
    ),
    "language.llama": Row(
        "a Llama-like model (f16, vocabulary 32,000 untied, width 768, 12 layers in a `scan`, AdamW), batch 1 x 256",
        "fits one IPU",
        partial(language.llama, True, 1),
    ),
    "language.llama kept": Row(
        "the same without recomputation, batch 2 x 256", "fits one IPU", partial(language.llama, False, 2)
    ),
    "many ipus": Row(
        "estimating a data parallel step over 4, 16 and 64 IPUs: time and memory of the host",
        "hardly more for more IPUs",
        several.host_cost_of_many_ipus,
    ),
}
