"""tools/build_poplibs: a source that it cannot build is an error that names the file and what to do."""

import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADER = "include/poputil/TileMapping.hpp"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, (HEADER, "git clone https://github.com/graphcore/poplibs")),
        ({HEADER: ""}, ("include/poputil/DebugInfo.hpp is missing", "sdk-release-3.4")),
        (
            {
                HEADER: "",
                "include/poputil/DebugInfo.hpp": "class PoplibsOpDebugInfo;",
                "lib/popops/Rearrange.cpp": '"popops::Transpose"',
            },
            ("lib/popops/Rearrange.cpp does not have poplar_rt::SplitTranspose1D", "sdk-release-3.4"),
        ),
    ],
)
def test_sources_that_are_not_this_poplibs(
    tmp_path: pathlib.Path, files: dict[str, str], expected: tuple[str, ...]
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    command = [sys.executable, str(ROOT / "tools" / "build_poplibs"), str(tmp_path), str(tmp_path / "made")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert str(tmp_path) in done.stderr
    for part in expected:
        assert part in done.stderr
    assert not (tmp_path / "made").exists()


def test_missing_packages_are_named() -> None:
    script = (
        "import sys; sys.path.insert(0, 'tools'); from poplibs.workspace import missing_packages;"
        "print(missing_packages({'vector': 'libstdc++-dev', 'no/such/header.h': 'libnone-dev'}))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "['libnone-dev']"


def test_an_object_of_another_checkout_is_not_taken(tmp_path: pathlib.Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.cc").write_text(f"int {name}() {{ return 0; }}\n")
    script = (
        "import pathlib, sys; sys.path.insert(0, 'tools'); from poplibs.workspace import compile_object;"
        "folder = pathlib.Path(sys.argv[1]);"
        "[compile_object(['g++', str(folder / name / 'a.cc')], folder / 'a.o') for name in ('first', 'second')]"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], cwd=ROOT, check=True)
    assert b"second" in (tmp_path / "a.o").read_bytes()


@pytest.mark.skipif(shutil.which("cmake") is None, reason="needs CMake")
def test_programs_of_popsparse_are_listed(tmp_path: pathlib.Path) -> None:
    (tmp_path / "tools").mkdir()
    text = "add_tool(topk topk.cpp)\nif (TARGET popsparse)\n  add_tool(sparse sparse.cpp)\nendif()\n"
    (tmp_path / "tools" / "CMakeLists.txt").write_text(text)
    output = tmp_path / "list.txt"
    script = ROOT / "tools" / "poplibs" / "list_tests.cmake"
    command = ["cmake", f"-DPOPLIBS={tmp_path}", "-DFOLDER=tools", f"-DOUTPUT={output}", "-P", str(script)]
    subprocess.run(command, check=True)
    assert [line.split("\t")[:2] for line in output.read_text().splitlines()] == [
        ["executable", "topk"],
        ["executable", "sparse"],
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["list.txt", "tools"]
