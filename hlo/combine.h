// The bodies of reductions, and the types in which they accumulate.
#ifndef HLO_COMBINE_H_
#define HLO_COMBINE_H_

#include <string>

#include "hlo/Expression.hpp"

namespace hlo {

// Whether the body is one sum, product, maximum or minimum of both inputs.
bool isSingle(const Expression& body);
// Throws NotExpanded for a body that computes with floats of 8 or fewer bits: where its results are rounded
// is known for elementwise expressions only.
void refuseSmallFloats(const Expression& body, const std::string& function);

// A body that isSingle with accumulators of f32 in place of f16 and bf16; any other body as it is.
Expression widened(const Expression& body);
// The body in the types of what a reduction has between its stages: sums and products of f16 and bf16 are
// f32.
Expression accumulated(const Expression& body);

// C++ that converts `text` between a narrow float and f32, or leaves it as it is.
std::string converted(const std::string& text, DType from, DType to);

// A source of a struct Combine (generateFunction) for the body, in a namespace of this file, and of a vertex
// class with these members, after `codelets`. Returns the name of the class, `prefix` with a hash.
std::string generateClass(const std::string& codelets, const std::string& prefix,
                          const std::string& functions, const std::string& members, std::string* source);

// "name0", "name1", ..., each with `after`, with commas between.
std::string listOf(const std::string& name, std::size_t n, const std::string& after = "");

}  // namespace hlo

#endif  // HLO_COMBINE_H_
