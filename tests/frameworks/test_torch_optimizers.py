"""Losses, optimisers and what the step changes beside weights, as PyTorch has them."""

import copy

import jax
import numpy as np
import pytest

from jax_ipu import GraphCoreManager
from support.torch_models import assert_same_state, classifier, feature_batches, torch_or_skip, train


@pytest.mark.parametrize("name", ["module", "function"])
def test_losses_of_torch(manager, name):
    torch = torch_or_skip()
    model = classifier(torch)
    batches = feature_batches(torch)
    weight = torch.tensor([1.0, 2.0, 0.5, 1.5])
    loss = torch.nn.CrossEntropyLoss(weight, ignore_index=2, label_smoothing=0.1)
    if name == "function":
        batches = [(x, torch.nn.functional.one_hot(y, 4).float()) for x, y in batches]
        loss = torch.nn.functional.smooth_l1_loss
    step = manager.compile_training_step(model, loss, "sgd", batches[0], learning_rate=0.5)
    losses = [step(*batch) for batch in batches]
    expected = train(torch, model, torch.optim.SGD(model.parameters(), 0.5), loss, batches)
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    assert_same_state(step, model)


def test_weights_are_those_of_the_time_of_compilation(manager):
    torch = torch_or_skip()
    model, batch = classifier(torch), feature_batches(torch, 1)[0]
    expected = model(batch[0]).detach()
    compiled = manager.compile_model(model, batch[0])
    step = manager.compile_training_step(model, "cross_entropy", "sgd", batch, learning_rate=0.0)
    loss = torch.nn.functional.cross_entropy(expected, batch[1]).item()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1.0)
    torch.testing.assert_close(compiled(batch[0]), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(step(*batch), loss, rtol=1e-4)


def test_batch_norm_and_dropout_over_two_ipus():
    """The statistics are those of the whole batch, and the noise does not depend on the number of IPUs."""
    torch = torch_or_skip()
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.3))
    batch = torch.randn(16, 6), torch.randn(16, 8)
    results = []
    for ipus in (1, 2):
        with GraphCoreManager(num_ipus=ipus) as manager:
            optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
            step = manager.compile_training_step(model, torch.nn.MSELoss(), optimizer, batch)
            losses = [step(*batch) for _ in range(3)]
            assert ("batch over 2 IPUs" in str(step.plan)) == (ipus == 2)
            results.append((losses, step.weights()))
    np.testing.assert_allclose(results[1][0], results[0][0], rtol=1e-5)
    for name, value in results[0][1].items():
        np.testing.assert_allclose(results[1][1][name], value, rtol=1e-4, atol=1e-6, err_msg=name)


SETTINGS = {
    "SGD": ("SGD", {}),
    "SGD momentum": ("SGD", {"momentum": 0.9, "weight_decay": 0.05}),
    "SGD nesterov": ("SGD", {"momentum": 0.8, "nesterov": True}),
    "SGD dampening": ("SGD", {"momentum": 0.9, "dampening": 0.4, "weight_decay": 0.05}),
    "SGD maximize": ("SGD", {"momentum": 0.5, "maximize": True, "weight_decay": 0.05}),
    "Adam": ("Adam", {"betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": 0.1}),
    "Adam amsgrad": ("Adam", {"amsgrad": True, "betas": (0.5, 0.6)}),
    "AdamW": ("AdamW", {}),
    "AdamW amsgrad": ("AdamW", {"amsgrad": True, "maximize": True, "weight_decay": 0.2}),
}


@pytest.mark.parametrize("case", SETTINGS)
def test_optimizers_of_torch(manager, case):
    torch = torch_or_skip()
    name, settings = SETTINGS[case]
    model = classifier(torch)
    model.unused = torch.nn.Parameter(torch.ones(3))  # no gradient, so PyTorch does not decay it
    model.forward = lambda x: model[2](model[1](model[0](x)))
    batches = feature_batches(torch)
    optimizer = getattr(torch.optim, name)(model.parameters(), lr=0.05, **settings)
    step = manager.compile_training_step(model, "cross_entropy", optimizer, batches[0])
    losses = [step(*batch) for batch in batches]
    expected = train(torch, model, optimizer, torch.nn.functional.cross_entropy, batches)
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    assert_same_state(step, model)


