// Python: profiles of compiled programs, and what the operations of a graph come from.
#include "ipu_model/Profile.hpp"

#include "bindings/bindings.h"
#include "bindings/fields.h"

namespace jax_ipu::bindings {

void BindProfile(nb::module_& module) {
  using namespace ipu_model;
  BindFields<RunLengthTable>(module, "RunLengthTable", "Run-length coded rows; equal lines share a row.");
  BindFields<ProfileNodes>(module, "ProfileNodes", "The nodes of the main program's tree as columns.");
  BindFields<ProfileSteps>(module, "ProfileSteps", "The steps of one call as columns, in program order.");
  BindFields<ProfileVariables>(module, "ProfileVariables", "What takes memory, as columns.");
  BindFields<ProfileMemory>(module, "ProfileMemory", "Bytes on each tile at its own fullest moment.");
  BindFields<ProfileExchange>(module, "ProfileExchange", "What moves between tiles in each step.");
  BindFields<Profile>(module, "Profile", "Every step, variable and tile of a program.");
  module.def("set_origin", &SetOrigin, nb::arg("origin"),
             "Operations that this thread adds from now on are of this part of the source; 0 for none.");
}

}  // namespace jax_ipu::bindings
