"""PyTorch modules in training: the same losses and the same state as PyTorch, step for step."""

import copy

import numpy as np
import pytest

import jax_ipu
from support.torch_models import assert_same_state, classifier, feature_batches, language_model, torch_or_skip, train


def token_batches(torch, steps=5, vocabulary=50):
    batch = torch.randint(0, vocabulary, (32,)), torch.randint(0, vocabulary, (32,))
    return [batch] * steps


# Tied weights -----------------------------------------------------------------------------------------------------


def through_data(model):
    model.head.weight.data = model.embedding.weight.data


def through_load_state_dict(model):
    model.head.weight = model.embedding.weight
    model.load_state_dict(model.state_dict(), assign=True)
    assert model.head.weight is not model.embedding.weight


@pytest.mark.parametrize("tie", [None, through_data, through_load_state_dict])
def test_tied_weights_are_trained(manager, tie):
    torch = torch_or_skip()
    model = language_model(torch, tie=tie)
    batches = token_batches(torch)
    step = manager.compile_training_step(model, "cross_entropy", "sgd", batches[0], learning_rate=1.0)
    before = jax_ipu.counters()
    losses = [step(*batch) for batch in batches[:1]]
    weight_bytes = 4 * 50 * 16
    moved = jax_ipu.counters().h2d_bytes - before.h2d_bytes
    assert weight_bytes <= moved < 1.5 * weight_bytes  # one copy
    losses += [step(*batch) for batch in batches[1:]]
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    expected = train(torch, model, optimizer, torch.nn.functional.cross_entropy, batches)
    assert expected[-1] < 0.5 * expected[0]
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    assert_same_state(step, model)


def test_weights_tied_by_transposition(manager):
    torch = torch_or_skip()

    class Autoencoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = torch.nn.Linear(6, 3)
            self.decoder = torch.nn.Linear(3, 6)
            self.decoder.weight = torch.nn.Parameter(self.encoder.weight.t())

        def forward(self, x):
            return self.decoder(torch.tanh(self.encoder(x)))

    model = Autoencoder()
    batches = [(x := torch.randn(8, 6), x) for _ in range(4)]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    step = manager.compile_training_step(model, "mean_squared_error", optimizer, batches[0])
    losses = [step(*batch) for batch in batches]
    expected = train(torch, model, optimizer, torch.nn.functional.mse_loss, batches)
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    assert_same_state(step, model)


def test_tied_weights_are_stored_once_for_inference(manager):
    torch = torch_or_skip()
    model = language_model(torch).eval()
    tokens = torch.arange(32)
    compiled = manager.compile_model(model, tokens)
    before = jax_ipu.counters()
    actual = compiled(tokens)
    assert jax_ipu.counters().h2d_bytes - before.h2d_bytes < 1.5 * 4 * 50 * 16
    torch.testing.assert_close(actual, model(tokens).detach(), rtol=1e-4, atol=1e-5)


def test_weights_with_some_memory_in_common_are_refused(manager):
    torch = torch_or_skip()
    model = classifier(torch)
    model[0].bias.data = model[0].weight.data.view(-1)[:8]
    with pytest.raises(ValueError, match=r"(?s)0.weight.*0.bias|0.bias.*0.weight"):
        manager.compile_training_step(model, "cross_entropy", "sgd", feature_batches(torch)[0])


def test_two_parameters_over_one_memory_need_a_linear_optimizer(manager):
    torch = torch_or_skip()
    model = language_model(torch, tie=through_data)
    with pytest.raises(ValueError, match=r"two parameters over one memory.*a\.weight = b\.weight"):
        manager.compile_training_step(
            model, "cross_entropy", torch.optim.Adam(model.parameters()), token_batches(torch)[0]
        )


