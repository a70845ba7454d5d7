// Compiles files of codelets and packs them into one .gp file, which Graph::addCodelets takes:
//     pack_codelets OUTPUT FLAGS FILE...
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "ipu_model/Model.hpp"

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  try {
    ipu_model::CompileCodelets(std::vector<std::string>(argv + 3, argv + argc), argv[2], argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
