// Executables with damaged content and a correct checksum must be refused, or run without a crash. Meant for
// the address sanitizer. With arguments FOLDER ROUNDS SEED it mutates the files of a folder, as written by
// fuzz/make_corpus.py: this replaces a fuzzer where clang is not available.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "check.h"
#include "fuzz/run_executable.h"
#include "hlo/Index.hpp"
#include "ipu_model/Stored.hpp"
#include "poplar/Engine.hpp"
#include "poplar/Graph.hpp"
#include "poplar/Program.hpp"
#include "poplin/MatMul.hpp"
#include "poputil/TileMapping.hpp"
#include "runtime/executable/executable.h"

namespace jax_ipu {
namespace {

using fuzz::Outcome;
using poplar::Tensor;
using poplar::program::Copy;
using poplar::program::Sequence;

// Two states that may be swapped, a kept and a streamed argument, a forwarded and a streamed result, a seed,
// a loop, a branch, a function, and a host function that is not registered.
Executable Step() {
  constexpr std::size_t kRows = 3, kColumns = 4;
  poplar::Graph graph(poplar::Target::createIPUTarget(1, 4, "ipu2"));
  const auto variable = [&](const poplar::Type& type, const std::vector<std::size_t>& shape) {
    const Tensor t = graph.addVariable(type, shape, "v");
    poputil::mapTensorLinearly(graph, t);
    return t;
  };
  const auto in = [&](const std::string& name, const Tensor& t) {
    return Copy(graph.addHostToDeviceFIFO(name, t.elementType(), t.numElements()), t);
  };
  const auto out = [&](const Tensor& t, const std::string& name) {
    return Copy(t, graph.addDeviceToHostFIFO(name, t.elementType(), t.numElements()));
  };
  const Tensor a = variable(poplar::FLOAT, {kRows, kColumns}), b = variable(poplar::FLOAT, {kRows, kColumns});
  const Tensor kept = variable(poplar::FLOAT, {1, kColumns, kColumns}), rows = variable(poplar::INT, {2, 1});
  const Tensor seed = variable(poplar::UNSIGNED_LONGLONG, {2}),
               aside = variable(poplar::FLOAT, {kRows, kColumns});
  std::vector<Sequence> programs(7);
  Sequence& main = programs[0];
  main.add(in("in3", rows));
  main.add(in("seed", seed));
  const Tensor product = poplin::matMulGrouped(graph, a.expand({0}), kept, main, poplar::FLOAT);
  hlo::WindowDims dims;
  dims.offset_dims = {1};
  dims.collapsed_dims = {0};
  dims.start_index_map = {0};
  dims.index_vector_dim = 1;
  const Tensor picked = hlo::gather(graph, product[0], rows, dims, {1, kColumns}, main);
  const auto function =
      graph.addFunction(Copy(b.slice(1, kRows, 0), a.slice(0, kRows - 1, 0), false, "shift"));
  main.add(poplar::program::Repeat(2, poplar::program::Call(function)));
  main.add(poplar::program::If(rows[0][0], Copy(product[0], b), Sequence()));
  main.add(out(picked, "out2"));
  programs[1].add(in("state0", a));
  programs[2].add(out(a, "state0.out"));
  programs[3].add(in("state1", b));
  programs[4].add(out(b, "state1.out"));
  programs[5].add(in("state2", kept));
  for (const auto& [from, to] : {std::pair(a, aside), std::pair(b, a), std::pair(aside, b)})
    programs[6].add(Copy(from, to));

  Executable e;
  e.name = "step";
  e.target = "ipu2:4";
  e.poplar_executable =
      ipu_model::SerialiseContent(poplar::compileGraph(graph, {programs.begin(), programs.end()}, "step"));
  e.inputs.resize(4);
  for (int i = 0; i < 2; ++i) {
    InputSpec& state = e.inputs[static_cast<std::size_t>(i)];
    state.tensor = {DType::kF32, {kRows, kColumns}};
    state.donated = true;
    state.aliased_output = i;
    state.write_program = 1 + 2 * i;
    state.read_program = 2 + 2 * i;
  }
  e.inputs[1].swap_with = 0;
  e.inputs[1].swap_program = 6;
  e.inputs[2].tensor = {DType::kF32, {kColumns, kColumns}};
  e.inputs[2].write_program = 5;
  e.inputs[3].tensor = {DType::kS32, {2, 1}};
  e.outputs.resize(4);
  e.outputs[0].tensor = e.outputs[1].tensor = e.inputs[0].tensor;
  e.outputs[0].aliased_input = 0;
  e.outputs[1].aliased_input = 1;
  e.outputs[2].tensor = {DType::kF32, {2, kColumns}};
  e.outputs[3].tensor = e.inputs[3].tensor;
  e.outputs[3].forwarded_input = 3;
  e.mlir = "module {}";
  return e;
}

std::string Content(const Executable& executable) { return fuzz::ContentOf(executable.Serialize()); }

// One to three changes: a bit, a small or any byte, eight bytes of an unusual number, or a piece left out,
// doubled or moved.
std::string Mutate(const std::string& content, std::mt19937* random) {
  std::string damaged = content;
  const auto position = [&] { return static_cast<std::size_t>((*random)()) % damaged.size(); };
  for (unsigned changes = 1 + (*random)() % 3; changes > 0 && damaged.size() > 16; --changes) {
    const std::size_t at = position();
    switch ((*random)() % 8) {
      case 0:
      case 1:
        damaged[at] = static_cast<char>(damaged[at] ^ (1 << ((*random)() % 8)));
        break;
      case 2:
      case 3:
        damaged[at] = static_cast<char>((*random)() % 8);
        break;
      case 4:
        damaged[at] = static_cast<char>((*random)());
        break;
      case 5: {
        const std::int64_t numbers[] = {-1, 0, 1, 2, 1 << 16, std::int64_t{1} << 31, std::int64_t{1} << 62};
        const std::int64_t number = numbers[(*random)() % 7];
        if (damaged.size() - at >= sizeof number) std::memcpy(&damaged[at], &number, sizeof number);
        break;
      }
      case 6:
        damaged.erase(at, 1 + (*random)() % 8);
        break;
      default:
        damaged.insert(position(), damaged.substr(at, 1 + (*random)() % 16));
    }
  }
  return damaged;
}

struct Tally {
  int refused = 0, failed = 0, completed = 0;
};
Tally Damage(const std::string& content, int rounds, unsigned seed) {
  std::mt19937 random(seed);
  Tally tally;
  for (int round = 0; round < rounds; ++round) {
    const std::string damaged = Mutate(content, &random);
    // Written before the run: an input that ends the process can be inspected afterwards.
    if (const char* path = std::getenv("JAX_IPU_FUZZ_LAST")) {
      std::ofstream(path, std::ios::binary)
          .write(damaged.data(), static_cast<std::streamsize>(damaged.size()));
    }
    switch (fuzz::RunContent(damaged)) {
      case Outcome::kRefused:
        ++tally.refused;
        break;
      case Outcome::kFailed:
        ++tally.failed;
        break;
      case Outcome::kCompleted:
        ++tally.completed;
        break;
      case Outcome::kTooLarge:
        break;
    }
  }
  return tally;
}

TEST(TheUndamagedExecutableRuns) { CHECK(fuzz::RunContent(Content(Step())) == Outcome::kCompleted); }

TEST(DamageNeverCrashes) {
  const Tally tally = Damage(Content(Step()), 3000, 1);
  std::printf("%d refused, %d failed, %d completed\n", tally.refused, tally.failed, tally.completed);
  CHECK(tally.refused > 1000 && tally.completed > 100);
}

// Descriptions that are valid in themselves, but describe another program.
TEST(DescriptionsOfOtherProgramsAreRefused) {
  const auto refused = [](Executable e) { return fuzz::RunContent(Content(e)) == Outcome::kFailed; };
  Executable larger = Step();
  larger.outputs[2].tensor.shape = {1 << 10, 4};
  CHECK(refused(larger));
  Executable smaller = Step();
  smaller.inputs[2].tensor.shape = {1};
  CHECK(refused(smaller));
  Executable type = Step();
  type.inputs[3].tensor.type = type.outputs[3].tensor.type = DType::kF32;
  CHECK(refused(type));
  Executable replicas = Step();
  replicas.num_replicas = 2;
  CHECK(refused(replicas));
  Executable target = Step();
  target.target = "ipu2:8";
  CHECK(refused(target));
  // Program numbers that are replaced by others.
  for (int program = 0; program < 9; ++program) {
    for (int field = 0; field < 6; ++field) {
      Executable e = Step();
      int* const fields[] = {
          &e.main_program,           &e.inputs[0].write_program, &e.inputs[0].read_program,
          &e.inputs[1].swap_program, &e.inputs[2].write_program, &e.inputs[1].read_program};
      const bool same = *fields[field] == program;
      *fields[field] = program;
      // The program that swaps states has no streams, so it is accepted in any place.
      if (program != 6) CHECK_EQ(refused(e), !same);
    }
  }
  Executable callback = Step();
  callback.host_callbacks = {{7, {4}, {4}}};
  CHECK(refused(callback));
  Executable streamed = Step();
  streamed.inputs[2].write_program = -1;
  CHECK(refused(streamed));
  Executable unused = Step();
  unused.inputs[3].used = false;
  CHECK(refused(unused));
}

int RunFolder(const char* folder, int rounds, unsigned seed) {
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    std::ifstream in(file.path(), std::ios::binary);
    const std::string content{std::istreambuf_iterator<char>(in), {}};
    const bool ran = fuzz::RunContent(content) == Outcome::kCompleted;
    const Tally tally = Damage(content, rounds, seed);
    std::printf("%s: %s; %d refused, %d failed, %d completed\n", file.path().filename().c_str(),
                ran ? "runs" : "does not run", tally.refused, tally.failed, tally.completed);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace jax_ipu

int main(int argc, char** argv) {
  if (argc == 4)
    return jax_ipu::RunFolder(argv[1], std::atoi(argv[2]), static_cast<unsigned>(std::atoi(argv[3])));
  return jax_ipu::testing::RunTests();
}
