#include "engine/host_functions.h"

#include <cstring>
#include <utility>

#include "ipu_model/Model.hpp"
#include "poplar/exceptions.hpp"

namespace ipu_model {

HostFunctions::HostFunctions(const CompiledProgram& program) {
  for (const HostFunction& described : program.host_functions) {
    Function function;
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
    functions_.push_back(std::move(function));
  }
}

void HostFunctions::Connect(const std::string& name, HostCallback callback) {
  std::string known;
  for (Function& function : functions_) {
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
