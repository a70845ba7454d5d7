// The codelet of an elementwise expression, as generated C++ (PopLibs' map fusion does the same).
#ifndef HLO_ELEMENTWISE_MAP_CODELET_H_
#define HLO_ELEMENTWISE_MAP_CODELET_H_

#include <string>
#include <vector>

#include "hlo/Expression.hpp"

namespace hlo {

struct MapCodelet {
  std::string vertexClass, source;
  // The inputs of the expression that the outputs depend on. Input i is connected to the field "in<i>",
  // unless it is in place; output o to "out<o>".
  std::vector<unsigned> inputs;
};

// A vertex class that computes `outputs` of the expression. `scalar`: by input, whether one element is used
// for all. `inPlace`: by output of the expression, the input over which it is stored, or -1. Equal arguments
// have equal class names. Throws NotExpanded for operations and types without expansion.
MapCodelet generateMap(const Expression& expression, const std::vector<unsigned>& outputs,
                       const std::vector<bool>& scalar, const std::vector<int>& inPlace);

// A struct `name` with `static void apply(inputs, references to outputs)` for all of the expression, in the
// types that hold them (storedAs); for codelets that follow codelets/scalar.hpp. Throws as generateMap.
std::string generateFunction(const Expression& expression, const std::string& name);

// The texts of codelets/softDouble.hpp and scalarDivision.hpp, which follow that of scalar.hpp, if
// `functions` use them.
std::string codeletsUsedBy(const std::string& functions);

// A hash of a text as 16 hexadecimal digits, for the names of generated classes.
std::string hashOf(const std::string& text);

}  // namespace hlo

#endif  // HLO_ELEMENTWISE_MAP_CODELET_H_
