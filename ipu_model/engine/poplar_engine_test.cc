// poplar::Engine and the programs of poplar/Program.hpp, as a user of C++ has them, in both execution modes.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "check.h"
#include "hlo/CycleStamp.hpp"
#include "ipu_model/Model.hpp"
#include "ipu_model/Stored.hpp"
#include "poplar/CycleCount.hpp"
#include "poplar/Engine.hpp"
#include "poplar/MetadataCreation.hpp"
#include "poplar/exceptions.hpp"
#include "popops/ElementWise.hpp"
#include "testing/small_device.h"

namespace {

using namespace poplar;
using namespace poplar::program;
using ipu_model::toy::InBothModes;
using ipu_model::toy::OnTile;
using ipu_model::toy::SmallDevice;
using jax_ipu::testing::Contains;
using jax_ipu::testing::MessageOf;
using Values = std::vector<float>;

struct Recorder : StreamCallback {
  explicit Recorder(std::string* log, float value, bool ready) : log(log), value(value), ready(ready) {}
  Result prefetch(void* p) override {
    *log += 'p';
    if (!ready) return Result::NotAvailable;
    std::fill_n(static_cast<float*>(p), 2, value);
    return Result::Success;
  }
  void fetch(void* p) override {
    *log += 'f';
    std::fill_n(static_cast<float*>(p), 2, value);
  }
  void complete() override { *log += 'c'; }
  void prefetchInvalidate() override { *log += 'i'; }
  std::string* log;
  float value;
  bool ready;
};

}  // namespace

TEST(CallbacksServeStreams) {
  InBothModes([](const OptionFlags& mode) {
    const Device device = SmallDevice();
    Graph graph(device);
    const Tensor x = OnTile(graph, FLOAT, {2}, 0, "x");
    const auto in = graph.addHostToDeviceFIFO("in", FLOAT, 2),
               out = graph.addDeviceToHostFIFO("out", FLOAT, 2);
    const Program main = Repeat(2, Sequence{Copy(in, x), Copy(x, out)});
    for (const bool prefetch : {false, true}) {
      OptionFlags options = mode;
      if (prefetch) options.set("exchange.streamBufferOverlap", "none");
      Engine engine(graph, main, options);
      engine.load(device);
      std::string log;
      Values seen;
      engine.connectStreamToCallback("in", std::make_unique<Recorder>(&log, 1.0f, true));
      engine.connectStreamToCallback("out", [&](void* p) {
        log += 'o';
        seen.push_back(*static_cast<float*>(p));
      });
      engine.run();
      CHECK_EQ(log, prefetch ? "fcpocpo" : "fcofco");
      engine.run();
      // The data that was fetched ahead is of no use to the next callback.
      engine.connectStreamToCallback("in", std::make_unique<Recorder>(&log, 2.0f, false));
      CHECK_EQ(log.back(), prefetch ? 'i' : 'o');
      log.clear();
      engine.run();
      CHECK_EQ(log, prefetch ? "fcpofcpo" : "fcofco");
      CHECK((seen == Values{1, 1, 1, 1, 2, 2}));
      // Memory instead of the callback.
      float memory[] = {5, 5};
      engine.connectStream("in", memory);
      engine.run();
      CHECK_EQ(seen.back(), 5.0f);
    }
  });
}