def test_parameter_groups_and_schedulers(manager):
    torch = torch_or_skip()
    model = classifier(torch)
    twin = copy.deepcopy(model)

    def optimizer_of(model):
        first = {"params": model[0].parameters(), "lr": 0.2, "momentum": 0.9}
        optimizer = torch.optim.SGD([first, {"params": model[2].parameters(), "weight_decay": 0.1}], lr=0.05)
        return optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.1)

    optimizer, scheduler = optimizer_of(model)
    batches = feature_batches(torch, 6)
    step = manager.compile_training_step(model, "cross_entropy", optimizer, batches[0])
    losses = []
    for batch in batches:
        losses.append(step(*batch))
        scheduler.step()
    other, schedule = optimizer_of(twin)
    expected = train(torch, twin, other, torch.nn.functional.cross_entropy, batches, schedule)
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    assert_same_state(step, twin)
    optimizer.param_groups[0]["momentum"] = 0.5
    with pytest.raises(RuntimeError, match=r"momentum from 0\.9 to 0\.5.*compile it again"):
        step(*batches[0])


def test_names_with_settings_of_torch(manager):
    """PyTorch's defaults under PyTorch's names, for a model of any framework."""
    torch = torch_or_skip()
    model = classifier(torch)
    params = {name: value.detach().numpy().copy() for name, value in model.named_parameters()}
    batches = feature_batches(torch)

    def apply(params, x):
        return jax.numpy.tanh(x @ params["0.weight"].T + params["0.bias"]) @ params["2.weight"].T + params["2.bias"]

    step = manager.compile_training_step(
        (apply, params), "cross_entropy", "AdamW", batches[0], learning_rate=0.05, optimizer_settings={"eps": 1e-6}
    )
    losses = [step(*batch) for batch in batches]
    optimizer = torch.optim.AdamW(model.parameters(), 0.05, eps=1e-6)
    expected = train(torch, model, optimizer, torch.nn.functional.cross_entropy, batches)
    np.testing.assert_allclose(losses, expected, rtol=1e-4)


def test_optimizers_that_are_refused(manager):
    torch = torch_or_skip()
    model, batches = classifier(torch), feature_batches(torch)

    def compiles(optimizer, **more):
        return manager.compile_training_step(model, "cross_entropy", optimizer, batches[0], **more)

    with pytest.raises(TypeError, match="SGD, Adam, AdamW, not Rprop"):
        compiles(torch.optim.Rprop(model.parameters()))
    with pytest.raises(ValueError, match="none of the model's"):
        compiles(torch.optim.SGD(classifier(torch).parameters()))
    with pytest.raises(ValueError, match=r"SGD has the settings.*not eps"):
        compiles("SGD", optimizer_settings={"eps": 1})
    used = torch.optim.Adam(model.parameters())
    train(torch, model, used, torch.nn.functional.cross_entropy, batches)
    with pytest.raises(ValueError, match="state from earlier steps"):
        compiles(used)


def test_batch_norm_statistics_are_trained(manager):
    torch = torch_or_skip()
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Linear(8, 4))
    batches = feature_batches(torch)
    step = manager.compile_training_step(model, "cross_entropy", "sgd", batches[0], learning_rate=0.2)
    losses = [step(*batch) for batch in batches]
    expected = train(torch, model, torch.optim.SGD(model.parameters(), 0.2), torch.nn.functional.cross_entropy, batches)
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    assert_same_state(step, model)
    assert step.weights()["1.num_batches_tracked"] == 5
    other = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Linear(8, 4))
    other.load_state_dict({name: torch.from_numpy(value) for name, value in step.weights().items()}, strict=True)


