// Reads the serialised form of a compiled program; serialised_program_writer.cc writes it.
#include "engine/stored/serialised_program.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "core/graph/codelet_file.h"
#include "core/mapping/strides.h"
#include "core/operation/replica_operation.h"
#include "core/operation/serialise.h"
#include "core/program/execute.h"
#include "core/target/target_model.h"
#include "engine/program/checks.h"
#include "engine/program/field_io.h"
#include "engine/report/device_report.h"
#include "ipu_model/Stored.hpp"
#include "poplar/exceptions.hpp"

namespace ipu_model {

namespace {

constexpr std::string_view kMagic = "IPUMODEL";

class ProgramReader {
 public:
  ProgramReader(Reader* reader, CompiledProgram* program) : reader_(reader), program_(program) {}

  void Variables() {
    const std::size_t n = reader_->ReadLength();
    for (std::size_t i = 0; i < n; ++i) {
      Variable v;
      v.type = reader_->Read<DType>();
      v.shape = reader_->Read<Shape>();
      v.num_elements = CheckedElements(v.shape);
      v.name = reader_->Read<std::string>();
      v.mapping = reader_->ReadMapping(v.num_elements);
      if (reader_->Read<bool>()) {
        const std::string_view bytes = reader_->ReadBytes();
        if (bytes.size() != static_cast<std::size_t>(v.num_elements) * SizeOf(v.type)) {
          reader_->Fail("the constant '" + v.name + "' does not have the size of its shape");
        }
        v.constant = std::make_shared<const std::vector<unsigned char>>(bytes.begin(), bytes.end());
      }
      v.is_replica_index = reader_->Read<bool>();
      if (v.is_replica_index && (v.constant == nullptr || v.type != DType::kU32 || v.num_elements != 1)) {
        reader_->Fail("the replica index '" + v.name + "' is not a constant of one unsigned integer");
      }
      program_->variables.push_back(std::move(v));
    }
  }

  void Streams() {
    const std::size_t n = reader_->ReadLength();
    for (std::size_t i = 0; i < n; ++i) {
      Stream s;
      s.name = reader_->Read<std::string>();
      s.type = reader_->Read<DType>();
      s.num_elements = reader_->ReadInteger(0, kMaxElements);
      s.host_to_device = reader_->Read<bool>();
      s.remote = reader_->Read<bool>();
      s.broadcast = reader_->Read<bool>();
      program_->streams.push_back(std::move(s));
    }
  }

  void HostFunctions() {
    const std::size_t n = reader_->ReadLength();
    for (std::size_t i = 0; i < n; ++i) {
      HostFunction f;
      f.name = reader_->Read<std::string>();
      f.inputs = StreamList(false);
      f.outputs = StreamList(true);
      f.remote_buffer = static_cast<int>(
          reader_->ReadInteger(-1, static_cast<std::int64_t>(program_->remote_buffers.size()) - 1));
      if (f.remote_buffer >= 0) CheckMovesRows(f);
      program_->host_functions.push_back(std::move(f));
    }
  }

  // Before HostFunctions.
  void RemoteBuffers() {
    for (std::size_t n = reader_->ReadLength(); n > 0; --n) {
      RemoteBuffer b;
      b.name = reader_->Read<std::string>();
      b.type = reader_->Read<DType>();
      b.num_elements = reader_->ReadInteger(0, kMaxElements);
      b.rows = reader_->ReadInteger(0, kMaxElements);
      if (b.rows > 0 && b.num_elements > kMaxElements / b.rows) reader_->Fail("a remote buffer is too large");
      program_->remote_buffers.push_back(std::move(b));
    }
  }

  // Before Programs.
  void Codelets(bool compile) {
    std::vector<CodeletSource> sources;
    for (std::size_t n = reader_->ReadLength(); n > 0; --n) sources.push_back(ReadSource(reader_));
    for (const CodeletSource& source : sources) {
      // What this process has compiled itself may run.
      auto library = compile ? CodeletLibrary::Compile(source) : CodeletLibrary::FindCompiled(source);
      if (library == nullptr) {
        reader_->Fail("it has codelets (" + source.name +
                      "), whose source would be compiled and run with the rights of this process; if you "
                      "trust it, load it with Executable::deserialize and the option codelets = compile, or "
                      "set the environment variable IPU_MODEL_CODELETS to compile");
      }
      program_->codelets.push_back(std::move(library));
    }
  }