TEST(RemoteBuffersKeepRows) {
  InBothModes([](const OptionFlags& mode) {
    const Device device = SmallDevice();
    CHECK(device.supportsRemoteBuffers());
    Graph graph(device);
    const RemoteBuffer buffer = graph.addRemoteBuffer("rows", FLOAT, 2, 3);
    const Tensor x = OnTile(graph, FLOAT, {2}, 0, "x"), two = OnTile(graph, FLOAT, {2, 2}, 1, "two");
    const Tensor at = graph.addConstant(UNSIGNED_INT, {2}, {2, 0});
    const Tensor bad = graph.addConstant(UNSIGNED_INT, {1}, 3);
    graph.setTileMapping(at, 0);
    graph.setTileMapping(bad, 0);
    const auto in = graph.addHostToDeviceFIFO("in", FLOAT, 4);
    const auto out = graph.addDeviceToHostFIFO("out", FLOAT, 4);
    const auto first = graph.addDeviceToHostFIFO("first", FLOAT, 2);
    const Sequence main{Copy(in, two.flatten()),  Copy(two, buffer, at), Copy(buffer, two, at.reverse(0)),
                        Copy(two.flatten(), out), Copy(buffer, x),       Copy(x, first)};
    Engine engine(graph, {main, Copy(x, buffer, bad)}, mode);
    Values values{1, 2, 3, 4}, result(4), row(2);
    engine.connectStream("in", values.data());
    engine.connectStream("out", result.data());
    engine.connectStream("first", row.data());
    engine.load(device);
    const float seven[] = {7, 8};
    engine.copyToRemoteBuffer(seven, "rows", 1);
    engine.run();
    CHECK((result == Values{3, 4, 1, 2}));
    CHECK((row == Values{3, 4}));
    engine.copyFromRemoteBuffer("rows", row.data(), 1);
    CHECK((row == Values{7, 8}));
    engine.copyFromRemoteBuffer("rows", row.data(), 2);
    CHECK((row == Values{1, 2}));
    CHECK(Contains(MessageOf<application_runtime_error>([&] { engine.run(1); }),
                   "row 3 of the remote buffer 'rows' of 3"));
    CHECK(Contains(MessageOf<stream_connection_error>([&] { engine.copyToRemoteBuffer(seven, "rows", 3); }),
                   "no row 3"));
    CHECK_THROWS(control_program_error, Copy(x, buffer, at));
    // Stored programs have their buffers.
    std::stringstream stored;
    compileGraph(graph, {main}).serialize(stored);
    Engine again(Executable::deserialize(stored), mode);
    again.connectStream("in", values.data());
    again.connectStream("out", result.data());
    again.connectStream("first", row.data());
    again.load(device);
    std::fill(result.begin(), result.end(), 0.0f);
    again.run();
    CHECK((result == Values{3, 4, 1, 2}));
  });
}

TEST(TransfersOfRemoteBuffersCostTheirLink) {
  const Device device = SmallDevice();
  Graph graph(device);
  const RemoteBuffer buffer = graph.addRemoteBuffer("rows", FLOAT, 20000);
  const Tensor x = OnTile(graph, FLOAT, {20000}, 0, "x");
  const auto report = ipu_model::ReportOf(compileGraph(graph, {Copy(buffer, x)}));
  // 80,000 bytes at 20 GB/s and 1.325 GHz, and a sync.
  CHECK_EQ(report.host_link_cycles, 5300u + 600u);
}

TEST(AnEndlessLoopIsEnded) {
  InBothModes([](const OptionFlags& mode) {
    const Device device = SmallDevice();
    Graph graph(device);
    const Tensor on = graph.addConstant(BOOL, {}, true), x = OnTile(graph, INT, {1}, 0, "x"),
                 one = graph.addConstant(INT, {1}, 1), y = OnTile(graph, INT, {3000}, 0, "y");
    graph.setTileMapping(on, 0);
    graph.setTileMapping(one, 0);
    Sequence count;
    popops::addInPlace(graph, x, one, count);
    // The second is too large for the code that runs loops of small operations.
    Sequence many;
    popops::addInPlace(graph, y, y, many);
    const RepeatWhileTrue small(Sequence(), on, count, "small"), large(Sequence(), on, many, "large");
    // A loop in a loop that ends by itself: the outer one does not.
    const Tensor off = graph.addConstant(BOOL, {}, false);
    graph.setTileMapping(off, 0);
    const RepeatWhileFalse outer(Sequence(), off, Sequence{RepeatWhileTrue(count, off, many)}, "outer");
    OptionFlags options = mode;
    options.set("vertexTimeLimit", "0.1");
    Engine engine(graph, {small, large, outer, Repeat(2, count)}, options);
    engine.load(device);
    for (unsigned program = 0; program < 3; ++program) {
      const std::string message = MessageOf<runtime_error>([&] { engine.run(program); });
      CHECK(Contains(message, program == 2 ? "RepeatWhileFalse" : "RepeatWhileTrue"));
      CHECK(Contains(message, "0.1 s") && Contains(message, "vertexTimeLimit"));
      CHECK(Contains(message, program == 0 ? "small" : program == 1 ? "large" : "outer"));
    }
    engine.run(3);  // the engine is as before
  });
}

