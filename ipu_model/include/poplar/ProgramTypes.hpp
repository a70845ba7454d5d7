// Programs: control flow, copies and operations. Handles are cheap to copy and share their node. Constructors
// throw control_program_error when operands do not fit: other sizes or types, a destination with aliases or
// constants, a predicate that is not one element, a stream in the other direction, a tensor that is empty. A
// program that was moved from throws poplar_error where it is used. Source: Graphcore's Poplar
// and PopLibs API reference, namespace poplar::program.
#ifndef POPLAR_PROGRAMTYPES_HPP
#define POPLAR_PROGRAMTYPES_HPP

#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "ipu_model/Owned.hpp"
#include "poplar/DataStream.hpp"
#include "poplar/DebugContext.hpp"
#include "poplar/GraphElements.hpp"
#include "poplar/PrintTensor.hpp"
#include "poplar/SyncType.hpp"
#include "poplar/Tensor.hpp"

namespace ipu_model {
struct ProgramNode;  // core/program/program_node.h
}

namespace poplar {

class Function {
 public:
  Function() = default;
  Function(unsigned id, std::uint32_t graph) : id_(id), graph_(graph) {}
  unsigned id() const { return id_; }
#ifndef POPLAR_API_ONLY
  std::uint32_t graphNumber() const { return graph_; }  // 0: default-constructed
#endif

 private:
  unsigned id_ = 0;
  std::uint32_t graph_ = 0;
};

// A function of the host. Make one with Graph::addHostFunction, and give it to the engine with
// Engine::connectHostFunction.
class HostFunction {
 public:
  HostFunction() = default;
  HostFunction(unsigned index, std::vector<DataStream> inputs, std::vector<DataStream> outputs,
               std::uint32_t graph)
      : index_(index), inputs_(std::move(inputs)), outputs_(std::move(outputs)), graph_(graph) {}
  unsigned index() const { return index_; }
  const std::vector<DataStream>& inputs() const { return inputs_; }
  const std::vector<DataStream>& outputs() const { return outputs_; }
#ifndef POPLAR_API_ONLY
  std::uint32_t graphNumber() const { return graph_; }  // 0: default-constructed
#endif

 private:
  unsigned index_ = 0;
  std::vector<DataStream> inputs_, outputs_;
  std::uint32_t graph_ = 0;
};

namespace program {

class Program {
 public:
  Program();             // does nothing
  bool isEmpty() const;  // whether running it does nothing
#ifndef POPLAR_API_ONLY
  // Internals of the model.
  const std::shared_ptr<ipu_model::ProgramNode>& node() const { return node_.pointer(); }
#endif

 protected:
  explicit Program(std::shared_ptr<ipu_model::ProgramNode> node) : node_(std::move(node)) {}
  void setNode(std::shared_ptr<ipu_model::ProgramNode> node) { node_ = Node(std::move(node)); }

