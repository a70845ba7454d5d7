// The program tree behind poplar::program::*. A tensor copy is an Operation ("poplar::copy"); everything else
// here is control flow, host transfer or a mark for the compiler.
#ifndef IPU_MODEL_CORE_PROGRAM_NODE_H_
#define IPU_MODEL_CORE_PROGRAM_NODE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/operation.h"

namespace ipu_model {

// The numeric values are written to serialised executables: append only.
enum class ProgramKind : std::uint8_t {
  kSequence = 0,     // children in order
  kOperation,        // operation
  kStreamIn,         // stream -> tensor
  kStreamOut,        // tensor -> stream
  kRepeat,           // children[0], count times
  kRepeatWhileTrue,  // children[0] computes the predicate `tensor`; while it is true: children[1], again
  kRepeatWhileFalse,
  kIf,          // `tensor` != 0: children[0], else children[1]
  kSwitch,      // children[i] where cases[i] == `tensor`, else children.back()
  kCall,        // function
  kWriteUndef,  // earlier contents of `tensor` are not needed
  kPrint,       // `tensor` under the title `text`
  kAbort,       // stop the run with the message `text` when `tensor` != 0
  kHostCall,    // host function `function`, between the transfers of its operands
  kCount
};

struct ProgramNode {
  ProgramKind kind = ProgramKind::kSequence;
  std::string name;  // debug name
  std::vector<std::shared_ptr<ProgramNode>> children;
  std::shared_ptr<Operation> operation;
  // Elements in row-major order: those of the first view, then of the next. Predicates and controls are one
  // element.
  std::vector<View> tensor;
  std::vector<std::int64_t> shape;  // of `tensor` as the user sees it; set for kPrint
  std::uint32_t stream = 0;         // index into CompiledProgram::streams
  std::uint32_t function = 0;       // index into CompiledProgram::functions, of kHostCall into host_functions
  std::uint64_t count = 0;          // of kRepeat
  std::vector<std::int32_t> cases;  // of kSwitch, one fewer than children
  std::string text;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_CORE_PROGRAM_NODE_H_
