// A compiled graph. Copies share the compiled data, which never changes. One that was moved from throws
// poplar_error where it is used.
#ifndef POPLAR_EXECUTABLE_HPP
#define POPLAR_EXECUTABLE_HPP

#include <istream>
#include <memory>
#include <ostream>
#include <utility>

#include "ipu_model/Owned.hpp"
#include "poplar/OptionFlags.hpp"

namespace ipu_model {
struct CompiledProgram;  // engine/program/compiled_program.h
}  // namespace ipu_model

namespace poplar {

class Executable {
 public:
  explicit Executable(std::shared_ptr<const ipu_model::CompiledProgram> program)
      : program_(std::move(program)) {}

  void serialize(std::ostream& out) const;
  // Throws poplar_error with the reason when the data is damaged, truncated or of another version. Option
  // "codelets": "refuse" (default) or "compile". The source of codelets is part of the data, and running the
  // executable compiles and runs it, with all rights of this process: choose "compile" only for data that you
  // trust as you trust a program. Codelets that this process has compiled before need no option.
  // The environment variable IPU_MODEL_CODELETS = compile makes "compile" the default.
  static Executable deserialize(std::istream& in, const OptionFlags& options = {});

#ifndef POPLAR_API_ONLY
  // Internals of the model, not part of Poplar. ipu_model/Model.hpp has the functions for users.
  const std::shared_ptr<const ipu_model::CompiledProgram>& program() const { return program_.pointer(); }
#endif

 private:
  static constexpr char kClass[] = "Executable";
  ipu_model::Owned<std::shared_ptr<const ipu_model::CompiledProgram>, kClass> program_;
};

}  // namespace poplar

#endif  // POPLAR_EXECUTABLE_HPP
