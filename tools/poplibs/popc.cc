// popc SOURCE... -o FILE FLAG...: compiles codelets to a .gp file, over libpoplar.so and without Python.
#include <cstdio>
#include <exception>
#include <ipu_model/Model.hpp>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  std::vector<std::string> sources;
  std::string flags, output;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "-o" && i + 1 < argc) {
      output = argv[++i];
    } else if (!argument.empty() && argument[0] == '-') {
      flags += argument + " ";
    } else {
      sources.push_back(argument);
    }
  }
  try {
    ipu_model::CompileCodelets(sources, flags, output);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
