// Descriptions of executables against the interfaces of their programs: remote buffers.
#include "runtime/executable/executable_checks.h"

#include <string>

#include "check.h"
#include "ipu_model/Stored.hpp"
#include "runtime/executable/executable.h"

namespace jax_ipu {
namespace {

using ipu_model::ProgramInterface;

// One argument and one result of six floats, both in remote buffers.
Executable Described() {
  Executable e;
  e.name = "layers";
  e.target = "ipu2:4";
  InputSpec input;
  input.tensor = {DType::kF32, {2, 3}};
  OutputSpec output;
  output.tensor = {DType::kF32, {2, 3}};
  e.inputs = {input};
  e.outputs = {output};
  return e;
}

ProgramInterface Interface() {
  ProgramInterface program;
  program.architecture = "ipu2";
  program.num_tiles = 4;
  program.remote_buffers = {{"in0", "f32", 24, true, false}, {"out0", "f32", 24, true, true}};
  program.programs = {{}};
  return program;
}

bool Says(const ProgramInterface& program, const std::string& text) {
  return FindProblem(Described(), program).find(text) != std::string::npos;
}

TEST(LinkedProgramsAreNotStored) {
  Executable e = Described();
  e.is_linked = true;
  CHECK(FindProblem(e).find("linked programs") != std::string::npos);
}

TEST(ArgumentsAndResultsMayBeRemoteBuffers) {
  ProgramInterface program = Interface();
  CHECK(FindProblem(Described(), program).empty());
  program.remote_buffers.push_back({"offloaded0", "f16", 2, true, true});
  CHECK(FindProblem(Described(), program).empty());
}

TEST(RemoteBuffersThatDoNotFitAreRefused) {
  ProgramInterface program = Interface();
  program.remote_buffers[0].is_written = true;
  CHECK(Says(program, "'in0' of its program is an argument, and is written"));
  program = Interface();
  program.remote_buffers[1].bytes = 28;
  CHECK(Says(program, "'out0' of its program has 28 bytes"));
  program = Interface();
  program.remote_buffers[0].type = "s32";
  CHECK(Says(program, "not the type and size that it declares"));
  program = Interface();
  program.remote_buffers.push_back({"in1", "f32", 24, true, false});
  CHECK(Says(program, "'in1' of its program is no argument, result or offloaded value"));
  program = Interface();
  program.remote_buffers.push_back({"in0", "f32", 24, true, false});
  CHECK(Says(program, "is no argument"));
  program = Interface();
  program.remote_buffers.pop_back();
  CHECK(Says(program, "no stream 'out0'"));
}

TEST(OnlyTheMainProgramCommunicatesAndSaysSo) {
  ProgramInterface program = Interface();
  program.programs = {{}, {}};
  program.programs[0].communicates = true;
  CHECK(Says(program, "its main program communicates otherwise than it declares"));
  Executable e = Described();
  e.communicates = true;
  CHECK(FindProblem(e, program).empty());
  program.programs[1].communicates = true;
  CHECK(FindProblem(e, program) == "a program other than the main program communicates");
}

}  // namespace
}  // namespace jax_ipu
