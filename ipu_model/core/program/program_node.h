// The program tree behind poplar::program::*. A tensor copy is an Operation ("poplar::copy"). All other nodes
// are control flow, host transfers or hints for the compiler.
#ifndef IPU_MODEL_CORE_PROGRAM_PROGRAM_NODE_H_
#define IPU_MODEL_CORE_PROGRAM_PROGRAM_NODE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/operation/operation.h"
#include "poplar/PrintTensor.hpp"

namespace ipu_model {

// The values are written to executables: append only.
enum class ProgramKind : std::uint8_t {
  kSequence = 0,     // children in order
  kOperation,        // operation
  kStreamIn,         // stream -> tensor
  kStreamOut,        // tensor -> stream
  kRepeat,           // children[0], count times
  kRepeatWhileTrue,  // while predicate `tensor`, computed by children[0], is true: children[1]
  kRepeatWhileFalse,
  kIf,          // runs children[0] if `tensor` is not 0, otherwise children[1]
  kSwitch,      // runs children[i] with cases[i] == `tensor`, otherwise children.back()
  kCall,        // calls function `function`
  kWriteUndef,  // the earlier contents of `tensor` are not needed
  kPrint,       // prints `tensor` under the title `text`
  kAbort,       // stops the run with the message `text` if `tensor` is not 0, or if there is no `tensor`
  kHostCall,    // calls host function `function`, between the transfers of its operands
  kSync,        // a synchronisation: of all IPUs if `count` is 1, otherwise of each IPU
  kCount
};

struct ProgramNode {
  ProgramKind kind = ProgramKind::kSequence;
  std::string name;   // debug name
  std::string scope;  // of a sequence under construction: of the operations that are added next; not stored
  std::vector<std::shared_ptr<ProgramNode>> children;
  std::shared_ptr<Operation> operation;
  // The elements in row-major order: those of the first view, then those of the next. Predicates and controls
  // have one element.
  std::vector<View> tensor;
  std::vector<std::int64_t> shape;  // the shape of `tensor` as the user sees it; set for kPrint
  std::uint32_t stream = 0;         // index into CompiledProgram::streams
  std::uint32_t function = 0;  // index into CompiledProgram::functions; for kHostCall, into host_functions
  // The number of the graph of the stream, the function or the compute set; 0 where it has none. Not stored.
  std::uint32_t graph = 0;
  std::uint64_t count = 0;          // for kRepeat
  std::vector<std::int32_t> cases;  // for kSwitch; one fewer than children
  std::string text;
  poplar::PrintTensorFmt format = poplar::PrintTensorFmt::disableFormatting();  // for kPrint
  bool block = false;        // of a sequence: a poplar::program::Block; not stored
  std::uint32_t origin = 0;  // see SetOrigin in ipu_model/Profile.hpp; not stored
};

// The origin of the nodes that this thread makes.
std::uint32_t CurrentOrigin();

}  // namespace ipu_model

#endif  // IPU_MODEL_CORE_PROGRAM_PROGRAM_NODE_H_
