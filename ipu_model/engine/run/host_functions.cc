#include "engine/run/host_functions.h"

#include <cstring>
#include <utility>

#include "ipu_model/Model.hpp"
#include "poplar/exceptions.hpp"

namespace ipu_model {

HostFunctions::HostFunctions(const CompiledProgram& program) {
  for (const RemoteBuffer& buffer : program.remote_buffers) {
    const auto rows = static_cast<std::size_t>(buffer.rows);
    const std::size_t row_bytes = static_cast<std::size_t>(buffer.num_elements) * SizeOf(buffer.type);
    buffers_.push_back(std::make_unique<RemoteMemory>(buffer.name, row_bytes, rows));
  }
  for (const HostFunction& described : program.host_functions) {
    Function function;
    function.remote = described.remote_buffer >= 0;
    function.name = described.name;
    const auto add = [&](std::uint32_t index) -> void* {
      const Stream& stream = program.streams[index];
      const std::size_t bytes = static_cast<std::size_t>(stream.num_elements) * SizeOf(stream.type);
      auto* const memory = static_cast<unsigned char*>(::operator new[](bytes, kAlignment));
      function.operands.push_back({index, bytes, std::unique_ptr<unsigned char[], FreeAligned>(memory)});
      std::memset(memory, 0, bytes);
      return function.operands.back().memory.get();
    };
    for (const std::uint32_t stream : described.inputs) function.inputs.push_back(add(stream));
    for (const std::uint32_t stream : described.outputs) function.outputs.push_back(add(stream));
    if (described.remote_buffer >= 0) function.callback = MoveRows(described, program);
    functions_.push_back(std::move(function));
  }
}

HostFunctions::RemoteMemory& HostFunctions::Remote(const std::string& name) {
  std::string known;
  for (const auto& buffer : buffers_) {
    if (buffer->name == name) return *buffer;
    known += (known.empty() ? "" : ", ") + buffer->name;
  }
  throw poplar::stream_connection_error("there is no remote buffer '" + name +
                                        "'; the executable has: " + (known.empty() ? "none" : known));
}

HostCallback HostFunctions::MoveRows(const HostFunction& function, const CompiledProgram& program) {
  RemoteMemory* const buffer = buffers_.at(static_cast<std::size_t>(function.remote_buffer)).get();
  const bool read = !function.outputs.empty();
  const bool has_offset = function.inputs.size() > (read ? 0 : 1);
  const auto rows = has_offset ? static_cast<std::size_t>(program.streams[function.inputs[0]].num_elements)
                               : std::size_t{1};
  return [buffer, read, has_offset, rows](const std::vector<const void*>& in, const std::vector<void*>& out) {
    for (std::size_t i = 0; i < rows; ++i) {
      std::uint32_t row = 0;
      if (has_offset)
        std::memcpy(&row, static_cast<const unsigned char*>(in[0]) + i * sizeof(row), sizeof(row));
      if (row >= buffer->rows) {
        throw poplar::application_runtime_error("the program accesses row " + std::to_string(row) +
                                                " of the remote buffer '" + buffer->name + "' of " +
                                                std::to_string(buffer->rows) + " rows");
      }
      unsigned char* const at = buffer->memory() + row * buffer->row_bytes;
      const std::size_t position = i * buffer->row_bytes;
      if (buffer->row_bytes == 0) continue;
      if (read) {
        std::memcpy(static_cast<unsigned char*>(out[0]) + position, at, buffer->row_bytes);
        buffer->bytes_read += buffer->row_bytes;
      } else {
        std::memcpy(at, static_cast<const unsigned char*>(in.back()) + position, buffer->row_bytes);
        buffer->bytes_written += buffer->row_bytes;
      }
    }
  };
}

void HostFunctions::Connect(const std::string& name, HostCallback callback) {
  std::string known;
  for (Function& function : functions_) {
    if (function.remote) continue;
    if (function.name == name) {
      function.callback = std::move(callback);
      return;
    }
    known += (known.empty() ? "" : ", ") + function.name;
  }
  throw poplar::stream_connection_error("there is no host function '" + name +
                                        "'; the executable has: " + (known.empty() ? "none" : known));
}

void HostFunctions::Call(std::uint32_t function) const {
  const Function& f = functions_[function];
  if (!f.callback) {
    throw poplar::stream_connection_error("the program calls the host function '" + f.name +
                                          "', which is not connected: call connectHostFunction before run");
  }
  const KeepDenormals keep;  // the function is not part of the device
  f.callback(f.inputs, f.outputs);
}

}  // namespace ipu_model
