"""tools/build_wheels: its checks refuse what must not be shipped. `.ci/nightly wheels` runs all of it."""

import importlib.machinery
import importlib.util
import json
import re
import subprocess
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIBRARY = "jax_ipu/_ipu.cpython-312-x86_64-linux-gnu.so"
PLUGIN = "jax_ipu/libpjrt_ipu.so"
TEXTS = {
    "jax_ipu/_ipu.pyi": 1,
    "jax_ipu/py.typed": 0,
    "jax_ipu-0.1.0.dist-info/licenses/LICENSE": 1,
    "jax_ipu-0.1.0.dist-info/licenses/NOTICE": 1,
}


def load_tool():
    loader = importlib.machinery.SourceFileLoader("build_wheels", str(ROOT / "tools" / "build_wheels"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


build_wheels = load_tool()


def wheel_with(folder, files, platform="manylinux_2_35_x86_64"):
    """A wheel of files of the given sizes."""
    path = folder / f"jax_ipu-0.1.0-cp312-cp312-{platform}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, size in files.items():
            archive.writestr(name, b"\0" * size)
    return path


@pytest.mark.parametrize("libraries", [[LIBRARY], [LIBRARY, PLUGIN]])
def test_both_layouts_of_the_libraries_are_accepted(tmp_path, libraries):
    wheel = wheel_with(tmp_path, TEXTS | dict.fromkeys(libraries, 10))
    build_wheels.check_wheel(wheel, libraries)


@pytest.mark.parametrize(
    "files, platform, message",
    [
        ({LIBRARY: 10}, "linux_x86_64", "no manylinux tag"),
        ({LIBRARY: 10_000_001}, "manylinux_2_35_x86_64", "limit is 10,000,000"),
        ({LIBRARY: 10, "jax_ipu.libs/libstdc++.so.6": 10}, "manylinux_2_35_x86_64", "outside of the package"),
        ({LIBRARY: 10, "jax_ipu/libpjrt_ipu-1a2b3c.so": 10}, "manylinux_2_35_x86_64", "has the libraries"),
        ({LIBRARY: 10, "tests/project/test_tiny.py": 10}, "manylinux_2_35_x86_64", "outside of the package"),
        ({}, "manylinux_2_35_x86_64", "has the libraries"),
    ],
)
def test_wheels_that_must_not_be_shipped_are_refused(tmp_path, files, platform, message):
    wheel = wheel_with(tmp_path, TEXTS | files, platform)
    with pytest.raises(build_wheels.Failure, match=message):
        build_wheels.check_wheel(wheel, [LIBRARY])


@pytest.mark.parametrize("missing", TEXTS)
def test_wheels_without_types_or_licence_are_refused(tmp_path, missing):
    files = {LIBRARY: 10} | {name: size for name, size in TEXTS.items() if name != missing}
    with pytest.raises(build_wheels.Failure, match="lacks"):
        build_wheels.check_wheel(wheel_with(tmp_path, files), [LIBRARY])


def test_source_distributions_are_complete_and_hold_nothing_built():
    names = ["LICENSE", "NOTICE", "README.md", "CMakeLists.txt", "pyproject.toml", "tests/project/test_tiny.py"]
    complete = [f"jax_ipu-0.1.0/{name}" for name in names]
    build_wheels.check_source(complete, "it")
    with pytest.raises(build_wheels.Failure, match="lacks LICENSE"):
        build_wheels.check_source(complete[1:], "it")
    with pytest.raises(build_wheels.Failure, match=r"_ipu\.so"):
        build_wheels.check_source([*complete, "jax_ipu-0.1.0/jax_ipu/_ipu.so"], "it")


def compiled(folder, name, code, *options):
    """A shared library of this C code."""
    result = folder / name
    command = ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", result, f"-L{folder}", *options]
    subprocess.run(command, input=code, text=True, check=True)
    return result


def test_installed_libraries_must_find_each_other_and_be_stripped(tmp_path):
    plugin = "void* GetPjrtApi(void) { return 0; }"
    module = "void* GetPjrtApi(void); void* PyInit__ipu(void) { return GetPjrtApi(); }"
    compiled(tmp_path, "libpjrt_ipu.so", plugin, "-s", "-Wl,-soname,libpjrt_ipu.so")
    compiled(tmp_path, "_ipu.so", module, "-s", "-l:libpjrt_ipu.so", "-Wl,-rpath,$ORIGIN")
    build_wheels.check_libraries(tmp_path)
    compiled(tmp_path, "_ipu.so", module, "-s", "-l:libpjrt_ipu.so", f"-Wl,-rpath,{tmp_path}")
    with pytest.raises(build_wheels.Failure, match="not \\$ORIGIN alone"):
        build_wheels.check_libraries(tmp_path)
    compiled(tmp_path, "_ipu.so", module, "-s", "-l:libpjrt_ipu.so")
    with pytest.raises(build_wheels.Failure, match="not \\$ORIGIN alone"):
        build_wheels.check_libraries(tmp_path)
    compiled(tmp_path, "_ipu.so", plugin, "-s")
    with pytest.raises(build_wheels.Failure, match="export GetPjrtApi, not one"):
        build_wheels.check_libraries(tmp_path)
    compiled(tmp_path, "_ipu.so", "void* PyInit__ipu(void) { return 0; }")
    with pytest.raises(build_wheels.Failure, match="not stripped"):
        build_wheels.check_libraries(tmp_path)


def test_changes_without_a_version_are_noticed():
    assert build_wheels.has_unreleased("# Changelog\n\n## Unreleased\n\n* New.\n\n## 0.1.0 (2026-01-01)\n\n* Old.\n")
    assert not build_wheels.has_unreleased("# Changelog\n\n## Unreleased\n\n## 0.1.0 (2026-01-01)\n\n* Old.\n")
    assert not build_wheels.has_unreleased("# Changelog\n\n## 0.1.0 (2026-01-01)\n\n* Old.\n")


def test_version_is_the_same_everywhere():
    version = build_wheels.project_version()
    places = {
        "jax_ipu/version.py": r'__version__ = "(.*)"',
        "ipu_model/CMakeLists.txt": r"project\(ipu_model VERSION (\S+)",
        "pjrt_plugin/BUILD.bazel": r'VERSION = "(.*)"',
        "ipu_model/BUILD.bazel": r'VERSION = "(.*)"',
    }
    assert {re.search(pattern, (ROOT / path).read_text())[1] for path, pattern in places.items()} == {version}
    assert build_wheels.changes((ROOT / "CHANGELOG.md").read_text(), version)


def test_wheel_does_not_depend_on_what_shares_its_folder():
    """The preset of the C++ tests leaves its options in the cache of the wheel, which needs the extension module."""
    presets = json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]
    (shared,) = (preset["cacheVariables"] for preset in presets if preset["name"] == "tests")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    defined = project["tool"]["scikit-build"]["cmake"]["define"]
    assert defined == {"JAX_IPU_BUILD_PYTHON": "ON", "JAX_IPU_BUILD_TESTS": "OFF"}
    assert shared.keys() <= defined.keys()


def test_release_has_the_changes_and_checksums(tmp_path):
    changelog = "# Changelog\n\n## 1.1.0 (2030-01-02)\n\n* new\n\n## 1.0.0 (2029-01-02)\n\n* old\n"
    section = build_wheels.changes(changelog, "1.1.0")
    assert section == "## 1.1.0 (2030-01-02)\n\n* new\n"
    for version in ("1.2.0", "1.1", "1.1.0 (2030"):
        with pytest.raises(build_wheels.Failure, match="has no section"):
            build_wheels.changes(changelog, version)
    with pytest.raises(build_wheels.Failure, match="has no section"):
        build_wheels.changes("## 1.0.0 (2029-01-02)\n\n## 0.9.0 (2028-01-02)\n\n* old\n", "1.0.0")
    wheel = wheel_with(tmp_path, TEXTS)
    (tmp_path / "other.txt").write_text("not of the release")
    build_wheels.describe(tmp_path, section)
    checked = subprocess.run(["sha256sum", "-c", "SHA256SUMS"], cwd=tmp_path, capture_output=True, text=True)
    assert checked.stdout == f"{wheel.name}: OK\n" and checked.returncode == 0
    text = (tmp_path / "RELEASE.md").read_text()
    assert text.startswith(section) and wheel.name in text
