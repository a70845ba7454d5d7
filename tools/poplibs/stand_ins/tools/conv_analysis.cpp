// Stand-in for PopLibs' tools/src/conv_analysis.cpp, which compares a plan with the exchanges and variables
// of each program in a profile. The model's profiles do not have them, so that the options which ask for it
// end with an error.
#include "conv_analysis.hpp"

#include <stdexcept>

namespace amp {

namespace {

[[noreturn]] void Refuse() {
  throw std::runtime_error("the model's profiles cannot be compared with a plan of PopLibs");
}

}  // namespace

void updateDetailedPlanCosts(bool, bool, poplin::internal::DetailedPlanCosts&) { Refuse(); }

MeasuredPlanCosts getMeasuredCosts(const std::string&, const std::string&, size_t, size_t, bool, bool, bool) {
  Refuse();
}

void compareCosts(const std::string&, const poplin::internal::DetailedPlanCosts&, const MeasuredPlanCosts&,
                  bool, bool, bool) {
  Refuse();
}

void getSimulatedCosts(const std::string&, unsigned, bool, bool, bool) { Refuse(); }

}  // namespace amp