def test_batch_norm_sees_every_micro_batch(manager):
    torch = torch_or_skip()
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(6), torch.nn.Linear(6, 4))
    images, labels = torch.randn(12, 6), torch.randint(0, 4, (12,))
    step = manager.compile_training_step(
        model, "cross_entropy", "sgd", (images, labels), gradient_accumulation=3, learning_rate=0.2
    )
    loss = step(images, labels)
    optimizer = torch.optim.SGD(model.parameters(), 0.2)
    losses = []
    for i in range(3):
        value = torch.nn.functional.cross_entropy(model(images[4 * i : 4 * i + 4]), labels[4 * i : 4 * i + 4]) / 3
        value.backward()
        losses.append(value.item())
    optimizer.step()
    np.testing.assert_allclose(loss, sum(losses), rtol=1e-5)
    assert_same_state(step, model)


def dropout_net(torch):
    return torch.nn.Sequential(torch.nn.Dropout(0.25), torch.nn.Linear(2000, 1, bias=False))


def test_dropout_draws_anew_in_every_step(manager):
    torch = torch_or_skip()
    model = dropout_net(torch)
    torch.nn.init.ones_(model[1].weight)
    batch = torch.ones(4, 2000) / 2000, torch.zeros(4, 1)

    def losses(seed, steps=4):
        step = manager.compile_training_step(model, "mean_squared_error", "sgd", batch, learning_rate=0.0, seed=seed)
        return [step(*batch) for _ in range(steps)]

    first = losses(7)
    assert len(set(first)) == 4
    assert losses(7) == first
    assert losses(8) != first
    # The kept three quarters are scaled up, so that the mean does not change.
    np.testing.assert_allclose(first, 1.0, atol=0.1)


def test_dropout_learns_and_is_off_in_evaluation(manager):
    torch = torch_or_skip()
    model = torch.nn.Sequential(torch.nn.Linear(6, 32), torch.nn.Dropout(0.2), torch.nn.ReLU(), torch.nn.Linear(32, 4))
    batch = feature_batches(torch, 1)[0]
    step = manager.compile_training_step(
        model, "cross_entropy", "sgd", batch, gradient_accumulation=2, learning_rate=0.3
    )
    losses = [step(*batch) for _ in range(40)]
    assert losses[-1] < 0.7 * losses[0]
    with pytest.warns(UserWarning, match=r"in training mode.*model\.eval\(\)"):
        compiled = manager.compile_model(model, batch[0])
    assert model.training and model[1].training
    torch.testing.assert_close(compiled(batch[0]), model.eval()(batch[0]).detach(), rtol=1e-4, atol=1e-5)


def test_data_loaders(manager):
    torch = torch_or_skip()
    model = classifier(torch)
    data = torch.utils.data.TensorDataset(torch.randn(36, 6), torch.randint(0, 4, (36,)))
    loader = torch.utils.data.DataLoader(data, batch_size=12)
    step = manager.compile_training_step(model, "cross_entropy", "sgd", next(iter(loader)), learning_rate=0.2)
    means = step.fit(loader, epochs=2)
    optimizer = torch.optim.SGD(model.parameters(), 0.2)
    expected = [np.mean(train(torch, model, optimizer, torch.nn.functional.cross_entropy, loader)) for _ in range(2)]
    np.testing.assert_allclose(means, expected, rtol=1e-4)
    assert_same_state(step, model)
    images, labels = data[:12]
    assert np.isfinite(step({"x": images, "labels": labels}["x"], labels))
    with pytest.raises(ValueError, match="shape"):
        step.fit(torch.utils.data.DataLoader(data, batch_size=20))
    with pytest.raises(ValueError, match="no batches"):
        step.fit([])


@pytest.mark.parametrize("precision", ["mixed", "float16"])
def test_training_in_half_precision_keeps_the_state_in_float32(precision):
    torch = torch_or_skip()
    model = torch.nn.Sequential(
        torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.1), torch.nn.Linear(8, 4)
    )
    batch = feature_batches(torch, 1)[0]
    with GraphCoreManager(precision=precision) as manager:
        step = manager.compile_training_step(model, "cross_entropy", "SGD", batch, learning_rate=0.2)
        losses = [step(*batch) for _ in range(10)]
        state = step.weights()
    assert losses[-1] < losses[0]
    assert state["1.running_mean"].dtype == np.float32 and state["1.num_batches_tracked"] == 10
