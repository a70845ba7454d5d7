"""The layers of the C++ tree: what each folder may include, and that nothing includes in a circle."""

import collections
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PUBLIC = "ipu_model/include"

# Each folder and what it may include besides itself, in the order in which the code is built up. ipu_model's operations
# and engine do not know each other: core/operation/operation.h joins them.
LAYERS = {
    PUBLIC: (),
    "ipu_model/kernels": (PUBLIC,),
    "ipu_model/codelets": (PUBLIC,),
    "ipu_model/core": (PUBLIC, "ipu_model/kernels", "ipu_model/codelets"),
    "ipu_model/operations": (PUBLIC, "ipu_model/kernels", "ipu_model/core"),
    "ipu_model/engine": (PUBLIC, "ipu_model/kernels", "ipu_model/codelets", "ipu_model/core"),
    # In place of the model, over an SDK: of the model it has the parts that know no graph.
    "poplar_sdk": (PUBLIC, "hlo", "ipu_model/kernels", "ipu_model/core"),
    # StableHLO's operations on the public API alone, so that they could run on a chip.
    "hlo": (PUBLIC,),
    # Of the model, the plugin sees the public headers only.
    "pjrt_plugin/runtime": (PUBLIC, "hlo"),
    "pjrt_plugin/profiling": (PUBLIC, "pjrt_plugin/runtime"),
    "pjrt_plugin/pjrt": (PUBLIC, "pjrt_plugin/runtime", "pjrt_plugin/profiling"),
    "pjrt_plugin/bindings": (PUBLIC, "pjrt_plugin/runtime", "pjrt_plugin/profiling"),
    "pjrt_plugin/poplibs": (PUBLIC,),
}
FAMILIES = (
    *("elementwise", "reduce", "window", "product", "convolution", "index", "sort", "fft", "linear_algebra", "random"),
    "collectives",
)
INCLUDE_PATHS = {
    "ipu_model": ("ipu_model", PUBLIC),
    "hlo": ("hlo", "hlo/codelets", "hlo/include", PUBLIC),
    "poplar_sdk": ("ipu_model", "hlo/include", PUBLIC),
    "pjrt_plugin": ("pjrt_plugin", "hlo/include", PUBLIC),
}


def sources(*suffixes: str) -> Iterator[Path]:
    """The files of the layers, relative to the root, without tests and fuzzers, which may include everything."""
    for package in INCLUDE_PATHS:
        for path in sorted((ROOT / package).rglob("*")):
            if (
                path.suffix in suffixes
                and not path.stem.endswith("_test")
                and path.parent.name not in ("testing", "fuzz")
            ):
                yield path.relative_to(ROOT)


def included(path: Path) -> Iterator[Path]:
    """What a file of this tree includes, relative to the root; fails for what is on none of its include paths."""
    for name in re.findall(r'^ *# *include "(.*)"', (ROOT / path).read_text(), re.MULTILINE):
        found = [Path(folder, name) for folder in INCLUDE_PATHS[path.parts[0]] if (ROOT / folder / name).exists()]
        if name == "check.h" or "testing/check" in str(path):
            continue
        assert found, f"{path} includes {name}, which none of its layers has"
        yield found[0]


def layer_of(path: Path) -> str:
    """The layer a file belongs to."""
    for layer in LAYERS:
        if path.is_relative_to(layer):
            return layer
    raise AssertionError(f"{path} belongs to no layer: add its folder to LAYERS")


def circle(graph: dict[Path, set[Path]]) -> list[Path]:
    """The nodes of one circle, or nothing."""
    done: set[Path] = set()
    for root in graph:
        path: list[Path] = []
        stack = [(root, False)]
        while stack:
            node, leaving = stack.pop()
            if leaving:
                path.pop()
                done.add(node)
            elif node in path:
                return [*path[path.index(node) :], node]
            elif node not in done:
                path.append(node)
                stack.append((node, True))
                stack.extend((other, False) for other in graph.get(node, ()))
    return []


def test_includes_go_down_only():
    upward = [
        f"{path} includes {other}"
        for path in sources(".h", ".hpp", ".cc")
        for other in included(path)
        if layer_of(other) not in (layer_of(path), *LAYERS[layer_of(path)])
    ]
    assert upward == []


def test_no_header_includes_itself_through_others():
    assert circle({path: set(included(path)) for path in sources(".h", ".hpp")}) == []


def test_no_circle_of_files_in_the_engine():
    """X.h and X.cc are one node: what an analysis takes from another never comes back to it."""
    engine = "ipu_model/engine"
    graph: dict[Path, set[Path]] = {}
    for path in sources(".h", ".cc"):
        if path.is_relative_to(engine):
            node = path.with_suffix("")
            others = {other.with_suffix("") for other in included(path) if other.is_relative_to(engine)}
            graph.setdefault(node, set()).update(others - {node})
    assert circle(graph) == []


@pytest.mark.parametrize("layer", ["ipu_model/core", "ipu_model/engine", "pjrt_plugin/pjrt"])
def test_no_circle_of_folders(layer):
    """What lies in the layer's own folder joins those below it."""
    graph: dict[Path, set[Path]] = {}
    for path in sources(".h", ".cc"):
        if path.is_relative_to(layer):
            others = {other.parent for other in included(path) if other.is_relative_to(layer)}
            graph.setdefault(path.parent, set()).update(others - {path.parent})
    if layer == "ipu_model/core":  # log and deadline, which everything may use
        graph.pop(Path(layer))
    assert circle(graph) == []


def test_a_folder_is_a_family():
    """A folder with more files than these has more than one. The names in poplar/ are those of the SDK."""
    counts = collections.Counter(path.parent for path in sources(".h", ".hpp", ".cc"))
    del counts[Path(PUBLIC, "poplar")]
    assert {folder: count for folder, count in counts.items() if count > 40} == {}


def test_every_family_is_found_by_its_name():
    """The same names in the public headers, the bindings, the operations with their costs, and the kernels."""
    for family in FAMILIES:
        assert (ROOT / "pjrt_plugin/bindings" / f"{family}.cc").exists()
        assert list((ROOT / "ipu_model/kernels" / family).glob("*.cc"))
        assert (ROOT / "ipu_model/operations" / family / f"{family}_cost.cc").exists()
        public = "poplin/MatMul.hpp" if family == "product" else f"hlo/{family.title().replace('_', '')}.hpp"
        assert (ROOT / PUBLIC / public).exists()
