"""PyTorch for the tests: skips if it is missing; small models; training with PyTorch itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jax_ipu.models.frameworks.torch import import_torchax


def torch_or_skip() -> Any:
    torch = pytest.importorskip("torch")
    pytest.importorskip("optax")
    try:
        import_torchax(torch)
    except ImportError as error:
        pytest.skip(f"torchax: {error}", allow_module_level=True)
    torch.manual_seed(0)
    return torch


def classifier(torch: Any) -> Any:
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 4))


def language_model(torch: Any, vocabulary: int = 50, width: int = 16, tie: Any = None) -> Any:
    """An embedding, and a linear layer with the same weight; `tie(model)` ties them in another way."""

    class LanguageModel(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = torch.nn.Embedding(vocabulary, width)
            self.head = torch.nn.Linear(width, vocabulary, bias=False)
            (tie or _one_parameter)(self)

        def forward(self, tokens: Any) -> Any:
            return self.head(self.embedding(tokens))

    return LanguageModel()


def _one_parameter(model: Any) -> None:
    model.head.weight = model.embedding.weight


def train(torch: Any, model: Any, optimizer: Any, loss: Any, batches: Any, scheduler: Any = None) -> list[float]:
    """Returns the losses of PyTorch's own steps, which change the model."""
    losses = []
    for inputs, targets in batches:
        optimizer.zero_grad()
        value = loss(model(inputs), targets)
        value.backward()
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
        losses.append(value.item())
    return losses


def assert_same_state(step: Any, model: Any, atol: float = 2e-5) -> None:
    """Checks that the state trained on the IPU is PyTorch's state, complete and under all names."""
    actual, expected = step.weights(), model.state_dict()
    assert list(actual) == list(expected)
    for name, value in expected.items():
        assert actual[name].dtype == value.numpy().dtype, name
        np.testing.assert_allclose(actual[name], value.numpy(), rtol=1e-4, atol=atol, err_msg=name)


def feature_batches(torch, steps=5):
    """Batches of rows with 6 features, and of labels of 4 classes."""
    return [(torch.randn(12, 6), torch.randint(0, 4, (12,))) for _ in range(steps)]
