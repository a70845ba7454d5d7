// The defaults of libpjrt_ipu.so without the bindings: it runs programs with Poplar, and compiles them in a
// compile server until the bindings set a compiler that runs in this process.
#include "runtime/process/python_compiler.h"
#include "runtime/process/registry.h"

namespace jax_ipu {
namespace {

[[maybe_unused]] const bool registry_is_filled = [] {
  SetEngineFactory(CreatePoplarEngine);
  SetLoadCheck(CheckCodelets);
  Registry::Get().SetCompiler([](const CompileRequest& request) {
    std::shared_ptr<const Executable> executable = CompileOnServer(request);
    CompileCodelets(*executable);
    return executable;
  });
  return true;
}();

}  // namespace
}  // namespace jax_ipu