def test_gradients_of_bags_and_of_vectors_that_are_zero(manager):
    """Bags of all modes, gradients by frequency; norms and distances have no gradient at zero, not NaN."""
    torch = torch_or_skip()
    functional = torch.nn.functional
    positions, begins = torch.tensor([1, 2, 4, 5, 4, 3, 2, 9]), torch.tensor([0, 3, 3, 5])

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.tables = torch.nn.ParameterList(torch.nn.Parameter(torch.randn(10, 4)) for _ in range(5))
            self.scales = torch.nn.Parameter(torch.randn(8))

        def forward(self, x):
            a, b, c, d, e = self.tables
            bags = [
                functional.embedding_bag(positions, a, begins, mode="sum", per_sample_weights=self.scales),
                functional.embedding_bag(positions, b, begins, mode="mean", padding_idx=4),
                functional.embedding_bag(positions, c, begins, mode="max"),
                functional.embedding(positions, d, scale_grad_by_freq=True)[:4],
            ]
            zeros = e[:4] - e[:4].detach()
            lengths = [torch.cdist(e, e).sum(), zeros.norm(dim=1).sum(), zeros.norm(3), torch.pdist(e * 0).sum()]
            return sum(bags) * x + sum(lengths)

    model = Net()
    batch = torch.linspace(-1, 1, 16).reshape(4, 4), torch.zeros(4, 4)
    step = manager.compile_training_step(model, "mean_squared_error", "sgd", batch, learning_rate=0.1)
    losses = [step(*batch) for _ in range(2)]
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    expected = train(torch, model, optimizer, functional.mse_loss, [batch] * 2)
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    assert_same_state(step, model)


def test_gradients_of_one_of_equal_elements(manager):
    """What a selection along a dimension finds has its gradient; equal elements share that of a whole tensor."""
    torch = torch_or_skip()

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.rows = torch.nn.Parameter(torch.tensor([[2.0, 1, 2, 0, 2], [1, 3, 3, 1, 0]]))

        def forward(self, x):
            rows = self.rows
            found = [
                rows.max(1)[0],
                rows.min(0)[0],
                rows.cummax(1)[0],
                rows.cummin(0)[0],
                rows.sort(dim=1, stable=True)[0],
            ]
            found += [
                rows.median(),
                rows.nanmedian(),
                rows.max(),
                rows.amin(1),
                rows.mode(1)[0],
                rows.kthvalue(1)[0],
            ]
            return x * sum((value * torch.arange(1.0, 1 + value.numel()).view(value.shape)).sum() for value in found)

    model, batch = Net(), (torch.ones(2, 1), torch.zeros(2, 1))
    step = manager.compile_training_step(model, "mean_squared_error", "sgd", batch, learning_rate=1e-3)
    losses = [step(*batch)]
    expected = train(torch, model, torch.optim.SGD(model.parameters(), 1e-3), torch.nn.functional.mse_loss, [batch])
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    assert_same_state(step, model)


def test_gradients_at_kinks(manager):
    """PyTorch chooses the slope of each function where it has two."""
    torch = torch_or_skip()
    functional = torch.nn.functional
    one = torch.ones(())

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.numbers = torch.nn.Parameter(torch.tensor([-3.0, -1, -0.0, 0, 1, 3, 6, 0.5]))

        def forward(self, x):
            v = self.numbers
            found = [v.abs(), v.clamp(-1, 3), v.clamp(min=1), v.clamp(max=v.flip(0)), torch.clamp(v, -one, one), v**0]
            found += [functional.relu(v), functional.relu6(v), functional.hardtanh(v), functional.hardsigmoid(v)]
            found += [functional.hardswish(v), functional.leaky_relu(v), functional.logsigmoid(v), torch.sinc(v)]
            found += [torch.fmax(v, one), torch.fmin(v, one), torch.maximum(v, one), torch.special.i0(v)]
            found += [
                torch.copysign(v, -one),
                torch.polar(v.abs(), v).real,
                v.norm(1),
                torch.cdist(v[:, None], one[None, None], 1),
            ]
            found += [
                functional.l1_loss(v, v.detach() * 0),
                functional.margin_ranking_loss(v, v * 0, v**0, reduction="none"),
            ]
            found += [(v * 0).std(), *torch.std_mean(v[:1] - v[:4]), (v * 0).norm(0.5)]
            return x * sum((f * torch.arange(1.0, 1 + f.numel()).view(f.shape)).sum() for f in found)

    model, batch = Net(), (torch.ones(2, 1), torch.zeros(2, 1))
    step = manager.compile_training_step(model, "mean_squared_error", "sgd", batch, learning_rate=1e-5)
    losses = [step(*batch)]
    expected = train(torch, model, torch.optim.SGD(model.parameters(), 1e-5), functional.mse_loss, [batch])
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    assert_same_state(step, model)


