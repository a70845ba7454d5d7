// Bound gathers and scatters of few windows leave the same bytes as the kernels that choose at run time.
#include "kernels/index/bound_windows.h"

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "check.h"
#include "kernels/index/gather.h"
#include "kernels/index/scatter.h"
#include "testing/bound_kernel_check.h"
#include "testing/test_instructions.h"

namespace ipu_model {
namespace {

HostTensor Tensor(DType type, const std::vector<std::int64_t>& shape, bool transposed, void* data) {
  HostTensor t;
  t.data = data;
  t.type = type;
  t.rank = static_cast<int>(shape.size());
  std::int64_t stride = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::size_t d = transposed ? i : shape.size() - 1 - i;
    t.shape[d] = shape[d];
    t.strides[d] = stride;
    stride *= shape[d];
  }
  return t;
}

constexpr std::int64_t kPlaces = 9, kColumns = 5;

// A row of windows, with one index for the first dimension of the operand or two for the first two, some of
// which are outside.
struct Problem {
  IndexedWindow window;
  WindowPlacement placement;
  std::vector<unsigned char> index_bytes, operand_bytes, windows_bytes, out_bytes;
  HostTensor operand, indices, windows, out;

  Problem(DType type, DType index_type, std::int64_t rows, std::int64_t width, int components,
          bool transposed, bool wraps) {
    WindowDims dims;
    dims.index_vector_dim = 1;
    const std::int64_t sizes[3] = {1, components == 2 ? 1 : kColumns, width};
    for (int d = 0; d < 3; ++d) {
      if (d < components) {
        dims.collapsed_dims.push_back(d);
        dims.start_index_map.push_back(d);
        if (wraps) dims.wraps.push_back(d == 0 ? kPlaces : kColumns);
      } else {
        dims.offset_dims.push_back(d - components + 1);
      }
    }
    std::vector<std::int64_t> shape = {kPlaces, kColumns, width + 2}, windows_shape = {rows};
    for (int d = components; d < 3; ++d) windows_shape.push_back(sizes[d]);
    window = IndexedWindow::Resolve(dims, 3, 2, static_cast<int>(windows_shape.size()));
    for (int d = 0; d < 3; ++d) {
      placement.operand_dims[d] = shape[static_cast<std::size_t>(d)];
      placement.slice_sizes[d] = sizes[d];
    }
    std::mt19937 random(static_cast<unsigned>(rows + width));
    const std::size_t index_size = SizeOf(index_type);
    for (std::int64_t i = 0; i < rows * components; ++i) {
      const std::int64_t value = static_cast<std::int64_t>(random() % (kPlaces + 6)) - 3;
      const auto* const bytes = reinterpret_cast<const unsigned char*>(&value);
      index_bytes.insert(index_bytes.end(), bytes, bytes + index_size);
    }
    const auto fill = [&](std::vector<unsigned char>* bytes, const std::vector<std::int64_t>& of) {
      std::size_t n = SizeOf(type);
      for (const std::int64_t extent : of) n *= static_cast<std::size_t>(extent);
      for (std::size_t i = 0; i < n; ++i) bytes->push_back(static_cast<unsigned char>(random() % 60));
    };
    fill(&operand_bytes, shape);
    fill(&windows_bytes, windows_shape);
    out_bytes = operand_bytes;
    operand = Tensor(type, shape, transposed, operand_bytes.data());
    out = Tensor(type, shape, false, out_bytes.data());
    windows = Tensor(type, windows_shape, transposed, windows_bytes.data());
    indices = Tensor(index_type, {rows, components}, false, index_bytes.data());
  }
};

template <typename Check>
void ForAll(Check&& check) {
  for (const DType type : {DType::kU8, DType::kS16, DType::kF32, DType::kF64, DType::kC128}) {
    for (const DType index_type : {DType::kS8, DType::kS32, DType::kU32, DType::kS64}) {
      for (const std::int64_t rows : {0, 1, 2, 7, 64, 65}) {
        for (const std::int64_t width : {1, 3, 17}) {
          for (const int components : {1, 2}) {
            for (const int form : {0, 1, 2, 3}) {
              Problem problem(type, index_type, rows, width, components, (form & 1) != 0, (form & 2) != 0);
              const std::int64_t elements = rows * width * (components == 1 ? kColumns : 1);
              check(problem, rows > 0 && rows <= 64 && elements <= 4096);
            }
          }
        }
      }
    }
  }
}

TEST(Gathers) {
  ForAll([](Problem& p, bool few) {
    Scratch scratch;
    HostContext context{ThreadPool::Global(), scratch};
    const int bound = CheckBound(
        {p.operand, p.indices}, {p.windows},
        [&] { Gather(context, p.window, p.placement, p.operand, p.indices, p.windows); },
        [&](const auto& in, const auto& out) {
          return BindGather(p.window, p.placement, in[0], in[1], out[0]);
        });
    CHECK_EQ(bound, few ? 2 : 0);
  });
}

TEST(Scatters) {
  for (const bool adds : {false, true}) {
    ForAll([&](Problem& p, bool few) {
      const DType type = p.operand.type;
      Expression update = BinaryBody(ScalarOp::kAdd, type);
      if (!adds) {
        update.code.clear();
        update.outputs = {1};
      }
      const ScatterKernel kernel(update);
      for (const bool in_place : {false, true}) {
        Scratch scratch;
        HostContext context{ThreadPool::Global(), scratch};
        const HostTensor operand = in_place ? p.out : p.operand;
        const int bound = CheckBound(
            {operand, p.indices, p.windows}, {p.out},
            [&] {
              kernel.Run(context, p.window, p.placement, false, &operand, p.indices, &p.windows, &p.out);
            },
            [&](const auto& in, const auto& out) {
              return kernel.Bind(p.window, p.placement, in.data(), in[1], in.data() + 2, out.data(),
                                 in_place);
            });
        CHECK_EQ(bound, few ? 2 : 0);
      }
    });
  }
}

}  // namespace
}  // namespace ipu_model
