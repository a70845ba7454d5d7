#include "fft/fft.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <string>

#include "codelets.h"
#include "planned.h"
#include "storage.h"

namespace hlo {
namespace {

using poplar::Graph;
using poplar::Tensor;
using poplar::VertexRef;
using Number = std::complex<double>;

constexpr double kPi = 3.14159265358979323846;
constexpr unsigned kLargestRadix = 109;  // of codelets/fft.hpp

std::vector<unsigned> radicesOf(std::size_t n) {
  std::vector<unsigned> radices;
  for (; n % 4 == 0; n /= 4) radices.push_back(4);
  for (std::size_t p = 2; n > 1; ++p) {
    for (; n % p == 0; n /= p) radices.push_back(static_cast<unsigned>(p));
  }
  if (radices.empty()) radices.push_back(1);
  return radices;
}

// The tables of struct Roots of the codelets.
struct RootTable {
  std::vector<float> values;
  unsigned shift = 0;
};
void append(std::vector<float>* values, Number x) {
  values->push_back(static_cast<float>(x.real()));
  values->push_back(static_cast<float>(x.imag()));
}
RootTable rootsOf(std::size_t order) {
  RootTable roots;
  while ((std::size_t{1} << (2 * roots.shift)) < order) ++roots.shift;
  const std::size_t size = std::size_t{1} << roots.shift;
  const double turn = -2 * kPi / static_cast<double>(order);
  for (std::size_t t = 0; t < size; ++t)
    append(&roots.values, std::polar(1.0, turn * static_cast<double>(t)));
  for (std::size_t t = 0; t < order; t += size)
    append(&roots.values, std::polar(1.0, turn * static_cast<double>(t)));
  return roots;
}

// The transform of a power-of-two number of elements, in place, with the result in the order of
// Stages::placeOf for these radices.
void transformInFrequency(std::vector<Number>& x, const std::vector<unsigned>& radices) {
  std::size_t m = x.size();
  for (const unsigned p : radices) {
    m /= p;
    std::vector<Number> in(p);
    const double turn = -2 * kPi / static_cast<double>(p * m);
    for (std::size_t block = 0; block < x.size(); block += p * m) {
      for (std::size_t k = 0; k < m; ++k) {
        for (std::size_t j = 0; j < p; ++j) in[j] = x[block + j * m + k];
        for (std::size_t q = 0; q < p; ++q) {
          Number sum = 0;
          for (std::size_t j = 0; j < p; ++j)
            sum += in[j] * std::polar(1.0, turn * static_cast<double>(j * q % p * m));
          x[block + q * m + k] = sum * std::polar(1.0, turn * static_cast<double>(q * k));
        }
      }
    }
  }
}

// The transform of the chirp of a convolution of length m, divided by m.
std::vector<float> filterOf(std::size_t n, std::size_t m, bool inverse,
                            const std::vector<unsigned>& radices) {
  std::vector<Number> chirp(m);
  std::size_t square = 0;  // k^2 mod 2 n
  for (std::size_t k = 0; k < n; square = (square + 2 * k + 1) % (2 * n), ++k) {
    const double angle = kPi * static_cast<double>(square) / static_cast<double>(n);
    chirp[k] = chirp[(m - k) % m] = std::polar(1.0 / static_cast<double>(m), inverse ? -angle : angle);
  }
  transformInFrequency(chirp, radices);
  std::vector<float> filter;
  for (const Number x : chirp) append(&filter, x);
  return filter;
}

}  // namespace

void expandFft(Graph& graph, const Tensor& operand, FftType type, const std::vector<std::size_t>& lengths,
               const Tensor& out, const Plan& plan, poplar::program::Sequence& prog,
               const poplar::DebugContext& debugContext) {
  constexpr const char* kFunction = "fft";
  const auto stored = [](DType t) { return singleAs(t, kFunction); };
  const std::size_t rank = operand.rank(), count = lengths.size();
  const bool inverse = type == FftType::kIfft || type == FftType::kIrfft;
  double elements = 1;
  std::size_t done = 0;  // dimensions; irfft ends with the last one, the others begin with it
  const auto codeletOf = [&](const PlannedGroup& group) {
    const std::size_t dimension = type == FftType::kIrfft ? rank - count + done : rank - 1 - done;
    const std::size_t length = lengths[dimension - (rank - count)];
    elements *= static_cast<double>(length);
    const bool last = ++done == count, half = type == FftType::kIrfft && dimension + 1 == rank,
               real = type == FftType::kRfft && dimension + 1 == rank;
    const bool packed = (real || half) && length % 2 == 0, beside = group.writes.size() > 1;
    const std::size_t n = packed ? length / 2 : length;
    const std::size_t workLength = beside ? group.vertices.at(0).writes[1].extent(2) : n;
    const std::string complexName = cppName(storedAs(DType::kC64, kFunction));
    PlannedCodelet codelet;
    codelet.vertexClass = std::string("hlo::Fft") + (beside ? "Beside" : "") + "<hlo::Signal::" +
                          (real   ? "kReal"
                           : half ? "kHalf"
                                  : "kComplex") +
                          (packed ? ", true, " : ", false, ") + (real ? "float" : complexName) + ", " +
                          (half ? "float" : complexName) + ">";
    codelet.source = std::string(kFftCodelets) + "template class " + codelet.vertexClass + ";\n";
    codelet.reads = {"in"};
    codelet.writes = {"out"};
    if (beside) codelet.writes.push_back("work");
    const RootTable roots = rootsOf(2 * n), workRoots = rootsOf(workLength);
    const std::vector<unsigned> radices = radicesOf(workLength);
    if (*std::max_element(radices.begin(), radices.end()) > kLargestRadix)
      refuse(kFunction, "a length of " + std::to_string(length) + " without a convolution");
    const std::vector<float> filter =
        workLength > n ? filterOf(n, workLength, inverse, radices) : std::vector<float>{};
    const double scale = inverse && last ? 1 / elements : 1;
    codelet.set = [=](Graph& g, const VertexRef& ref, const PlannedVertex& v) {
      const Region &read = v.reads[0], &written = v.writes[0];
      const std::size_t step = written.stride(dimension);
      const auto set = [&](const char* field, std::size_t value) {
        g.setInitialValue(ref[field], static_cast<unsigned>(value));
      };
      set("inLength", read.extent(dimension));
      set("outLength", written.extent(dimension));
      set("step", step);
      set("n", n);
      set("shift", roots.shift);
      g.setInitialValue(ref["inverse"], inverse);
      g.setInitialValue(ref["scale"], static_cast<float>(scale));
      g.setInitialValue(ref["roots"], roots.values);
      g.setInitialValue(ref["radices"], radices);
      if (!beside) return;
      set("workLength", workLength);
      set("workShift", workRoots.shift);
      g.setInitialValue(ref["workRoots"], workRoots.values);
      g.setInitialValue(ref["filter"], filter);
    };
    return codelet;
  };
  const Tensor in = operand.reinterpret(stored(DTypeOf(operand.elementType()))),
               result = out.reinterpret(stored(DTypeOf(out.elementType())));
  expandPlan(graph, plan, {in}, {result}, stored, codeletOf, prog, debugContext);
}

}  // namespace hlo
