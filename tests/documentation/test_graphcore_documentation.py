"""Runs code blocks as written: those of docs/graphcore_manager.md and of the API description."""

import re
from pathlib import Path

import pytest

from support.processes import output

MANUAL = Path(__file__).parents[2] / "docs" / "graphcore_manager.md"
BLOCKS = re.findall(r"```python\n(.*?)```", MANUAL.read_text(), re.S)


def test_manual(tmp_path):
    """Runs all blocks in one process, each in its own namespace."""
    blocks = [block for block in BLOCKS if "import torch" not in block and "import keras" not in block]
    assert len(blocks) == 6
    printed = output("\n".join(f"exec({block!r}, {{}})" for block in blocks), tmp_path)
    assert "batch size 4096: RESOURCE_EXHAUSTED" in printed
    assert "\ncompiled with batch size" in printed and "\nchosen:" in printed


def test_manual_of_torch(tmp_path):
    """The blocks with PyTorch and transformers."""
    for package in ("torch", "torchax", "transformers", "optax"):
        pytest.importorskip(package)
    blocks = [block for block in BLOCKS if "import torch" in block]
    assert len(blocks) == 2
    printed = output("\n".join(f"exec({block!r}, {{}})" for block in blocks), tmp_path)
    assert "MaskedLMOutput" in printed


def test_manual_of_keras(tmp_path):
    pytest.importorskip("keras")
    (block,) = [block for block in BLOCKS if "import keras" in block]
    losses = [float(loss) for loss in re.findall(r"\d+\.\d+", output(block, tmp_path).splitlines()[-1])]
    assert len(losses) == 3 and losses[2] < losses[0]


# The names that the API description presupposes.
NAMES = """
import numpy as np

W = np.linspace(-1, 1, 64 * 16, dtype=np.float32).reshape(64, 16)


def model(x):
    return np.float32(0.5) * (x @ W)


def create_example_inputs(batch_size):
    return np.ones((batch_size, 64), np.float32)


example_inputs = inputs = create_example_inputs(8)
ipu_manager = None
"""

DOCUMENTED = {
    "basic": """
from jax_ipu import GraphCoreManager

# Create an IPU manager
ipu_manager = GraphCoreManager(
    num_ipus=2,                  # Number of IPUs to use
    precision="float16",         # Precision to use
    memory_proportion=0.6,       # Proportion of IPU memory to use for model
    enable_half_partials=True,   # Use half-precision for partial results
    compile_only=False           # Whether to compile without executing
)

# Initialize the IPU environment
ipu_manager.initialize()

# Get information about available IPUs
ipu_info = ipu_manager.get_ipu_info()
print(f"IPU information: {ipu_info}")

# Compile a model for IPU execution
compiled_model = ipu_manager.compile_model(model, example_inputs)

# Execute the model on IPU
outputs = ipu_manager.execute_model(compiled_model, inputs)

# Clean up
ipu_manager.finalize()
""",
    "global": """
from jax_ipu import get_graphcore_manager

# Get the global GraphCore IPU manager
ipu_manager = get_graphcore_manager()

# Get the number of available IPUs
ipu_count = ipu_manager.get_ipu_count()
print(f"Available IPUs: {ipu_count}")

# Optimize a model for IPU execution
optimized_model = ipu_manager.optimize_model(model, example_inputs)

# Execute the optimized model
outputs = ipu_manager.execute_model(optimized_model, inputs)
""",
    "context": """
from jax_ipu import GraphCoreManager

# Use the IPU manager as a context manager
with GraphCoreManager(num_ipus=4, precision="float16") as ipu:
    # The IPU environment is automatically initialized

    # Compile and execute a model
    compiled_model = ipu.compile_model(model, example_inputs)
    outputs = ipu.execute_model(compiled_model, inputs)

    # The IPU environment is automatically finalized when exiting the context
""",
    "optimization": """
from jax_ipu import GraphCoreManager

# Create an IPU manager with optimization settings
ipu_manager = GraphCoreManager(
    num_ipus=2,
    precision="float16",         # Use half precision for better performance
    memory_proportion=0.6,       # Balance between available memory and recomputation
    enable_half_partials=True    # Use half-precision for partial results
)

# Optimize the model for IPU execution
optimized_model = ipu_manager.optimize_model(model, example_inputs)
outputs = ipu_manager.execute_model(optimized_model, inputs)
""",
    "multi": """
from jax_ipu import GraphCoreManager

# Create a multi-IPU manager
ipu_manager = GraphCoreManager(
    num_ipus=4,                  # Use 4 IPUs
    precision="float16",
    memory_proportion=0.6
)

# The model will automatically be distributed across the IPUs
compiled_model = ipu_manager.compile_model(model, example_inputs)
outputs = ipu_manager.execute_model(compiled_model, inputs)
""",
}

BATCH_SIZES = """
import jax.numpy as jnp
from jax_ipu import get_graphcore_manager

ipu_manager = get_graphcore_manager()
outputs = None


def model(x):
    return jnp.cumsum(x[:, :, None] * x[:, None, :], 1).max(axis=(1, 2))


def create_example_inputs(batch_size):
    # 1,024 rows do not fit, 512 do.
    return np.ones((16384 // batch_size, 600), np.float32)


# For IPU-optimized batch sizes, use powers of 2 that fit in IPU memory
batch_sizes = [16, 32, 64, 128]  # Example batch sizes to try

# Find the optimal batch size for your model and IPU configuration
for batch_size in batch_sizes:
    try:
        # Create example inputs with this batch size
        example_inputs = create_example_inputs(batch_size)

        # Try to compile the model with this batch size
        compiled_model = ipu_manager.compile_model(model, example_inputs)

        print(f"Successfully compiled with batch size {batch_size}")
        break
    except Exception as e:
        print(f"Failed with batch size {batch_size}: {e}")
"""
CHECK = """
expected = 0.5 * (example_inputs @ W)
np.testing.assert_allclose(outputs, expected, rtol=2e-2, atol=2e-2)
assert outputs.dtype == np.float32
"""


def test_documented_blocks(tmp_path):
    """Runs the blocks in one process with four IPUs, one after another, as a user would paste them."""
    parts = [f"exec({NAMES + block + CHECK!r}, {{}})" for block in DOCUMENTED.values()]
    printed = output("\n".join(parts), tmp_path, JAX_IPU_DEVICE_COUNT="4")
    assert "Available IPUs: 4" in printed and "IPU information: [{'id': 0" in printed


def test_documented_search_for_a_batch_size(tmp_path):
    printed = output(NAMES + BATCH_SIZES, tmp_path)
    assert "Failed with batch size 16: RESOURCE_EXHAUSTED" in printed
    assert "Successfully compiled with batch size" in printed


def test_ipus_are_made_before_the_first_use(tmp_path):
    code = "from jax_ipu import GraphCoreManager\nwith GraphCoreManager(num_ipus=3) as ipu: print(ipu.get_ipu_count())"
    assert output(code, tmp_path).split() == ["3"]
    with pytest.raises(AssertionError, match="JAX_IPU_DEVICE_COUNT=3"):
        output("import jax; jax.devices('ipu')\n" + code, tmp_path)


def test_compiling_needs_no_device(tmp_path):
    """On a machine with neither the model nor hardware."""
    code = "\n".join(BLOCKS[4].splitlines()[:7])
    output(code, tmp_path, JAX_IPU_USE_MODEL="0", JAX_PLATFORMS="cpu")
    assert (tmp_path / "model.ipu").stat().st_size > 64 * 10 * 4
