"""Poplar programs in C++ as their authors build them: with popc, the link names of the libraries, and pkg-config."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from jax_ipu import command_line
from jax_ipu.command_line import popc

# The one that built the package.
COMPILER = os.environ.get("CXX", "c++")

CODELET = """
#include <poplar/Vertex.hpp>
#include "factor.h"
using namespace poplar;
template <typename T> class Scale : public Vertex {
public:
  InOut<Vector<T>> x;
  bool compute() { for (auto &v : x) v *= T(FACTOR); return true; }
};
template class Scale<float>;
"""
PROGRAM = """
#include <cstdio>
#include <poplar/DeviceManager.hpp>
#include <poplar/Engine.hpp>
#include <popnn/Loss.hpp>
#include <popnn/NonLinearity.hpp>
#include <popops/ScaledAdd.hpp>
#include <popops/codelets.hpp>
#include <poputil/TileMapping.hpp>
using namespace poplar;
int main() {
  for (auto &device : DeviceManager::createDeviceManager().getDevices(TargetType::IPU, 1)) {
    Graph graph(device.getTarget());
    popops::addCodelets(graph);
    graph.addCodelets("scale.gp");
    const Tensor x = graph.addVariable(FLOAT, {2, 4}, "x");
    poputil::mapTensorLinearly(graph, x);
    graph.createHostWrite("x", x);
    program::Sequence program;
    const ComputeSet scale = graph.addComputeSet("scale");
    const VertexRef vertex = graph.addVertex(scale, "Scale<float>", {{"x", x.flatten()}});
    graph.setTileMapping(vertex, 1);
    program.add(program::Execute(scale));
    popops::scaledAddTo(graph, x, x, 1.0f, program);
    program.add(program::PrintTensor("softmax", popnn::softmax(graph, x, program)));
    program.add(program::PrintTensor("largest", popnn::argMax(graph, x, program)));
    Engine engine(graph, program);
    engine.setPrintTensorStream(std::cout);
    engine.load(device);
    const float values[] = {0, 0, 0, 0, 0, 0, 0, 5};
    engine.writeTensor("x", values, values + 8);
    engine.run();
  }
}
"""


def build_and_run(folder: Path, options: str, **environment: str) -> str:
    subprocess.run(f"{COMPILER} main.cc -o main {options}", shell=True, check=True, cwd=folder)
    variables = {**os.environ, "IPU_MODEL_DEVICES": "1", **environment}
    return subprocess.run(["./main"], check=True, cwd=folder, env=variables, capture_output=True, text=True).stdout


def numbers_in(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"[\d.]+", text)]


def test_a_program_with_libraries_and_compiled_codelets(tmp_path, capsys):
    (tmp_path / "factor.h").write_text("#define FACTOR (TWICE 2)\n")
    (tmp_path / "scale.cpp").write_text(CODELET)
    (tmp_path / "main.cc").write_text(PROGRAM)
    made = ["popc", str(tmp_path / "scale.cpp"), "-o", str(tmp_path / "scale.gp"), "-D", "TWICE=2*", "--json"]
    assert command_line.main(made) == 0
    assert json.loads(capsys.readouterr().out)["classes"] == ["Scale<float>"]
    (tmp_path / "factor.h").unlink()  # the compiled file has all that the source includes

    assert command_line.main(["poplar", "--cflags", "--libs"]) == 0
    names = " ".join(f"-l{name}" for name in ("popnn", "poplin", "popops", "poputil", "poplar"))
    flags = f"{capsys.readouterr().out.strip()} {names}"
    expected = [0.25] * 4 + [0, 0, 0, 1] + [0, 3]  # the softmax of each row, and the place of the largest element
    assert numbers_in(build_and_run(tmp_path, flags)) == expected
    assert build_and_run(tmp_path, flags, IPU_MODEL_DEVICES="") == ""

    if shutil.which("pkg-config") is not None:
        folder = Path(command_line.__file__).parents[1] / "lib" / "pkgconfig"
        flags = f"$(PKG_CONFIG_PATH={folder} pkg-config --cflags --libs popnn popops poplar)"
        assert numbers_in(build_and_run(tmp_path, flags)) == expected


OLDER = """
#include <fstream>
#include <iostream>
#include <poplar/CycleCount.hpp>
#include <poplar/DeviceManager.hpp>
#include <poplar/Engine.hpp>
#include <popfloat/experimental/CastToHalf.hpp>
using namespace poplar;
using namespace poplar::program;
int main() {
  Device device = std::move(DeviceManager::createDeviceManager().getDevices(TargetType::IPU, 1).front());
  Graph graph(device);
  const Tensor x = graph.addVariable(HALF, {2}, VariableMappingMethod::LINEAR, "x");
  const Tensor y = graph.clone(x, "y");
  graph.createHostWrite("x", x);
  graph.createHostRead("y", y);
  Sequence copies(Copy(x, y), Copy(y, x));
  graph.createHostRead("cycles", cycleCount(graph, copies, 0, "timer"));
  Engine engine(graph, Sequence(copies, Copy(x, y)));
  engine.load(device);
  using namespace popfloat::experimental;
  const unsigned short given[] = {singleToHalf(1.5f), singleToHalf(-1e9f)};
  unsigned short read[2];
  unsigned cycles[2];
  engine.writeTensor("x", given);
  engine.run();
  engine.readTensor("y", read);
  engine.readTensor("cycles", cycles);
  std::cout << halfToSingle(read[0]) << " " << halfToSingle(read[1]) << " " << (cycles[0] > 0) << "\\n";
  std::ofstream graphs("graph.json"), runs("execution.json");
  serializeToJSON(graphs, engine.getGraphProfile(), false);
  serializeToJSON(runs, engine.getExecutionProfile(), true);
  printProfileSummary(std::cout, engine.getGraphProfile(), engine.getExecutionProfile());
}
"""


def test_a_program_for_older_poplar(tmp_path, capsys):
    (tmp_path / "main.cc").write_text(OLDER)
    assert command_line.main(["poplar", "--cflags", "--libs"]) == 0
    text = build_and_run(tmp_path, f"{capsys.readouterr().out.strip()} -lpopfloat -lpoplar")
    assert text.splitlines()[0] == "1.5 -65504 1"
    assert "Memory Usage:" in text
    program, runs = (json.loads((tmp_path / name).read_text()) for name in ("graph.json", "execution.json"))
    assert program["target"]["numTiles"] == len(program["memory"]["byTile"]["total"]) == 1472
    steps = runs["simulation"]["steps"]
    assert sum(s["cycles"] + s["exchangeCycles"] + s["syncCycles"] for s in steps) == runs["simulation"]["cycles"] > 0
    assert {s["type"] for s in steps} >= {"OnTileExecute"}


def test_make_finds_poplar_by_the_environment(tmp_path, capsys):
    (tmp_path / "main.cc").write_text(
        "#include <poplar/IPUModel.hpp>\n"
        'int main() { return poplar::IPUModel("ipu2").createDevice().getTarget().getNumTiles() == 1472 ? 0 : 1; }\n'
    )
    assert command_line.main(["poplar", "--env"]) == 0
    commands = capsys.readouterr().out + f"{COMPILER} -std=c++17 main.cc -o main -lpopops -lpoplar && ./main"
    variables = {n: v for n, v in os.environ.items() if n not in ("CPATH", "LIBRARY_PATH", "LD_LIBRARY_PATH")}
    subprocess.run(["sh", "-c", commands], check=True, cwd=tmp_path, env=variables)


@pytest.mark.skipif(shutil.which("cmake") is None, reason="needs CMake")
def test_cmake_finds_poplar_and_poplibs(tmp_path, capsys):
    (tmp_path / "main.cc").write_text(
        "#include <cstdio>\n#include <poplar/IPUModel.hpp>\n"
        'int main() { std::printf("%u", poplar::IPUModel("ipu2").createDevice().getTarget().getNumTiles()); }\n'
    )
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(small LANGUAGES CXX)\n"
        "find_package(poplar REQUIRED)\nfind_package(poplibs REQUIRED)\nfind_package(poplar REQUIRED)\n"
        "add_executable(small main.cc)\n"
        "target_link_libraries(small PRIVATE poplar pva poputil popops poplin popnn popfloat gcl)\n"
    )
    assert command_line.main(["poplar", "--cmake-dir"]) == 0
    folder = capsys.readouterr().out.strip()
    configure = ["cmake", "-S", ".", "-B", "made", f"-DCMAKE_PREFIX_PATH={folder}", f"-DCMAKE_CXX_COMPILER={COMPILER}"]
    for step in (configure, ["cmake", "--build", "made"]):
        subprocess.run(step, check=True, cwd=tmp_path, stdout=subprocess.DEVNULL)
    assert subprocess.run(["made/small"], check=True, cwd=tmp_path, capture_output=True, text=True).stdout == "1472"


def test_popc_has_the_options_of_the_sdk(tmp_path, capsys):
    source, output = str(tmp_path / "scale.cpp"), str(tmp_path / "scale.gp")
    (tmp_path / "scale.cpp").write_text(CODELET.replace('#include "factor.h"', ""))
    for command in (popc.main, lambda arguments: command_line.main(["popc", *arguments])):
        with pytest.raises(SystemExit) as ended:
            command(["--version"])
        assert ended.value.code == 0
        lines = capsys.readouterr().out.splitlines()
        assert re.fullmatch(r"POPLAR version \d+\.\d+\.\d+ \(.*\)", lines[0])
        assert len(lines) == 2
    assert popc.main(["-DFACTOR=2", "-g", "-O3", "--target=ipu2,ipu21", source, "-o", output]) == 0
    for flag in ("-E", "-S"):
        assert popc.main([flag, source, "-o", output]) == 2
        assert f"{flag} asks for" in capsys.readouterr().err


def test_popc_says_what_is_wrong(tmp_path, capsys):
    output = str(tmp_path / "wrong.gp")
    source = tmp_path / "wrong.cpp"
    source.write_text(
        "#include <poplar/Vertex.hpp>\nclass V : public poplar::Vertex { bool compute() { return y; } };\n"
    )
    assert command_line.main(["popc", str(source), "-o", output]) == 3
    assert f"{source}:2:" in capsys.readouterr().err
    assert command_line.main(["popc", "vertex.S", "-o", output]) == 2
    assert "assembly" in capsys.readouterr().err
    assert command_line.main(["popc", str(tmp_path / "none.cpp"), "-o", output]) == 2
    assert "there is no file" in capsys.readouterr().err
    assert not Path(output).exists()
