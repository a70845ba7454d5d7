"""The plugin's own declaration of the PJRT C ABI against an independent one, and a conformance run."""

import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pypjrt._abi import pjrt_0_114 as reference

from jax_ipu.plugin import library_path

ROOT = Path(__file__).parents[2]
ABI = ROOT / "pjrt_plugin/pjrt/abi"
HEADER = "".join((ABI / name).read_text() for name in ("c_api_extensions.h", "c_api.h"))

STRUCTS = {
    name: (body, last, int(size))
    for name, body, last, size in re.findall(
        r"^struct (PJRT_\w+) \{\n(.*?)^\};\nPJRT_SIZE(?:_FROM)?\(\s*\w+,(?:\s*\w+,)?\s*(\w+),\s*(\d+)\)",
        HEADER,
        re.MULTILINE | re.DOTALL,
    )
}
# Fields that the reference names after the position of an anonymous union.
UNIONS = {"PJRT_NamedValue": "_anon5", "PJRT_Buffer_MemoryLayout": "_anon2"}


def field_names(name, body):
    body = re.sub(r"  union \{.*?\};", f"  int {UNIONS.get(name)};", body, flags=re.DOTALL)
    body = body.replace("PJRT_HEAD", "size_t struct_size;\n PJRT_Extension_Base* extension_start;")
    names = []
    for declaration in body.split(";")[:-1]:
        function = re.search(r"\(\*(\w+)\)\(", declaration)
        names.append(function.group(1) if function else re.findall(r"\w+", declaration)[-1])
    return names


def field_size(name, body, field):
    """Bytes of a field as the C++ type in the header has them."""
    body = body.replace("PJRT_HEAD", "size_t struct_size;\n PJRT_Extension_Base* extension_start;")
    if field == UNIONS.get(name):
        return 8 if name == "PJRT_NamedValue" else 56
    if re.search(rf"\(\*{field}\)\(", body):
        return 8
    kind = re.search(rf"([\w:]+(?:[ ]const)?[*]*(?:[ ]const[*]*)*)\s+{field};", body).group(1)
    if "*" in kind:
        return 8
    words = (
        "PjrtEntry",
        *(f"{std}{word}_t" for std in ("", "std::") for word in ("size", "int64", "intptr", "uintptr", "uint64")),
    )
    by_type = {**dict.fromkeys(words, 8), "int": 4, "bool": 1}
    enums = ("PJRT_Error_Code", "PJRT_Buffer_Type", "PJRT_NamedValue_Type", "PJRT_HostBufferSemantics")
    if kind in (*enums, "PJRT_Buffer_MemoryLayout_Type"):
        return 4
    return by_type[kind] if kind in by_type else ctypes.sizeof(getattr(reference, kind))


def test_every_struct_was_found():
    declared = set(re.findall(r"^struct (PJRT_\w+) \{", HEADER, re.MULTILINE)) - {"PJRT_Api"}
    assert set(STRUCTS) == declared and len(declared) > 100


@pytest.mark.parametrize("name", STRUCTS)
def test_struct(name):
    body, last, size = STRUCTS[name]
    theirs = getattr(reference, name)
    names = field_names(name, body)
    assert names == [field[0] for field in theirs._fields_]
    assert last == names[-1]
    assert size == getattr(reference, f"{name}_STRUCT_SIZE")
    for field in names:
        assert field_size(name, body, field) == getattr(theirs, field).size, field


@pytest.mark.parametrize("prefix", ["PJRT_Buffer_Type_", "PJRT_NamedValue_k", "PJRT_HostBufferSemantics_k"])
def test_enum(prefix):
    body = re.search(rf"enum \w+ PJRT_ENUM \{{([^}}]*{prefix}[^}}]*)\}}", HEADER).group(1)
    ours = {name: value for value, name in enumerate(re.findall(r"(PJRT_\w+)", body))}
    theirs = {
        k: v
        for k, v in vars(reference).items()
        if k.startswith(prefix) and not k.endswith("SIZE") and isinstance(v, int)
    }
    assert ours == theirs and len(ours) >= 4


def test_function_table():
    body = re.search(r"#define PJRT_FUNCTIONS\(X\)(.*?)\n\n", HEADER, re.DOTALL).group(1)
    names = [f"PJRT_{name}" for name in re.findall(r"X\((\w+)\)", body)]
    assert names == [name for name, slot in reference.SLOT.items() if slot < 129]
    library = ctypes.CDLL(library_path())
    library.GetPjrtApi.restype = ctypes.POINTER(ctypes.c_size_t)
    table = library.GetPjrtApi()
    assert table[0] == reference.VTABLE_OFFSET + 8 * len(names) == 1072
    assert all(table[5 + slot] for slot in range(129))


def test_conformance():
    command = [sys.executable, "-P", "-m", "pypjrt.conform", library_path(), "-v"]
    environment = {**os.environ, "JAX_IPU_PYTHON": sys.executable}
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert result.returncode == 0, result.stdout + result.stderr
    assert " 0 FAIL" in result.stdout
    passed = (
        "execute.single_device",
        "compile.deserialize_and_load",
        "topology.client_free_compile",
        "abi_version.executable_proto",
        "abi_version.is_compatible_with_executable",
    )
    for check in passed:
        assert re.search(rf"pass +{check}", result.stdout), result.stdout
    missing = set(re.findall(r"^ +(?:unsupported|skip) +([\w.]+)", result.stdout, re.MULTILINE))
    documented = (ROOT / "docs" / "pjrt_api.md").read_text()
    assert missing == set(re.findall(r"`(\w+\.\w+)`(?=[^|]*\|.*\|$)", documented, re.MULTILINE))


def test_a_client_whose_interpreter_has_no_compiler_gets_an_error(tmp_path):
    """With the command of a client that has not imported the package, so that it compiles in a server."""
    (tmp_path / "jaxlib").mkdir()
    (tmp_path / "jaxlib" / "__init__.py").write_text("raise ImportError('no jaxlib here')")
    command = [sys.executable, "-m", "pypjrt.conform", library_path(), "-v"]
    environment = {
        **os.environ,
        "JAX_IPU_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(tmp_path), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]).rstrip(
            os.pathsep
        ),
    }
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert result.returncode >= 0, "the plugin crashed"
    assert "cannot start: ImportError: no jaxlib here. The IPU compiler runs in Python" in result.stdout + result.stderr