  // After Programs.
  void HostHandles() {
    for (std::size_t n = reader_->ReadLength(); n > 0; --n) {
      HostHandle handle;
      handle.name = reader_->Read<std::string>();
      handle.write = reader_->Read<bool>();
      handle.stream = reader_->Read<std::uint32_t>();
      handle.program = reader_->Read<std::uint32_t>();
      handle.initial = reader_->Read<std::string>();
      if (handle.stream >= program_->streams.size() || handle.program >= program_->programs.size() ||
          program_->streams[handle.stream].host_to_device != handle.write) {
        reader_->Fail("a host handle has a stream or a program that does not exist");
      }
      const Stream& stream = program_->streams[handle.stream];
      if (!handle.initial.empty() &&
          (!handle.write ||
           handle.initial.size() != static_cast<std::size_t>(stream.num_elements) * SizeOf(stream.type))) {
        reader_->Fail("the initial value '" + handle.name + "' does not have the size of its variable");
      }
      program_->host_handles.push_back(std::move(handle));
    }
    if (program_->host_handles.size() >= std::max<std::size_t>(program_->programs.size(), 1) &&
        !program_->host_handles.empty()) {
      reader_->Fail("there are only programs of host handles");
    }
  }

  void Programs() {
    const std::size_t n = reader_->ReadLength();
    for (std::size_t i = 0; i < n; ++i) nodes_.push_back(Node());
    program_->programs = Roots();
    program_->functions = Roots();
    for (const auto& node : nodes_) {
      if (node->kind == ProgramKind::kCall && node->function >= program_->functions.size()) {
        reader_->Fail("a call of a function that does not exist");
      }
      if (node->kind == ProgramKind::kHostCall && node->function >= program_->host_functions.size()) {
        reader_->Fail("a call of a host function that does not exist");
      }
    }
    CheckCollectives();
  }

 private:
  static constexpr std::int64_t kMaxElements = std::int64_t{1} << 48;
  // Nodes own their children: destroying them takes this much stack.
  static constexpr int kMaxDepth = 4000;

  // Replicas meet in the variable of a collective's result, whatever path each took: two collectives with one
  // variable would take each other's tensors.
  void CheckCollectives() {
    std::unordered_map<VariableId, const ProgramNode*> collective_of;
    for (const auto& node : nodes_) {
      if (dynamic_cast<const ReplicaOperation*>(node->operation.get()) == nullptr) continue;
      for (const View& view : node->operation->outputs) {
        if (collective_of.emplace(view.variable, node.get()).first->second != node.get())
          reader_->Fail("two collective operations have one result");
      }
    }
  }

  // Its operands are [indices of rows], and rows of its buffer.
  void CheckMovesRows(const HostFunction& f) {
    const RemoteBuffer& buffer = program_->remote_buffers[static_cast<std::size_t>(f.remote_buffer)];
    const bool read = f.outputs.size() == 1;
    const std::size_t indices = f.inputs.size() - (read ? 0 : 1);
    bool fits = f.outputs.size() <= 1 && f.inputs.size() <= 2 && indices <= 1;
    if (fits) {
      const Stream& rows = program_->streams[read ? f.outputs[0] : f.inputs.back()];
      std::int64_t number = 1;
      if (indices == 1) {
        const Stream& index = program_->streams[f.inputs[0]];
        number = index.num_elements;
        fits = SizeOf(index.type) == 4;
      }
      fits = fits && rows.type == buffer.type &&
             (buffer.num_elements == 0 || rows.num_elements / buffer.num_elements == number) &&
             rows.num_elements == number * buffer.num_elements;
    }
    if (!fits) reader_->Fail("the operands of '" + f.name + "' do not fit its remote buffer");
  }

  std::vector<std::uint32_t> StreamList(bool host_to_device) {
    auto streams = reader_->Read<std::vector<std::uint32_t>>();
    for (const std::uint32_t s : streams) {
      if (s >= program_->streams.size() || program_->streams[s].host_to_device != host_to_device) {
        reader_->Fail("a host function has a stream that does not exist");
      }
    }
    return streams;
  }

  std::int64_t CheckedElements(const Shape& shape) {
    if (shape.size() > static_cast<std::size_t>(kMaxRank))
      reader_->Fail("a variable has too many dimensions");
    // Where one dimension is 0, strides are still computed from the others, so these must not overflow.
    std::int64_t n = 1;
    bool empty = false;
    for (std::int64_t d : shape) {
      if (d < 0 || (d > 0 && n > kMaxElements / d)) reader_->Fail("a variable has an invalid shape");
      n *= std::max<std::int64_t>(d, 1);
      empty = empty || d == 0;
    }
    return empty ? 0 : n;
  }

