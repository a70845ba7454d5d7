"""Unmodified Hugging Face models: inputs by keyword, their outputs, their own loss, caches."""

import logging

import numpy as np
import pytest

from jax_ipu import GraphCoreManager
from jax_ipu.models.frameworks.huggingface import CACHE_NAMES
from support.huggingface_models import batch_for, tiny
from support.torch_models import assert_same_state, torch_or_skip

NAMES = ("GPT-2", "BERT", "DistilBERT", "ViT", "T5")


def packages():
    return torch_or_skip(), pytest.importorskip("transformers")


@pytest.mark.parametrize("name", NAMES)
def test_models_as_they_are(manager, name):
    torch, transformers = packages()
    model = tiny(transformers, name)
    batch = batch_for(torch, name, model)
    outputs = manager.compile_model(model, batch)(batch)
    expected = model(**batch)
    assert type(outputs) is type(expected)
    assert list(outputs) == [key for key in expected if key not in CACHE_NAMES]
    for key, value in outputs.items():
        assert isinstance(value, torch.Tensor)
        torch.testing.assert_close(value, expected[key].detach(), rtol=1e-4, atol=1e-5)

    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    step = manager.compile_training_step(model, None, optimizer, batch)
    losses = [step(batch) for _ in range(3)]
    expected_losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        expected_losses.append(loss.item())
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-4)
    assert losses[-1] < losses[0]
    # Adam divides gradients by their magnitude, so the rounding of nearly zero gradients decides the direction.
    assert_same_state(step, model, atol=1e-3)


def test_the_tied_embedding_of_gpt2_moves(manager):
    torch, transformers = packages()
    model = tiny(transformers, "GPT-2")
    batch = batch_for(torch, "GPT-2", model)
    step = manager.compile_training_step(model, None, torch.optim.SGD(model.parameters(), 1.0), batch)
    before = model.transformer.wte.weight.detach().numpy().copy()
    step(batch)
    after = step.weights()
    assert np.abs(after["transformer.wte.weight"] - before).max() > 1e-3
    np.testing.assert_array_equal(after["transformer.wte.weight"], after["lm_head.weight"])


def test_dropout_of_a_model_in_training_mode(manager):
    torch, transformers = packages()
    model = tiny(transformers, "GPT-2").train()
    batch = batch_for(torch, "GPT-2", model)
    step = manager.compile_training_step(model, None, "sgd", batch, learning_rate=0.0)
    losses = [step(batch) for _ in range(3)]
    assert len(set(losses)) == 3
    np.testing.assert_allclose(losses, model.eval()(**batch).loss.item(), rtol=0.1)


def test_what_a_tokenizer_gives(manager):
    torch, transformers = packages()
    model = tiny(transformers, "BERT")
    batch = batch_for(torch, "BERT", model)
    del batch["labels"]
    encoded = transformers.BatchEncoding(batch)
    outputs = manager.compile_model(model, encoded)(encoded)
    torch.testing.assert_close(outputs.logits, model(**batch).logits.detach(), rtol=1e-4, atol=1e-5)
    arrays = {name: value.numpy() for name, value in batch.items()}
    assert isinstance(manager.compile_model(model, arrays)(arrays).logits, np.ndarray)


def test_a_loss_of_ones_own_with_labels_in_the_batch(manager):
    torch, transformers = packages()
    model = tiny(transformers, "ViT")
    batch = batch_for(torch, "ViT", model)

    def half(outputs, targets):
        from jax_ipu.models.training import cross_entropy

        return cross_entropy(outputs.logits, targets) / 2

    step = manager.compile_training_step(model, half, "sgd", batch)
    np.testing.assert_allclose(step(batch), model(**batch).loss.item() / 2, rtol=1e-4)
    del batch["labels"]
    with pytest.raises(ValueError, match=r'loss=None.*"labels"'):
        manager.compile_training_step(model, None, "sgd", batch)


def test_caches(manager, caplog):
    torch, transformers = packages()
    from jax_ipu.models.frameworks.huggingface import _say_once

    _say_once.cache_clear()
    model = tiny(transformers, "GPT-2")
    tokens = batch_for(torch, "GPT-2", model)["input_ids"]
    with caplog.at_level(logging.WARNING):
        compiled = manager.compile_model(model, {"input_ids": tokens})
        manager.compile_model(model, {"input_ids": tokens[:, :4]})
    said = [r.getMessage() for r in caplog.records if "use_cache=False" in r.getMessage()]
    assert len(said) == 1 and model.config.use_cache
    (name,) = set(CACHE_NAMES).intersection(list(model(tokens)))
    assert f"give {name} " in said[0]
    assert name not in compiled({"input_ids": tokens})

    filled = model(tokens[:, :7])[name]
    inputs = {"input_ids": tokens[:, 7:], name: filled}
    outputs = manager.compile_model(model, inputs)(inputs)
    assert filled.get_seq_length() == 7  # the caller's cache is not changed
    expected = model(tokens)
    torch.testing.assert_close(outputs.logits, expected.logits[:, 7:].detach(), rtol=1e-4, atol=1e-5)
    assert type(outputs[name]) is type(filled)
    layers = zip(outputs[name].layers, expected[name].layers, strict=True)
    for layer, other in layers:
        torch.testing.assert_close(layer.keys, other.keys.detach(), rtol=1e-4, atol=1e-5)


def test_settings_are_not_inputs(manager):
    torch, transformers = packages()
    model = tiny(transformers, "BERT")
    inputs = {"input_ids": torch.ones(2, 8, dtype=torch.long), "output_attentions": True}
    with pytest.raises(TypeError, match=r"output_attentions is a setting.*model\.config"):
        manager.compile_model(model, inputs)


@pytest.mark.parametrize("precision", ["mixed", "float16"])
def test_masks_in_half_precision(precision):
    torch, transformers = packages()
    model = tiny(transformers, "BERT")
    batch = batch_for(torch, "BERT", model)
    with GraphCoreManager(precision=precision) as manager:
        outputs = manager.compile_model(model, batch)(batch)
    torch.testing.assert_close(outputs.logits, model(**batch).logits.detach(), rtol=1e-2, atol=1e-2)