TEST(AbortsAndErrorPrograms) {
  InBothModes([](const OptionFlags& mode) {
    const Device device = SmallDevice();
    Graph graph(device);
    const Tensor x = graph.addConstant(INT, {2}, {3, 4}, "x");
    graph.setTileMapping(x, 1);
    const Tensor seven = graph.addConstant(INT, {}, 7);
    graph.setTileMapping(seven, 0);
    const Switch checked =
        Switch::switchWithBoundsChecking(seven, {{1, Sequence()}, {7, PrintTensor("seven", x)}});
    Switch lacking = Switch::switchWithBoundsChecking(seven, {{1, Sequence()}});
    Engine engine(graph,
                  {Abort("over"), ErrorProgram("wrong", x), checked, lacking,
                   Sequence{Abort(), Abort("never")}, AbortOnCondition(x[0], DebugContext("limit"))},
                  mode);
    std::ostringstream text;
    engine.setPrintTensorStream(text);
    engine.load(device);
    const auto message = [&](unsigned p) {
      return MessageOf<application_runtime_error>([&] { engine.run(p); });
    };
    CHECK_EQ(message(0), "over");
    CHECK_EQ(message(1), "wrong");
    CHECK_EQ(text.str(), "wrong: [3 4]\n");
    CHECK_EQ(message(2), "");
    CHECK(Contains(text.str(), "seven: [3 4]"));
    CHECK(Contains(message(3), "there is no case"));
    CHECK_EQ(message(4), "the program aborted");
    CHECK_EQ(message(5), "the program aborted: limit");
    lacking.add(7, Sequence());
    CHECK_THROWS(control_program_error, lacking.add(7, Sequence()));
  });
}

TEST(SyncsCostCycles) {
  const Device device = SmallDevice();
  Graph graph(device);
  const auto cycles = [&](const Program& program) {
    Engine engine(graph, program);
    engine.loadAndRun(device);
    return ipu_model::LastRunCycles(engine);
  };
  CHECK_EQ(cycles(Sync(SyncType::INTERNAL)), 126u);
  CHECK_EQ(cycles(Repeat(3, Sync(SyncType::GLOBAL))), 1800u);
  CHECK(Sequence().isEmpty() && !Sequence{Sync(SyncType::EXTERNAL)}.isEmpty());
}

TEST(CycleCountsAreThoseOfRuns) {
  InBothModes([](const OptionFlags& mode) {
    for (const SyncType sync : {SyncType::INTERNAL, SyncType::EXTERNAL}) {
      const Device device = SmallDevice();
      Graph graph(device);
      const Tensor x = OnTile(graph, FLOAT, {64}, 2, "x");
      Sequence main;
      popops::mulInPlace(graph, x, x, main);
      Engine alone(graph, main, mode);
      alone.loadAndRun(device);
      const std::uint64_t inside = ipu_model::LastRunCycles(alone);
      graph.createHostRead("cycles", cycleCount(graph, main, 1, sync));
      Engine engine(graph, Repeat(3, main), mode);
      engine.loadAndRun(device);
      unsigned cycles[2] = {9, 9};
      engine.readTensor("cycles", cycles, cycles + 2);
      const unsigned extra = sync == SyncType::EXTERNAL ? device.getTarget().getGlobalSyncCycles() : 0;
      CHECK_EQ(cycles[0] - extra, inside + hlo::cyclesBetweenStamps(device.getTarget()));
      CHECK_EQ(cycles[1], 0u);
    }
  });
}

TEST(ReplicasRunTogether) {
  InBothModes([](const OptionFlags& mode) {
    const Device device = SmallDevice(3);
    Graph graph(device, replication_factor(3));
    CHECK_EQ(graph.getTarget().getNumTiles(), 4u);
    const Tensor x = OnTile(graph, FLOAT, {2}, 0, "x"), y = OnTile(graph, FLOAT, {2}, 1, "y");
    graph.createHostWrite("x", x);
    graph.createHostRead("y", y);
    const Sequence main{AssumeEqualAcrossReplicas(y), CrossReplicaCopy(x, y, {{0, 1}, {1, 2}, {2, 0}})};
    Engine engine(graph, main, mode);
    engine.load(device);
    for (unsigned r = 0; r < 3; ++r) {
      const Values values{static_cast<float>(r), 10.0f * static_cast<float>(r)};
      engine.writeTensor("x", r, values.data(), values.data() + 2);
    }
    engine.run();
    for (unsigned r = 0; r < 3; ++r) {
      Values values(2);
      engine.readTensor("y", r, values.data(), values.data() + 2);
      const auto from = static_cast<float>((r + 2) % 3);
      CHECK((values == Values{from, 10 * from}));
    }
    Values two(2);
    CHECK_THROWS(stream_connection_error, engine.readTensor("y", 3, two.data(), two.data() + 2));
    CHECK(Contains(MessageOf<poplar_error>([&] { engine.load(SmallDevice()); }), "3 times 4 tiles"));
    CHECK_THROWS(control_program_error, CrossReplicaCopy(x, y, {{0, 1}, {1, 1}, {2, 0}}));
    CHECK_THROWS(control_program_error, CrossReplicaCopy(x, y, {{0, 1}}));
  });
}