  static constexpr char kClass[] = "Program";
  using Node = ipu_model::Owned<std::shared_ptr<ipu_model::ProgramNode>, kClass>;
  Node node_;
};

class Sequence : public Program {
 public:
  explicit Sequence(const DebugContext& debugContext = {});
  explicit Sequence(const std::vector<Program>& programs, const DebugContext& debugContext = {});
  Sequence(std::initializer_list<Program> programs, const DebugContext& debugContext = {})
      : Sequence(std::vector<Program>(programs), debugContext) {}
  // The programs one after another, without braces: the form of older Poplar.
  template <typename First, typename... Rest,
            std::enable_if_t<std::is_base_of_v<Program, First> && (std::is_base_of_v<Program, Rest> && ...) &&
                                 (sizeof...(Rest) > 0 || !std::is_base_of_v<Sequence, First>),
                             int> = 0>
  Sequence(const First& first, const Rest&... rest) : Sequence(std::vector<Program>{first, rest...}) {}
  void add(const Program& program);
  void add_back(const Program& program) { add(program); }
  void add_front(const Program& program);
};

// A program with a name of its own in reports.
class Block : public Sequence {
 public:
  explicit Block(const DebugContext& debugContext = {}) : Sequence(debugContext) {}
  Block(const Program& program, const DebugContext& debugContext = {});
};

// Copies `src` to `dst`, of the same number of elements and element type; host transfers move one stream
// length.
class Copy : public Program {
 public:
  Copy(const Tensor& src, const Tensor& dst, bool dontOutline = false, const DebugContext& debugContext = {});
  Copy(const DataStream& stream, const Tensor& dst, bool optimiseMemory = false,
       const DebugContext& debugContext = {});
  Copy(const Tensor& src, const DataStream& stream, bool optimiseMemory = false,
       const DebugContext& debugContext = {});
  // Between a tensor and rows of a remote buffer. `offset`, of UNSIGNED_INT or INT, has the index of each
  // row; the tensor has as many rows. Without an offset it is row 0. A row that the buffer does not have ends
  // the run with application_runtime_error.
  Copy(const RemoteBuffer& buffer, const Tensor& dst, const DebugContext& debugContext = {});
  Copy(const RemoteBuffer& buffer, const Tensor& dst, const Tensor& offset,
       const DebugContext& debugContext = {});
  Copy(const Tensor& src, const RemoteBuffer& buffer, const DebugContext& debugContext = {});
  Copy(const Tensor& src, const RemoteBuffer& buffer, const Tensor& offset,
       const DebugContext& debugContext = {});
};

// Replica `destination` receives in its `dst` what replica `source` has in its `src`, for all pairs (source,
// destination) of `replicaMap`; all replicas must be a destination.
class CrossReplicaCopy : public Program {
 public:
  CrossReplicaCopy(const Tensor& src, const Tensor& dst, const std::map<unsigned, unsigned>& replicaMap,
                   const DebugContext& debugContext = {});
};

// States that the tensor has the same value on all replicas. In Poplar, control flow of several replicas
// needs that; in the model the replicas' control flow is independent, and this does nothing.
class AssumeEqualAcrossReplicas : public Program {
 public:
  explicit AssumeEqualAcrossReplicas(const Tensor& tensor, const DebugContext& debugContext = {});
};

// Synchronises all tiles of each IPU (INTERNAL), or those of all IPUs (EXTERNAL, GLOBAL). In the model it
// costs cycles only.
class Sync : public Program {
 public:
  explicit Sync(SyncType type, const DebugContext& debugContext = {});
};

// Runs the vertices of a compute set, as one superstep: all reads come before all writes, and no vertex may
// write an element that another one reads or writes. compileGraph checks that, and that every vertex has a
// tile and all its edges, so these may be set after this call.
class Execute : public Program {
 public:
  Execute(const ComputeSet& cs, const DebugContext& debugContext = {});
};

// Runs `body` `count` times.
class Repeat : public Program {
 public:
  Repeat(unsigned count, const Program& body, const DebugContext& debugContext = {});
};

// Runs `cond`, which computes the predicate, a BOOL or integer scalar. While it is not 0, runs `body`, then
// `cond` again.
class RepeatWhileTrue : public Program {
 public:
  RepeatWhileTrue(const Program& cond, const Tensor& predicate, const Program& body,
                  const DebugContext& debugContext = {});
};

class RepeatWhileFalse : public Program {
 public:
  RepeatWhileFalse(const Program& cond, const Tensor& predicate, const Program& body,
                   const DebugContext& debugContext = {});
};

// Runs trueBody if the predicate, a BOOL or integer scalar, is not 0, otherwise falseBody.
class If : public Program {
 public:
  If(const Tensor& predicate, const Program& trueBody, const Program& falseBody,
     const DebugContext& debugContext = {});
};

// Runs the case for the value of `control`, an integer scalar, or defaultCase if there is none.
class Switch : public Program {
 public:
  using Cases = std::vector<std::pair<std::int32_t, Program>>;
  Switch(const Tensor& control, const Cases& cases, const Program& defaultCase,
         const DebugContext& debugContext = {});
  // Any other value does nothing.
  Switch(const Tensor& control, const Cases& cases, const DebugContext& debugContext = {})
      : Switch(control, cases, Program(), debugContext) {}
  explicit Switch(const Tensor& control, const DebugContext& debugContext = {})
      : Switch(control, Cases{}, Program(), debugContext) {}
  // Any other value ends the run with application_runtime_error.
  static Switch switchWithBoundsChecking(const Tensor& control, const Cases& cases,
                                         const DebugContext& debugContext = {});
  // There are no other values; in the model they do nothing.
  static Switch switchWithUnreachableDefault(const Tensor& control, const DebugContext& debugContext = {}) {
    return Switch(control, debugContext);
  }
  Switch& add(std::int32_t value, const Program& body);
};

class Call : public Program {
 public:
  explicit Call(const Function& function, const DebugContext& debugContext = {});
  // Sends the inputs to the host, runs the function there while the device waits, and receives the outputs.
  Call(const HostFunction& function, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
       const DebugContext& debugContext = {});
};

// Declares that the tensor's contents are not needed any more: its memory is free until the next write.
class WriteUndef : public Program {
 public:
  explicit WriteUndef(const Tensor& tensor, const DebugContext& debugContext = {});
};

// Prints the values to Engine::setPrintTensorStream, under a title. Without a format all elements are
// printed, each by itself.
class PrintTensor : public Program {
 public:
  explicit PrintTensor(const Tensor& tensor, const DebugContext& debugContext = {});
  PrintTensor(const Tensor& tensor, const PrintTensorFmt& format, const DebugContext& debugContext = {});
  PrintTensor(const std::string& title, const Tensor& tensor, const DebugContext& debugContext = {});
  PrintTensor(const std::string& title, const Tensor& tensor, const PrintTensorFmt& format,
              const DebugContext& debugContext = {});
};

// Ends the run with application_runtime_error and the message when the predicate is not 0.
class AbortOnCondition : public Program {
 public:
  AbortOnCondition(const Tensor& predicate, const DebugContext& debugContext = {});
  AbortOnCondition(const Tensor& predicate, const std::string& message,
                   const DebugContext& debugContext = {});
  AbortOnCondition(const Tensor& predicate, const char* message, const DebugContext& debugContext = {})
      : AbortOnCondition(predicate, std::string(message), debugContext) {}
};

// Ends the run with application_runtime_error and the message.
class Abort : public Program {
 public:
  explicit Abort(const DebugContext& debugContext = {});
  explicit Abort(const std::string& message, const DebugContext& debugContext = {});
  explicit Abort(const char* message, const DebugContext& debugContext = {})
      : Abort(std::string(message), debugContext) {}
};

// Prints the tensor under the message, then ends the run with application_runtime_error and the message.
class ErrorProgram : public Program {
 public:
  ErrorProgram(const std::string& message, const Tensor& debugTensor, const DebugContext& debugContext = {});
};

}  // namespace program
}  // namespace poplar

#endif  // POPLAR_PROGRAMTYPES_HPP
