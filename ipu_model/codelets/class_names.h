// The names of the vertex classes of an object file, and of their fields, from its debug information: types
// and offsets then come from the compiler itself, which compiles a table that names them.
#ifndef IPU_MODEL_CODELETS_CLASS_NAMES_H_
#define IPU_MODEL_CODELETS_CLASS_NAMES_H_

#include <string>
#include <vector>

namespace ipu_model {

struct ClassNames {
  std::string cpp_name;  // with its namespaces and template arguments, as the compiler spells them
  std::string name;      // the same in the spelling of CanonicalName
  std::vector<std::string> fields;
  bool has_private_fields =
      false;  // among `fields`: edges and vectors, which the graph sets whatever their access
  bool has_constructor = false;  // that the user declared
};

// The classes that derive from Vertex, MultiVertex or SupervisorVertex of Poplar and have a function compute.
// `text` is what `readelf --debug-dump=info` prints.
std::vector<ClassNames> VertexClassesIn(const std::string& text);

// One spelling of a type's name: no spaces after commas, "unsigned int" for "unsigned", "half" for _Float16,
// no suffixes of numbers.
std::string CanonicalName(const std::string& name);

}  // namespace ipu_model

#endif  // IPU_MODEL_CODELETS_CLASS_NAMES_H_