TEST(OptionsAreChecked) {
  const Device device = SmallDevice();
  Graph graph(device);
  const Executable executable = compileGraph(graph, {Sequence()}, {{"debug.instrument", "true"}});
  CHECK(Contains(MessageOf<invalid_option>([&] { Engine(executable, {{"debug.instrumnt", "true"}}); }),
                 "the nearest are: debug.instrument,"));
  // Of programs of others; whole numbers may be hexadecimal.
  Engine(executable, {{"debug.loweredVarDumpFile", "vars.capnp"},
                      {"opt.maxCopyMergeSize", "8388608"},
                      {"target.supervisorStackSizeInBytes", "0x80"},
                      {"target.workerStackSizeInBytes", "0x200"}});
  CHECK(Contains(
      MessageOf<invalid_option>([&] { Engine(executable, {{"target.workerStackSizeInBytes", "0x2g"}}); }),
      "cannot be '0x2g'"));
  CHECK(Contains(MessageOf<invalid_option>([&] { Engine(executable, {{"debug.instrument", "yes"}}); }),
                 "cannot be 'yes'"));
  OptionFlags flags;
  readJSON(R"({"a": "b\"c", "n": -1.5, "t": true})", flags);
  CHECK_EQ(flags.at("a"), "b\"c");
  CHECK_EQ(flags.at("n"), "-1.5");
  CHECK_EQ(flags.at("t"), "true");
  for (const char* bad : {"", "{", "{\"a\"}", "{\"a\": x}", "{\"a\": inf}", "{\"a\": \"b}", "{} x", "[1]"})
    CHECK_THROWS(parse_error, readJSON(std::string(bad), flags));
  std::ostringstream written;
  flags.set("control", "\\\n");
  written << flags;
  OptionFlags read;
  readJSON(written.str(), read);
  CHECK(std::equal(flags.begin(), flags.end(), read.begin(), read.end()));
  setenv("POPLAR_ENGINE_OPTIONS", "{\"execution\": \"none\"}", 1);
  CHECK_THROWS(invalid_option, Engine(executable, {}));
  Engine(executable, {{"replicas", "one"}});  // of a runtime, which reads the variable itself
  unsetenv("POPLAR_ENGINE_OPTIONS");
}

TEST(ConstantsOfHalfBits) {
  const Device device = SmallDevice();
  Graph graph(device);
  const Tensor half = graph.addConstantHalf(HALF, {2}, 0x3c00);
  graph.setTileMapping(half, 0);
  graph.createHostRead("half", half);
  Engine engine(graph, Sequence());
  engine.load(device);
  std::uint16_t bits[2] = {};
  engine.readTensor("half", bits, bits + 2);
  CHECK_EQ(bits[1], 0x3c00);
  CHECK_THROWS(poplar_error, graph.addConstantHalf(FLOAT, {}, std::uint16_t{0}));
}