def test_a_parameter_that_the_model_changes_itself_is_refused(manager):
    torch = torch_or_skip()
    model = torch.nn.Embedding(10, 4, max_norm=1.0)
    batch = torch.tensor([1, 2]), torch.zeros(2, 4)
    with pytest.raises(NotImplementedError, match="changes its parameters weight in place"):
        manager.compile_training_step(model, "mean_squared_error", "sgd", batch)


def test_what_is_not_trained_is_named(manager):
    torch = torch_or_skip()
    batch = feature_batches(torch)[0]
    model = classifier(torch)
    with pytest.warns(UserWarning, match=r"not trained.*optimizer does not have them: 0\.bias, 0\.weight"):
        manager.compile_training_step(model, "cross_entropy", torch.optim.SGD(model[2].parameters(), 0.1), batch)

    class Loose(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.last = torch.nn.Linear(6, 4)
            self.scales = [torch.nn.Parameter(torch.ones(6))]

        def forward(self, x):
            return self.last(x * self.scales[0])

    with pytest.warns(UserWarning, match="a parameter in scales is not trained.*ParameterList"):
        manager.compile_training_step(Loose(), "cross_entropy", "sgd", batch)


def test_frozen_parameters_stay_as_they_are(manager):
    torch = torch_or_skip()
    model = classifier(torch)
    model[0].requires_grad_(False)
    before = model[0].weight.clone()
    batches = feature_batches(torch)
    step = manager.compile_training_step(model, "cross_entropy", "sgd", batches[0], learning_rate=0.3)
    losses = [step(*batch) for batch in batches]
    parameters = [p for p in model.parameters() if p.requires_grad]
    expected = train(torch, model, torch.optim.SGD(parameters, 0.3), torch.nn.functional.cross_entropy, batches)
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    np.testing.assert_array_equal(step.weights()["0.weight"], before.numpy())
    assert_same_state(step, model)


# Gradients as PyTorch has them ------------------------------------------------------------------------------------


def test_detach_no_grad_and_padding_stop_gradients(manager):
    torch = torch_or_skip()

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = torch.nn.Embedding(50, 6, padding_idx=3)
            self.first = torch.nn.Linear(6, 6)
            self.second = torch.nn.Linear(6, 6)
            self.last = torch.nn.Linear(6, 50)

        def forward(self, tokens):
            x = self.embedding(tokens)
            with torch.no_grad():
                target = self.first(x) + 1
            return self.last(self.second(x).detach() * x + target * x)

    model = Net()
    batches = [(tokens % 7, targets) for tokens, targets in token_batches(torch)]
    step = manager.compile_training_step(model, "cross_entropy", "sgd", batches[0], learning_rate=0.5)
    losses = [step(*batch) for batch in batches]
    before = copy.deepcopy(model.state_dict())
    optimizer = torch.optim.SGD(model.parameters(), 0.5)
    expected = train(torch, model, optimizer, torch.nn.functional.cross_entropy, batches)
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    assert_same_state(step, model)
    for name in ("first.weight", "second.weight"):
        np.testing.assert_array_equal(step.weights()[name], before[name].numpy())


# Functions with a backward pass of their own --------------------------------------------------------------------------


def own_functions(torch):
    """Functions by name; each is called with (x, weight) and gives a tensor of the shape of x."""

    class Straight(torch.autograd.Function):
        """Another gradient than that of its forward pass."""

        @staticmethod
        def forward(context, x):
            return x.sign()

        @staticmethod
        def backward(context, gradient):
            return 0.5 * gradient

    class Scaled(torch.autograd.Function):
        """Saves tensors, has attributes and arguments that are no tensors, and asks what it needs."""

        @staticmethod
        def forward(context, x, factor, weight, mask=None):
            context.factor, context.shape = factor, x.shape
            context.extra = {"cosine": weight.cos()}
            context.save_for_backward(x, weight)
            return x * weight.sin() * factor

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(context, gradient):
            x, weight = context.saved_tensors
            assert context.needs_input_grad[0] and not context.needs_input_grad[1]
            by_weight = 3 * gradient * x * context.extra["cosine"] * context.factor
            return gradient.view(context.shape) * weight.sin() * context.factor, None, by_weight.sum(0), None

    class Pair(torch.autograd.Function):
        """Its context is filled apart; two outputs, one of them of integers, and one without a gradient."""

        @staticmethod
        def forward(x, weight):
            return x.clamp(-1, 1) * weight, x.argmax(1), x.abs()

        @staticmethod
        def setup_context(context, inputs, outputs):
            context.mark_non_differentiable(outputs[1], outputs[2])
            context.save_for_backward(*inputs, outputs[0])

        @staticmethod
        def backward(context, gradient, of_integers, of_absolute):
            x, weight, product = context.saved_tensors
            return gradient * weight * (x.abs() < 1), (gradient * product).sum(0, keepdim=True)[0] + of_absolute.sum(0)

    def pair(x, weight):
        product, index, absolute = Pair.apply(x, weight)
        return product + index[:, None] * absolute

    return {
        "another gradient": lambda x, weight: Straight.apply(x) * weight,
        "saved tensors": lambda x, weight: Scaled.apply(x, 1.5, weight),
        "context apart": pair,
        "several calls": lambda x, weight: Straight.apply(Scaled.apply(x, 2.0, weight)) * Scaled.apply(x, 0.5, weight),
    }


@pytest.mark.parametrize("name", ["another gradient", "saved tensors", "context apart", "several calls"])
def test_functions_with_a_backward_pass_of_their_own(manager, name):
    torch = torch_or_skip()
    function = own_functions(torch)[name]

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = torch.nn.Linear(6, 8), torch.nn.Linear(8, 4)
            self.weight = torch.nn.Parameter(torch.linspace(-1, 2, 8))

        def forward(self, x):
            return self.last(function(self.first(x), self.weight))

    model, batches = Net(), feature_batches(torch)
    optimizer = torch.optim.SGD(model.parameters(), 0.5, momentum=0.9)
    step = manager.compile_training_step(model, "cross_entropy", optimizer, batches[0])
    losses = [step(*batch) for batch in batches]
    before = copy.deepcopy(model.state_dict())
    expected = train(torch, model, optimizer, torch.nn.functional.cross_entropy, batches)
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    assert_same_state(step, model)
    assert all((model.state_dict()[key] != before[key]).any() for key in ("weight", "first.weight"))


def test_what_a_backward_pass_may_not_read(manager):
    torch = torch_or_skip()

    class Hidden(torch.autograd.Function):
        @staticmethod
        def forward(context, x, module):
            return x * module.weight[0]

        @staticmethod
        def backward(context, gradient):
            return gradient, None

    class Dirty(torch.autograd.Function):
        @staticmethod
        def forward(context, x, module):
            context.mark_dirty(x)
            return x.add_(1)

        @staticmethod
        def backward(context, gradient):
            return gradient, None

    class Net(torch.nn.Linear):
        def forward(self, x):
            return self.function.apply(super().forward(x), self)

    batch = feature_batches(torch, 1)[0]
    for function, message in ((Hidden, "reads a parameter or buffer"), (Dirty, "changes its inputs in place")):
        model = Net(6, 6)
        model.function = function
        with pytest.raises(NotImplementedError, match=message):
            manager.compile_training_step(model, "cross_entropy", "sgd", batch)


@pytest.mark.nightly
def test_a_smooth_resnet_is_as_exact_as_pytorch(manager):
    """With ReLUs, gradients of an untrained network depend on roundings; without, float32 agrees with float64."""
    torch = torch_or_skip()
    model = pytest.importorskip("torchvision").models.resnet18()
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, torch.nn.ReLU):
                setattr(module, name, torch.nn.Softplus())
    model.maxpool = torch.nn.AvgPool2d(3, 2, 1)
    images, labels = torch.randn(4, 3, 96, 96), torch.arange(4)

    def optimizer(model):
        return torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, weight_decay=1e-4)

    step = manager.compile_training_step(model, "cross_entropy", optimizer(model), (images, labels))
    step(images, labels)

    def state_in(dtype):
        own = copy.deepcopy(model).to(dtype)
        train(torch, own, optimizer(own), torch.nn.functional.cross_entropy, [(images.to(dtype), labels)])
        return {name: value.double().numpy() for name, value in own.state_dict().items()}

    exact, single = state_in(torch.float64), state_in(torch.float32)
    for name, value in step.weights().items():
        error, allowed = (np.abs(found - exact[name]).max() for found in (value, single[name]))
        assert error <= 4 * allowed + 1e-7 * np.abs(exact[name]).max(), name
