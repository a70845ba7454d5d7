// The kinds of files that Graph::addCodelets takes.
#ifndef POPLAR_CODELETFILETYPE_HPP
#define POPLAR_CODELETFILETYPE_HPP

namespace poplar {

enum class CodeletFileType {
  PreprocessedAsmSource,
  AsmSource,
  CSource,
  CppSource,
  IrSource,
  Object,
  Auto  // by the ending of the file's name
};

}  // namespace poplar

#endif  // POPLAR_CODELETFILETYPE_HPP
