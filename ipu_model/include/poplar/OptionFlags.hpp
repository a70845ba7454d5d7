// Ordered string options of a compilation or an engine.
#ifndef POPLAR_OPTIONFLAGS_HPP
#define POPLAR_OPTIONFLAGS_HPP

#include <initializer_list>
#include <istream>
#include <map>
#include <ostream>
#include <string>
#include <utility>

#include "poplar/exceptions.hpp"

namespace poplar {

class OptionFlags {
 public:
  using Map = std::map<std::string, std::string>;
  OptionFlags() = default;
  OptionFlags(std::initializer_list<Map::value_type> options) : options_(options) {}

  void set(const std::string& name, const std::string& value) { options_[name] = value; }
  void set(std::initializer_list<Map::value_type> options) {
    for (const auto& [name, value] : options) options_[name] = value;
  }
  const std::string& at(const std::string& name) const {
    const auto it = options_.find(name);
    if (it == options_.end()) throw invalid_option("option '" + name + "' is not set");
    return it->second;
  }
  Map::const_iterator find(const std::string& name) const { return options_.find(name); }
  Map::const_iterator begin() const { return options_.begin(); }
  Map::const_iterator end() const { return options_.end(); }
  void clear() { options_.clear(); }

 private:
  Map options_;
};

// Sets the options of a JSON object: its values are strings, numbers, true or false. Throws parse_error with
// the position, and changes nothing, for any other text.
void readJSON(std::istream& stream, OptionFlags& flags);
void readJSON(const std::string& text, OptionFlags& flags);
// The same with the value of an environment variable. Without that variable it changes nothing.
void readJSONFromEnv(const std::string& variable, OptionFlags& flags);
// Writes the options as an object of strings, which readJSON() reads.
std::ostream& operator<<(std::ostream& stream, const OptionFlags& flags);

}  // namespace poplar

#endif  // POPLAR_OPTIONFLAGS_HPP
