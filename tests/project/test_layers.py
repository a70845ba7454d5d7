"""The layers of jax_ipu: imports go down only, so that no two modules need each other."""

import ast
import functools
import graphlib
from pathlib import Path

import jax_ipu

ROOT = Path(jax_ipu.__file__).parent
NATIVE = "jax_ipu._ipu"

# From the bottom up. A module belongs to the longest name in the table that it is, or is in; it imports from its own
# layer and those below.
LAYERS = (
    (
        *(
            "facts",
            "_ipu",
            "version",
            "names",
            "chips",
            "files",
            "environment",
            "machine",
            "compiler.errors",
            "compiler.types",
        ),
        *("compiler.location", "compiler.tables", "compiler.contexts", "poplibs"),
    ),
    (
        *("options", "compiler.proto", "compiler.xla_options", "compiler.options", "compiler.progress"),
        *("compiler.collector", "compiler.stages"),
    ),
    (
        *("ir", "compiler.ir", "compiler.expression", "compiler.ffi_calls", "compiler.replica_groups"),
        *("compiler.groups", "compiler.tile_calls", "compiler.user_shapes"),
        *("compiler.shapes", "compiler.layout_modes", "compiler.shardings", "compiler.cost"),
    ),
    ("frontend", "compiler.frontend"),
    ("passes", "compiler.program_io", "compiler.passes", "compiler.pipeline"),
    ("variants", "compiler.variants"),
    ("mapping", "compiler.mapping", "compiler.first_tiles", "compiler.stencils"),
    ("lowering", "compiler.capacity", "compiler.lowering"),
    ("build", "compiler.build"),
    ("fit", "compiler.out_of_memory", "compiler.compilation", "compiler.fit"),
    ("advice", "compiler.cuts", "compiler.trials", "compiler.advice"),
    ("compiler", "compiler.api", "compiler", "compiler.estimates", "compiler.tile_map"),
    ("JAX", "config", "counters", "integration", "tile"),
    ("models", "models"),
    (
        *("package", "compile_server", "debug", "estimates", "plugin", "graphcore_manager", "reports", "traces", ""),
        "pipelines",
        *("__main__", "command_line"),
    ),
)


@functools.cache
def imports() -> dict[str, set[str]]:
    """Module -> the modules of the package that it imports, at its top or in a function."""
    names = {_name(path): path for path in ROOT.rglob("*.py")}
    return {name: _imported(name, path, set(names)) for name, path in names.items()} | {NATIVE: set()}


def _name(path: Path) -> str:
    return ".".join(("jax_ipu", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")


def _imported(name: str, path: Path, modules: set[str]) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} has a relative import"
            for alias in node.names:
                # A name of a package is a module of it, or something in its __init__.
                whole = f"{node.module}.{alias.name}"
                found.add(whole if whole in modules or whole == NATIVE else node.module)
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
    return {module for module in found if module in modules or module == NATIVE} - {name}


def layer_of(module: str) -> int:
    best, layer = -1, -1
    for number, (_, *members) in enumerate(LAYERS):
        for member in members:
            whole = f"jax_ipu.{member}" if member else "jax_ipu"
            if (module == whole or (member and module.startswith(f"{whole}."))) and len(whole) > best:
                best, layer = len(whole), number
    assert layer >= 0, f"{module} belongs to no layer: add it to LAYERS"
    return layer


def test_no_module_is_needed_by_what_it_needs():
    tuple(graphlib.TopologicalSorter(imports()).static_order())  # raises CycleError, which names the modules


def test_imports_go_down():
    upwards = [
        f"{module} ({LAYERS[layer_of(module)][0]}) imports {other} ({LAYERS[layer_of(other)][0]})"
        for module, others in imports().items()
        for other in others
        if layer_of(other) > layer_of(module)
    ]
    assert not upwards, "\n".join(upwards)


def test_a_circle_would_be_found():
    """The graph has edges, also those of imports in functions."""
    graph = imports()
    assert "jax_ipu.compiler.frontend.parse" in graph["jax_ipu.integration.scans"]
    assert NATIVE in graph["jax_ipu.compiler.build"]
    assert "jax_ipu.compiler.ir" in graph["jax_ipu.compiler.passes.arithmetic.fuse"]
