// A compiled program as bytes: what Executable::serialize writes.
#ifndef IPU_MODEL_ENGINE_STORED_SERIALISED_PROGRAM_H_
#define IPU_MODEL_ENGINE_STORED_SERIALISED_PROGRAM_H_

#include <memory>
#include <string>
#include <string_view>

#include "engine/program/compiled_program.h"

namespace ipu_model {

// With a header that names the format version and a checksum.
std::string SerialiseProgram(const CompiledProgram& program);
// Throws SerialiseError with the reason when `data` is damaged, truncated or of another version, or when it
// has codelets that this process has not compiled and `compile_codelets` is false: compiling and running them
// is running code of whoever made `data`.
std::shared_ptr<const CompiledProgram> DeserialiseProgram(std::string_view data,
                                                          bool compile_codelets = false);

// What the header protects.
std::string SerialiseBody(const CompiledProgram& program);
std::shared_ptr<const CompiledProgram> DeserialiseBody(std::string_view body, bool compile_codelets = false);

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_STORED_SERIALISED_PROGRAM_H_
