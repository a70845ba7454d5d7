#include "runtime/executable/stream_titles.h"

#include "check.h"
#include "runtime/executable/executable.h"

namespace jax_ipu {
namespace {

TEST(StreamsAreCalledAsTheirArgumentsAndResults) {
  Executable executable;
  executable.inputs.resize(3);
  executable.outputs.resize(2);
  executable.inputs[0].name = "params['w']";
  executable.inputs[0].aliased_output = 1;
  executable.inputs[1].name = "batch";
  executable.outputs[0].name = "result[0]";
  executable.outputs[1].name = "result[1]";
  CHECK_EQ(TitleOfStream(executable, "state0"), "params['w']");
  CHECK_EQ(TitleOfStream(executable, "in1"), "batch");
  CHECK_EQ(TitleOfStream(executable, "out0"), "result[0]");
  CHECK_EQ(TitleOfStream(executable, "state0.out"), "result[1]");
  // Without a name, or of no argument: the stream's own.
  for (const char* stream : {"in2", "state1.out", "out2", "in99999999999999999999", "in", "in1x", "seed", ""})
    CHECK_EQ(TitleOfStream(executable, stream), stream);
}

}  // namespace
}  // namespace jax_ipu
