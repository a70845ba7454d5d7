// How program::PrintTensor writes elements. Source: Graphcore's Poplar and PopLibs API reference, class
// poplar::PrintTensorFmt.
#ifndef POPLAR_PRINTTENSOR_HPP
#define POPLAR_PRINTTENSOR_HPP

namespace poplar {

class PrintTensorFmt {
 public:
  enum class FloatFormat {
    Auto = 0,        // fixed, unless the numbers are large, small or far apart
    Fixed = 1,       // -100.25
    Scientific = 2,  // -1.0025e+02
    None = 3         // each element by itself
  };

  // summariseThreshold: of tensors with more elements only the edges are printed; 0: all of them.
  // edgeItems: how many elements are an edge. maxLineWidth: longer lines are split; 0: none is.
  // digits: of a number, which all have one width; 0: each element by itself.
  PrintTensorFmt(unsigned summariseThreshold = 1000, unsigned edgeItems = 3, unsigned maxLineWidth = 75,
                 unsigned digits = 8, FloatFormat floatFormat = FloatFormat::Auto, char separator = ' ',
                 char openBracket = '[', char closeBracket = ']')
      : summariseThreshold(summariseThreshold),
        edgeItems(edgeItems),
        maxLineWidth(maxLineWidth),
        digits(digits),
        floatFormat(digits == 0 ? FloatFormat::None : floatFormat),
        separator(separator),
        openBracket(openBracket),
        closeBracket(closeBracket) {}
  static PrintTensorFmt disableFormatting() { return PrintTensorFmt(0, 0, 0, 0, FloatFormat::None); }

  unsigned summariseThreshold, edgeItems, maxLineWidth, digits;
  FloatFormat floatFormat;
  char separator, openBracket, closeBracket;
};

}  // namespace poplar

#endif  // POPLAR_PRINTTENSOR_HPP
