// The exceptions of the API.
#ifndef POPLAR_EXCEPTIONS_HPP
#define POPLAR_EXCEPTIONS_HPP

#include <stdexcept>
#include <string>

namespace poplar {

struct poplar_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct control_program_error : poplar_error {
  using poplar_error::poplar_error;
};
struct graph_memory_allocation_error : poplar_error {
  using poplar_error::poplar_error;
};
struct graph_connection_error : poplar_error {
  using poplar_error::poplar_error;
};
// A codelet that does not compile: the compiler's message.
struct graph_program_compilation_error : poplar_error {
  using poplar_error::poplar_error;
};
struct unknown_vertex_type : poplar_error {
  using poplar_error::poplar_error;
};
struct unknown_field : poplar_error {
  using poplar_error::poplar_error;
};
struct parse_error : poplar_error {
  using poplar_error::poplar_error;
};
struct invalid_option : poplar_error {
  using poplar_error::poplar_error;
};
struct invalid_tile_mapping : poplar_error {
  using poplar_error::poplar_error;
};
struct stream_connection_error : poplar_error {
  using poplar_error::poplar_error;
};
struct type_error : poplar_error {
  using poplar_error::poplar_error;
};
struct runtime_error : poplar_error {
  using poplar_error::poplar_error;
};
// Raised by the program itself (AbortOnCondition).
struct application_runtime_error : runtime_error {
  using runtime_error::runtime_error;
};

}  // namespace poplar

#endif  // POPLAR_EXCEPTIONS_HPP