TEST(QuartersHaveMetadataOnTheHost) {
  Graph graph(SmallDevice());
  using Format = QuarterMetadata::Format;
  const Tensor in =
      graph.addVariable(QUARTER, createVariableMetadataTensor(graph, Format::F143, 0), {3}, "in");
  const Tensor scale = graph.addConstant(SIGNED_CHAR, {}, static_cast<signed char>(-3));
  graph.setTileMapping(in, 1);
  graph.setTileMapping(scale, 0);
  Sequence prog;
  const Tensor made = createVariableMetadataTensor(graph, Format::F152, scale, prog);
  const Tensor fixed =
      graph.addVariable(QUARTER, createConstantMetadataTensor(graph, Format::F143, 5), {1}, "fixed");
  graph.setTileMapping(fixed, 2);
  graph.createHostWrite("in", in);
  graph.createHostWrite("fixed", fixed);
  graph.createHostRead("out", in);
  graph.createHostRead("fixed", fixed);
  graph.createHostRead("made", made);
  CHECK_THROWS(poplar_error, createVariableMetadataTensor(graph, Format::F152, in, prog));
  InBothModes([&](const OptionFlags& mode) {
    Engine engine(graph, prog, mode);
    engine.load(SmallDevice());
    // The host's memory may be longer than the tensor.
    const std::vector<unsigned char> bytes = {1, 2, 3, 4, 5};
    engine.writeTensor("in", QuarterMetadata(Format::F152, 7), bytes.data(), bytes.data() + bytes.size());
    engine.run();
    QuarterMetadata metadata;
    std::vector<unsigned char> out(3);
    engine.readTensor("out", metadata, out.data(), out.data() + out.size());
    CHECK((metadata == QuarterMetadata(Format::F152, 7)));
    CHECK_EQ(metadata.toString(), "{F152, 7}");
    CHECK((out == std::vector<unsigned char>{1, 2, 3}));
    engine.readTensor("fixed", metadata, out.data(), out.data() + 1);
    CHECK((metadata == QuarterMetadata(Format::F143, 5)));
    unsigned char bits = 0;
    engine.readTensor("made", &bits, &bits + 1);
    CHECK((QuarterMetadata::fromBinary(bits) == QuarterMetadata(Format::F152, -3)));
    CHECK_THROWS(stream_connection_error,
                 engine.writeTensor("fixed", QuarterMetadata(Format::F143, 5), out.data(), out.data() + 1));
    CHECK_THROWS(stream_connection_error, engine.writeTensor("in", bytes.data(), bytes.data() + 2));
  });
}

TEST(CodeletsCompiledAheadOfTime) {
  const std::string folder = (std::filesystem::temp_directory_path() / "ipu_model_popc_test").string();
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/factor.h") << "constexpr float kFactor = FACTOR;\n";
  std::ofstream(folder + "/scale.cpp")
      << "#include <poplar/Vertex.hpp>\n#include \"factor.h\"\n"
         "struct Scale : poplar::Vertex {\n"
         "  poplar::Input<poplar::Vector<float>> in;\n"
         "  poplar::Output<poplar::Vector<float>> out;\n"
         "  bool compute() {\n"
         "    for (unsigned i = 0; i < in.size(); ++i) out[i] = kFactor * in[i];\n"
         "    return true;\n  }\n};\n";
  const std::string file = folder + "/scale.gp";
  const auto classes = ipu_model::CompileCodelets({folder + "/scale.cpp"}, "-DFACTOR=3", file);
  CHECK((classes == std::vector<std::string>{"Scale"}));
  // The file has all that it needs.
  std::filesystem::remove(folder + "/factor.h");
  std::filesystem::remove(folder + "/scale.cpp");
  const Device device = SmallDevice();
  Graph graph(device);
  graph.addCodelets(file);
  const Tensor x = OnTile(graph, FLOAT, {2}, 0, "x");
  const ComputeSet set = graph.addComputeSet("scale");
  // In place: one vertex reads and writes the same elements.
  graph.setTileMapping(graph.addVertex(set, "Scale", {{"in", x}, {"out", x}}), 1);
  std::ostringstream vertices;
  graph.outputVertexGraph(vertices, {Sequence{Execute(set), Execute(set)}});
  CHECK_EQ(vertices.str(),
           "digraph vertex_graph {\n"
           "  cs0_0 [shape=box,label=\"Scale of scale, tile 1\"];\n"
           "  v0 [label=\"x\"];\n"
           "  v0 -> cs0_0 [label=\"in\"];\n"
           "  cs0_0 -> v0 [label=\"out\"];\n"
           "}\n");
  graph.createHostWrite("x", x);
  graph.createHostRead("x", x);
  InBothModes([&](const OptionFlags& mode) {
    Engine engine(graph, Execute(set), mode);
    engine.load(device);
    Values values{1, 2};
    engine.writeTensor("x", ArrayRef(values));
    engine.run();
    engine.readTensor("x", values.data(), values.data() + 2);
    CHECK((values == Values{3, 6}));
  });
  std::ofstream(file) << "another format";
  Graph other(device);
  CHECK(Contains(MessageOf<poplar_error>([&] { other.addCodelets(file); }), "jax-ipu popc"));
  std::filesystem::remove_all(folder);
}
