// Lines that run backwards, repeated elements and short segments, of every element size, against copies
// element by element.
#include "kernels/copy/line_copy.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "check.h"
#include "kernels/copy/strided_copy.h"
#include "kernels/host/context.h"
#include "testing/strided_boxes.h"

namespace ipu_model {
namespace {

using toy::CopyElements;
using toy::StridedBox;

std::vector<unsigned char> Numbers(std::int64_t n) {
  std::vector<unsigned char> bytes(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i * 167 + i / 251);
  return bytes;
}

// Calls check(functions, element size) for every instruction set and size.
template <typename Check>
void ForAll(const Check& check) {
  for (const bool wide : {false, true}) {
    if (wide && !HasAvx512()) continue;
    for (const std::int64_t size : {1, 2, 4, 8, 16}) {
      const auto bytes = static_cast<std::size_t>(size);
      check(wide ? avx512::FindLineCopies(bytes) : avx2::FindLineCopies(bytes), size);
    }
  }
}

// The memory has no byte to spare, so that a sanitizer sees what goes over its ends.
TEST(LinesRunBackwards) {
  ForAll([](const LineCopies& copies, std::int64_t size) {
    for (const std::int64_t n : {1, 2, 15, 16, 17, 63, 64, 65, 200}) {
      const std::vector<unsigned char> from = Numbers(n * size);
      std::vector<unsigned char> to(from.size()), expected;
      for (std::int64_t i = n - 1; i >= 0; --i)
        expected.insert(expected.end(), from.begin() + i * size, from.begin() + (i + 1) * size);
      copies.reversed(from.data() + (n - 1) * size, to.data(), n);
      CHECK(to == expected);
    }
  });
}

TEST(ElementsAreRepeated) {
  ForAll([](const LineCopies& copies, std::int64_t size) {
    for (const std::int64_t n : {1, 2, 7, 50}) {
      for (const std::int64_t step : {1, 2, 3, 4, 17}) {
        for (const std::int64_t times : {1, 2, 3, 4, 5, 8, 16, 17, 40}) {
          const std::vector<unsigned char> from = Numbers(((n - 1) * step + 1) * size);
          std::vector<unsigned char> to(static_cast<std::size_t>(n * times * size)), expected;
          for (std::int64_t i = 0; i < n * times; ++i) {
            const auto element = from.begin() + i / times * step * size;
            expected.insert(expected.end(), element, element + size);
          }
          copies.repeated(from.data(), step, to.data(), n, times);
          CHECK(to == expected);
        }
      }
    }
  });
}

TEST(TilesOfNearElements) {
  ForAll([](const LineCopies& copies, std::int64_t size) {
    for (const std::int64_t n : {1, 2, 7, 50}) {
      for (const std::int64_t step : {0, 1, 3, 9}) {
        for (const std::int64_t count : {1, 4, 9, 16, 25, 64}) {
          for (const std::int64_t reach : {std::int64_t{1}, std::int64_t{3}, LineCopies::kTileReach}) {
            std::vector<std::uint8_t> place(static_cast<std::size_t>(count));
            for (std::size_t j = 0; j < place.size(); ++j)
              place[j] = static_cast<std::uint8_t>(j * 7 % static_cast<std::size_t>(reach));
            const std::int64_t last = *std::max_element(place.begin(), place.end());
            const std::vector<unsigned char> from = Numbers(((n - 1) * step + last + 1) * size);
            std::vector<unsigned char> to(static_cast<std::size_t>(n * count * size)), expected;
            for (std::int64_t i = 0; i < n * count; ++i) {
              const std::int64_t at = i / count * step + place[static_cast<std::size_t>(i % count)];
              const auto element = from.begin() + at * size;
              expected.insert(expected.end(), element, element + size);
            }
            copies.tiled(from.data(), step, place.data(), count, to.data(), n);
            CHECK(to == expected);
          }
        }
      }
    }
  });
}

TEST(RunsOfAnyLengthAndDistance) {
  for (const bool wide : {false, true}) {
    if (wide && !HasAvx512()) continue;
    for (std::int64_t bytes = 1; bytes <= kLongestSegment; ++bytes) {
      for (const std::int64_t step :
           {bytes, -bytes, bytes + 1, -2 * bytes, bytes + 4, std::int64_t{-1}, std::int64_t{2}}) {
        for (const std::int64_t n : {1, 5, 41, 150}) {
          const std::int64_t apart = step < 0 ? -step : step;
          const std::vector<unsigned char> from = Numbers((n - 1) * apart + bytes);
          const unsigned char* const first = from.data() + (step < 0 ? (n - 1) * apart : 0);
          std::vector<unsigned char> to(static_cast<std::size_t>(n * bytes)), expected;
          for (std::int64_t i = 0; i < n; ++i)
            expected.insert(expected.end(), first + i * step, first + i * step + bytes);
          (wide ? avx512::CopySegments : avx2::CopySegments)(first, {step, bytes, n}, to.data());
          CHECK(to == expected);
        }
      }
    }
  }
}

// What lies between the segments of the result stays as it is, and what lies behind the last one is not
// touched.
TEST(SegmentsAreSpread) {
  for (const bool wide : {false, true}) {
    if (wide && !HasAvx512()) continue;
    for (std::int64_t bytes = 1; bytes <= kLongestSegment; ++bytes) {
      for (const std::int64_t step : {bytes, bytes + 1, 2 * bytes, bytes + 4, -bytes}) {
        for (const std::int64_t to_step : {bytes, bytes + 1, bytes + 4, 2 * bytes, 3 * bytes, 8 * bytes}) {
          for (const std::int64_t n : {1, 2, 7, 41}) {
            const std::int64_t apart = step < 0 ? -step : step;
            const std::vector<unsigned char> from = Numbers((n - 1) * apart + bytes);
            const unsigned char* const first = from.data() + (step < 0 ? (n - 1) * apart : 0);
            std::vector<unsigned char> to(static_cast<std::size_t>((n - 1) * to_step + bytes), 7),
                expected = to;
            for (std::int64_t i = 0; i < n; ++i)
              std::copy_n(first + i * step, bytes, expected.data() + i * to_step);
            (wide ? avx512::SpreadSegments : avx2::SpreadSegments)(first, step, bytes, to.data(), to_step, n);
            CHECK(to == expected);
          }
        }
      }
    }
  }
}

TEST(LinesOfRuns) {
  for (const bool wide : {false, true}) {
    if (wide && !HasAvx512()) continue;
    for (const std::int64_t bytes : {1, 3, 4, 8, 12, 20, 31}) {
      for (const std::int64_t step : {-bytes, bytes + 1, -2 * bytes}) {
        const std::int64_t n = 40, lines = 3, apart = step < 0 ? -step : step;
        const std::int64_t line = (n - 1) * apart + bytes;
        const std::vector<unsigned char> from = Numbers(lines * line);
        const unsigned char* const first = from.data() + (step < 0 ? (n - 1) * apart : 0);
        // Two bytes between the lines of the result stay as they are.
        const std::int64_t to_step = n * bytes + 2;
        std::vector<unsigned char> to(static_cast<std::size_t>(lines * to_step), 7), expected = to;
        for (std::int64_t l = 0; l < lines; ++l) {
          for (std::int64_t i = 0; i < n; ++i)
            std::copy_n(first + l * line + i * step, bytes, expected.data() + l * to_step + i * bytes);
        }
        (wide ? avx512::CopySegments : avx2::CopySegments)(first, {step, bytes, n, lines, line, to_step},
                                                           to.data());
        CHECK(to == expected);
      }
    }
  }
}

TEST(LinesAreWovenAndPicked) {
  ForAll([](const LineCopies& copies, std::int64_t size) {
    for (const std::int64_t n : {1, 2, 7, 50, 131}) {
      for (std::int64_t lines = 1; lines <= 7; ++lines) {
        const std::vector<unsigned char> from = Numbers(n * lines * size);
        std::vector<unsigned char> woven(from.size()), picked;
        for (std::int64_t l = 0; l < lines; ++l) {
          std::vector<unsigned char> line(static_cast<std::size_t>(n * size));
          copies.picked(from.data() + l * size, lines, line.data(), n);
          picked.insert(picked.end(), line.begin(), line.end());
        }
        for (std::int64_t i = 0; i < n * lines; ++i)
          CHECK(std::memcmp(picked.data() + (i % lines * n + i / lines) * size, from.data() + i * size,
                            static_cast<std::size_t>(size)) == 0);
        if (lines > LineCopies::kMostWoven) continue;
        copies.woven(picked.data(), n, lines, woven.data(), n);
        CHECK(woven == from);
        std::vector<unsigned char> joined(from.size());
        std::vector<const void*> each;
        for (std::int64_t l = 0; l < lines; ++l) each.push_back(picked.data() + l * n * size);
        copies.joined(each.data(), lines, joined.data(), n);
        CHECK(joined == from);
      }
    }
  });
}

TEST(CopiesOfShortSegments) {
  std::vector<StridedBox> boxes = {{{1000, 40}, {40, -1}, {40, 1}, 39},
                                   {{300, 5}, {5, -1}, {5, 1}, 4},
                                   {{3000}, {-1}, {1}, 2999},
                                   {{5, 700, 3}, {2100, 1, 700}, {2100, 3, 1}, 0},
                                   {{5, 3, 1500}, {4500, 1, 3}, {4500, 1500, 1}, 0},
                                   {{5, 3, 70}, {350, 1, 5}, {210, 70, 1}, 0},
                                   {{300, 3}, {3, -1}, {3, 1}, 2},
                                   {{300, 4}, {4, -1}, {5, 1}, 3},
                                   {{20, 3, 50}, {50, 0, 1}, {150, 50, 1}, 0},
                                   {{600, 3, 4}, {4, 0, 1}, {12, 4, 1}, 0},
                                   {{600, 2, 3}, {6, 600 * 6, 1}, {6, 3, 1}, 0},
                                   {{3, 70, 2, 6}, {1680, 12, 840, 1}, {840, 12, 6, 1}, 0},
                                   {{4, 30, 7}, {210, 7, 0}, {210, 7, 1}, 0},
                                   {{4, 30, 7}, {30, 1, 0}, {210, 7, 1}, 0},
                                   {{4, 30, 7}, {30, 1, 0}, {240, 8, 1}, 0}};
  for (std::int64_t length = 1; length <= 66; ++length)
    boxes.push_back({{6, 9, length}, {9 * length, -length, 1}, {9 * length, length, 1}, 8 * length});
  for (const StridedBox& box : boxes) {
    for (const std::int64_t size : {1, 2, 4, 8, 16}) {
      std::int64_t from_elements = 1, to_elements = 1;
      for (std::size_t d = 0; d < box.shape.size(); ++d) {
        from_elements += (box.shape[d] - 1) * std::max<std::int64_t>(box.src[d], 0);
        to_elements += (box.shape[d] - 1) * box.dst[d];
      }
      from_elements += box.first;
      const std::vector<unsigned char> from = Numbers(from_elements * size);
      std::vector<unsigned char> to(static_cast<std::size_t>(to_elements * size)), expected = to;
      const unsigned char* first = from.data() + box.first * size;
      CopyElements(box, 0, first, expected.data(), size);
      CopyStrided(&ThreadPool::Global(), static_cast<int>(box.shape.size()), box.shape.data(), first,
                  box.src.data(), to.data(), box.dst.data(), static_cast<std::size_t>(size));
      CHECK(to == expected);
    }
  }
}

}  // namespace
}  // namespace ipu_model