  // Returns the number of elements.
  std::int64_t CheckView(const View& view) {
    if (view.variable >= program_->variables.size())
      reader_->Fail("a view of a variable that does not exist");
    const Variable& variable = program_->variables[view.variable];
    if (SizeOf(view.type) != SizeOf(variable.type))
      reader_->Fail("a view has elements of a different size than its variable");
    const std::int64_t elements = CheckedElements(view.shape);
    // Offsets are computed along every dimension even of views without elements, so strides have a bound
    // there, too.
    for (std::size_t d = 0; d < view.shape.size(); ++d) {
      const std::int64_t most =
          elements == 0 ? kMaxElements / std::max<std::int64_t>(view.shape[d], 1) : kMaxElements;
      if (view.strides[d] < -most || view.strides[d] > most) reader_->Fail("a view has an invalid stride");
    }
    if (view.offset < -kMaxElements || view.offset > kMaxElements)
      reader_->Fail("a view has an invalid offset");
    if (elements == 0) return 0;
    double min = static_cast<double>(view.offset), max = min;
    for (std::size_t d = 0; d < view.shape.size(); ++d) {
      const double span = static_cast<double>(view.shape[d] - 1) * static_cast<double>(view.strides[d]);
      (span < 0 ? min : max) += span;
    }
    if (min < 0 || max >= static_cast<double>(variable.num_elements)) {
      reader_->Fail("a view extends beyond the variable '" + variable.name + "'");
    }
    return elements;
  }
  poplar::PrintTensorFmt PrintFormat() {
    poplar::PrintTensorFmt format;
    for (unsigned* number :
         {&format.summariseThreshold, &format.edgeItems, &format.maxLineWidth, &format.digits})
      *number = reader_->Read<std::uint32_t>();
    const auto notation = reader_->Read<std::uint32_t>();
    const auto characters = reader_->Read<std::string>();
    if (notation > static_cast<std::uint32_t>(poplar::PrintTensorFmt::FloatFormat::None) ||
        characters.size() != 3)
      reader_->Fail("a printed tensor has an unknown format");
    format.floatFormat = static_cast<poplar::PrintTensorFmt::FloatFormat>(notation);
    format.separator = characters[0];
    format.openBracket = characters[1];
    format.closeBracket = characters[2];
    return format;
  }
  // Views can repeat elements, so their number has a limit of its own: sizes of all of them in bytes are
  // added without a check.
  std::vector<View> Views() {
    auto views = reader_->Read<std::vector<View>>();
    std::int64_t elements = 0;
    for (const View& v : views) {
      elements += CheckView(v);
      if (elements > kMaxElements) reader_->Fail("views have too many elements");
    }
    return views;
  }

  std::shared_ptr<ProgramNode> Node() {
    auto node = std::make_shared<ProgramNode>();
    node->kind = reader_->Read<ProgramKind>();
    node->name = reader_->Read<std::string>();
    int depth = 0;
    for (std::uint32_t child : reader_->Read<std::vector<std::uint32_t>>()) {
      // Children are written first, so there are no cycles.
      if (child >= nodes_.size()) reader_->Fail("a program contains a program that does not exist");
      node->children.push_back(nodes_[child]);
      depth = std::max(depth, depths_[child] + 1);
    }
    if (depth > kMaxDepth) reader_->Fail("programs are nested too deeply");
    depths_.push_back(depth);
    if (node->kind == ProgramKind::kOperation) {
      const auto kind = reader_->Read<std::string>();
      const auto entry = OperationRegistry().find(kind);
      if (entry == OperationRegistry().end()) reader_->Fail("there is no operation '" + kind + "'");
      auto name = reader_->Read<std::string>(), scope = reader_->Read<std::string>();
      std::vector<View> inputs = Views(), outputs = Views();
      std::unique_ptr<Operation> operation = entry->second(*reader_);
      operation->name = std::move(name);
      operation->scope = std::move(scope);
      operation->inputs = std::move(inputs);
      operation->outputs = std::move(outputs);
      if (auto* const execute = dynamic_cast<Execute*>(operation.get())) execute->Attach(program_->codelets);
      if (!operation->OperandsFit(program_->target.getNumTiles())) {
        reader_->Fail("the operands of '" + operation->name + "' do not fit the operation " + kind);
      }
      node->operation = std::move(operation);
    }
    node->tensor = Views();
    node->shape = reader_->Read<Shape>();
    node->stream = reader_->Read<std::uint32_t>();
    node->function = reader_->Read<std::uint32_t>();
    node->count = static_cast<std::uint64_t>(reader_->Read<std::int64_t>());
    node->cases = reader_->Read<std::vector<std::int32_t>>();
    node->text = reader_->Read<std::string>();
    if (node->kind == ProgramKind::kPrint) node->format = PrintFormat();
    CheckNode(*node);
    return node;
  }

