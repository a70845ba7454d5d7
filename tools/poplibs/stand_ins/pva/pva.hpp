// The model's pva/pva.hpp, and the classes that single_conv_layer names to measure plans: its reports have no
// programs that can be visited. See tools/conv_analysis.cpp beside this folder.
#pragma once

#include_next <pva/pva.hpp>

namespace pva {

class DoExchangeProgram;
class OnTileExecuteProgram;

class ProgramVisitor {
 public:
  virtual ~ProgramVisitor() = default;
  virtual void visitDoExchange(const DoExchangeProgram&) {}
  virtual void visitOnTileExecute(const OnTileExecuteProgram&) {}
};

}  // namespace pva
