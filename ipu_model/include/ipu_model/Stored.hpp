// Executables as plain data: the header around stored bytes, and the interface of a stored program.
#ifndef IPU_MODEL_STORED_HPP
#define IPU_MODEL_STORED_HPP

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "poplar/Executable.hpp"

namespace ipu_model {

// Returns `content` behind a header: `magic` (8 characters), format version, length and checksum. The
// checksum finds accidental damage only: a reader must check the content as if there were no checksum.
std::string Seal(std::string_view magic, std::string_view content);
// The content of what Seal returned; it points into `data`. Throws std::runtime_error with the reason for
// another magic, another version, a wrong length or a wrong checksum.
std::string_view Unseal(std::string_view magic, std::string_view data);

// The data of poplar::Executable::serialize without its header, for files that have their own header.
std::string SerialiseContent(const poplar::Executable& executable);
// Safe for any data, unless it compiles codelets, which are C++ of the author. Throws poplar_error that says
// why it cannot be read: also because of codelets that this process has not compiled, unless it may now.
poplar::Executable DeserialiseContent(std::string_view content, bool compile_codelets = false);

// What a program moves over the host link: its streams, by engine program.
struct ProgramInterface {
  struct Stream {
    std::string name, type;  // type: "f32", as NameOf in ipu_model/Types.hpp
    std::uint64_t num_elements = 0, bytes = 0;
    bool host_to_device = false;
  };
  struct HostFunction {
    std::string name;
    std::vector<std::uint64_t> input_bytes, output_bytes;
  };
  struct RemoteBuffer {
    std::string name, type;
    std::uint64_t bytes = 0;
    bool is_read = false, is_written = false;  // by any program
  };
  // One program with the functions that it calls, each list sorted.
  struct Program {
    std::vector<std::uint32_t> streams;    // indices; without those of host functions
    std::vector<std::uint32_t> variables;  // ids, which are only compared
    bool communicates = false;             // with other replicas
  };
  std::string architecture;
  unsigned num_tiles = 0, replication_factor = 1;
  std::vector<Stream> streams;
  std::vector<HostFunction> host_functions;  // without those that copy from and to remote buffers
  std::vector<RemoteBuffer> remote_buffers;
  std::vector<Program> programs;
};
// Nothing if the executable does not tell, as Poplar's own.
std::optional<ProgramInterface> InterfaceOf(const poplar::Executable& executable);

}  // namespace ipu_model

#endif  // IPU_MODEL_STORED_HPP
