import pytest

from jax_ipu.config import Config


def test_defaults(monkeypatch):
    monkeypatch.delenv("JAX_IPU_DEVICE_COUNT", raising=False)
    c = Config()
    assert (c.use_model, c.model_version, c.model_num_tiles, c.model_execution) == (True, "ipu2", 0, "fast")
    assert c.device_ids() == [0]


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("use_model", "False", False),
        ("use_model", "yes", True),
        ("model_version", "BOW", "bow"),
        ("model_num_tiles", "16", 16),
        ("model_num_tiles", "all", 0),
        ("device_count", "4", 4),
        ("visible_devices", "1, 3", (1, 3)),
        ("visible_devices", "", None),
        ("model_execution", "tile", "tile"),
        ("process_timeout", "30", 30),
    ],
)
def test_environment(monkeypatch, name, text, value):
    monkeypatch.setenv(f"JAX_IPU_{name.upper()}", text)
    assert getattr(Config(), name) == value


@pytest.mark.parametrize(
    ("name", "text", "good"),
    [
        ("use_model", "maybe", "true"),
        ("model_version", "ipu3", "ipu1, ipu2, ipu21, bow"),
        ("model_num_tiles", "2000", "1 to 1472"),
        ("device_count", "0", "at least 1"),
        ("visible_devices", "0,0", "distinct"),
        ("model_execution", "slow", "fast, tile"),
    ],
)
def test_bad_values_list_the_good_ones(monkeypatch, name, text, good):
    monkeypatch.setenv(f"JAX_IPU_{name.upper()}", text)
    with pytest.raises(ValueError, match=f"JAX_IPU_{name.upper()}.*{good}"):
        getattr(Config(), name)
    with pytest.raises(ValueError, match=f"jax_ipu.config.{name}.*{good}"):
        setattr(Config(), name, text)


def test_attribute_wins_over_environment(monkeypatch):
    monkeypatch.setenv("JAX_IPU_MODEL_VERSION", "ipu1")
    c = Config()
    c.model_version = "bow"
    assert c.model_version == "bow"


def test_visible_devices_win_over_count():
    c = Config()
    c.device_count = 4
    c.visible_devices = (2, 3)
    assert c.device_ids() == [2, 3]


def test_setting_after_the_backend_exists_is_refused():
    c = Config()
    c.freeze()
    with pytest.raises(RuntimeError, match="JAX_IPU_DEVICE_COUNT"):
        c.device_count = 2
