// The host functions of an engine: the connected callbacks, and the host memory of their operands.
#ifndef IPU_MODEL_ENGINE_RUN_HOST_FUNCTIONS_H_
#define IPU_MODEL_ENGINE_RUN_HOST_FUNCTIONS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "engine/program/compiled_program.h"

namespace ipu_model {

// Operands are in the order of Graph::addHostFunction, dense and row-major.
using HostCallback =
    std::function<void(const std::vector<const void*>& inputs, const std::vector<void*>& outputs)>;

class HostFunctions {
 public:
  explicit HostFunctions(const CompiledProgram& program);

  // Throws stream_connection_error if there is no function of this name.
  void Connect(const std::string& name, HostCallback callback);
  // Calls `connect(stream, begin, end)` for the stream of every operand.
  template <typename F>
  void ForEachStream(F&& connect) const {
    for (const Function& function : functions_) {
      for (const Operand& operand : function.operands) {
        connect(operand.stream, operand.memory.get(), operand.memory.get() + operand.bytes);
      }
    }
  }
  // A remote buffer. Its memory, row after row, is what was connected, otherwise its own, which is zero at
  // first.
  class RemoteMemory {
   public:
    RemoteMemory(std::string name, std::size_t row_bytes, std::size_t rows)
        : name(std::move(name)), row_bytes(row_bytes), rows(rows) {}
    unsigned char* memory() {
      if (connected_ != nullptr) return connected_;
      own_.resize(rows * row_bytes);
      return own_.data();
    }
    void Connect(void* memory) { connected_ = static_cast<unsigned char*>(memory); }

    const std::string name;
    const std::size_t row_bytes, rows;
    std::uint64_t bytes_read = 0, bytes_written = 0;  // by programs

   private:
    unsigned char* connected_ = nullptr;
    std::vector<unsigned char> own_;
  };
  // Throws stream_connection_error if there is no remote buffer of this name.
  RemoteMemory& Remote(const std::string& name);
  const std::vector<std::unique_ptr<RemoteMemory>>& remote_buffers() const { return buffers_; }
  // Throws the callback's exceptions, and stream_connection_error if no callback is connected.
  void Call(std::uint32_t function) const;

 private:
  // XLA aligns the buffers of foreign functions to this, and the functions may rely on it.
  static constexpr std::align_val_t kAlignment{64};
  struct FreeAligned {
    void operator()(unsigned char* memory) const { ::operator delete[](memory, kAlignment); }
  };
  struct Operand {
    std::uint32_t stream;
    std::size_t bytes;
    std::unique_ptr<unsigned char[], FreeAligned> memory;
  };
  struct Function {
    std::string name;
    std::vector<Operand> operands;
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
    HostCallback callback;
    bool remote = false;  // moves rows of a remote buffer
  };
  // The callback of a function that moves rows between a buffer and an operand.
  HostCallback MoveRows(const HostFunction& function, const CompiledProgram& program);

  std::vector<Function> functions_;
  std::vector<std::unique_ptr<RemoteMemory>> buffers_;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_RUN_HOST_FUNCTIONS_H_