  void CheckNode(const ProgramNode& node) {
    std::size_t children = 0;
    bool scalar = false;
    std::int64_t elements = 0;
    for (const View& v : node.tensor) elements += v.num_elements();
    switch (node.kind) {
      case ProgramKind::kSequence:
        return;
      case ProgramKind::kRepeat:
        children = 1;
        break;
      case ProgramKind::kRepeatWhileTrue:
      case ProgramKind::kRepeatWhileFalse:
      case ProgramKind::kIf:
        children = 2;
        scalar = true;
        break;
      case ProgramKind::kSwitch:
        children = node.cases.size() + 1;
        scalar = true;
        break;
      case ProgramKind::kAbort:
        scalar = !node.tensor.empty();
        break;
      case ProgramKind::kPrint:
        if (CheckedElements(node.shape) != elements) reader_->Fail("a printed tensor has the wrong shape");
        break;
      case ProgramKind::kStreamIn:
      case ProgramKind::kStreamOut: {
        if (node.stream >= program_->streams.size()) reader_->Fail("a stream that does not exist");
        const Stream& stream = program_->streams[node.stream];
        bool fits =
            stream.num_elements == elements && stream.host_to_device == (node.kind == ProgramKind::kStreamIn);
        for (const View& v : node.tensor) fits = fits && SizeOf(v.type) == SizeOf(stream.type);
        if (!fits) reader_->Fail("the stream '" + stream.name + "' does not fit its tensor");
        break;
      }
      default:
        break;
    }
    if (node.children.size() != children) reader_->Fail("a program has a wrong number of parts");
    if (scalar && elements != 1) reader_->Fail("a predicate is not one element");
  }

  std::vector<std::shared_ptr<const ProgramNode>> Roots() {
    std::vector<std::shared_ptr<const ProgramNode>> roots;
    for (std::uint32_t number : reader_->Read<std::vector<std::uint32_t>>()) {
      if (number >= nodes_.size()) reader_->Fail("a program that does not exist");
      roots.push_back(nodes_[number]);
    }
    return roots;
  }

  Reader* reader_;
  CompiledProgram* program_;
  std::vector<std::shared_ptr<ProgramNode>> nodes_;
  std::vector<int> depths_;  // of nodes_
};

}  // namespace

std::string SerialiseProgram(const CompiledProgram& program) { return Seal(kMagic, SerialiseBody(program)); }

std::shared_ptr<const CompiledProgram> DeserialiseProgram(std::string_view data, bool compile_codelets) {
  std::string_view body;
  try {
    body = Unseal(kMagic, data);
  } catch (const std::runtime_error& error) {
    throw SerialiseError(std::string("the executable cannot be read: ") + error.what() +
                         ". Compile the program again");
  }
  return DeserialiseBody(body, compile_codelets);
}

std::shared_ptr<const CompiledProgram> DeserialiseBody(std::string_view body, bool compile_codelets) {
  Reader reader(body);
  const auto architecture = reader.Read<std::string>();
  const auto tiles_per_ipu = reader.Read<unsigned>();
  TargetChanges changes;
  FieldReader{reader}.Get(changes);
  const auto io_tiles = reader.Read<unsigned>();
  if (io_tiles > 0 && io_tiles >= tiles_per_ipu) reader.Fail("a program without tiles to compute on");
  const auto replication_factor = reader.Read<unsigned>();
  if (replication_factor == 0) reader.Fail("a program without replicas");
  try {
    auto program =
        std::make_shared<CompiledProgram>(TargetOf(ChangedTargetModel(architecture, changes), tiles_per_ipu));
    program->io_tiles = io_tiles;
    program->replication_factor = replication_factor;
    ProgramReader parts(&reader, program.get());
    parts.Variables();
    parts.Streams();
    parts.RemoteBuffers();
    parts.HostFunctions();
    parts.Codelets(compile_codelets);
    parts.Programs();
    parts.HostHandles();
    program->report = ReadReport(reader);
    program->host_nanoseconds = reader.Read<double>();
    for (std::size_t left = reader.ReadLength(); left > 0; --left) {
      FurtherMain& main = program->further_mains.emplace_back();
      main.program = reader.Read<std::uint32_t>();
      if (main.program == 0 || main.program >= program->programs.size())
        reader.Fail("a main program that there is not");
      main.report = ReadReport(reader);
      main.host_nanoseconds = reader.Read<double>();
    }
    if (reader.remaining() != 0) reader.Fail("there is data after the end of the executable");
    CheckProgram(*program);
    return program;
  } catch (const SerialiseError&) {
    throw;
  } catch (const std::exception& error) {
    // Readers of operations and the target throw other exception types.
    throw SerialiseError(std::string("the executable is not valid: ") + error.what());
  }
}

}  // namespace ipu_model
