// Geometry of gather and scatter: the window of the operand that each index vector selects.
#ifndef IPU_MODEL_KERNELS_INDEX_INDEXED_WINDOW_H_
#define IPU_MODEL_KERNELS_INDEX_INDEXED_WINDOW_H_

#include <cstdint>
#include <vector>

#include "hlo/WindowDims.hpp"
#include "kernels/host/host_tensor.h"

namespace ipu_model {

using hlo::WindowDims;

// Dimension numbers resolved per operand dimension. "Windows" means the gather's result or the scatter's
// updates; its dimensions are batch dimensions (one window per position) and window dimensions.
struct IndexedWindow {
  int operand_rank = 0, indices_rank = 0, windows_rank = 0;
  int batch_rank = 0;
  int index_vector_dim = 0;  // equal to indices_rank if the index vectors are scalars
  int num_components = 0;
  int batch_dim[kMaxRank] = {};   // per batch dimension: the dimension of windows
  int index_dim[kMaxRank] = {};   // per batch dimension: the dimension of indices
  int component[kMaxRank] = {};   // per operand dimension: the index component that gives its start, or -1
  int batching[kMaxRank] = {};    // per operand dimension: the batch dimension that it is paired with, or -1
  int window_dim[kMaxRank] = {};  // per operand dimension: the dimension of windows, or -1
  std::int64_t wrap[kMaxRank] = {};  // per operand dimension: the value added to a negative index
  int num_wraps = 0;                 // number of non-zero wraps

  // Throws std::invalid_argument if the numbers contradict each other or the ranks.
  static IndexedWindow Resolve(const WindowDims& dims, int operand_rank, int indices_rank, int windows_rank);
};

// The position of a call's tensors inside the whole tensors: a vertex works on boxes of them. For a whole
// operation, all positions are zero and the extents are the tensors' own. Indexed by operand dimension,
// except batch_begin, which is indexed by batch dimension.
struct WindowPlacement {
  std::int64_t operand_dims[kMaxRank] = {};  // extents of the whole operand
  std::int64_t slice_sizes[kMaxRank] = {};   // extents of a whole window; 1 in dimensions that it lacks
  std::int64_t operand_begin[kMaxRank] = {};
  std::int64_t window_begin[kMaxRank] = {};
  std::int64_t batch_begin[kMaxRank] = {};
  // True if the operand may hold only a part of an indexed dimension. Windows are then clipped to that part.
  bool clipped = false;
};

// Walks the batch positions of one call in row-major order.
class WindowRows {
 public:
  static constexpr std::int64_t kSkip = INT64_MIN;

  WindowRows(const IndexedWindow& window, const WindowPlacement& placement, const HostTensor& operand,
             const HostTensor& indices, const HostTensor& windows);

  std::int64_t num_rows() const { return num_rows_; }

  // For rows [begin, begin + n): writes the offset of the window's first element in the operand and in
  // windows, in elements. With `clamp`, starts are clamped; without it, the operand offset is kSkip if the
  // window is not inside the operand. Not for clipped placements.
  void Offsets(std::int64_t begin, std::int64_t n, bool clamp, std::int64_t* operand_offset,
               std::int64_t* windows_offset) const;

  // Whether the rows are single elements, whose offsets fit into 32 bits, and lie side by side in the
  // windows.
  bool HavePlaces() const;
  // For such rows, with clamped starts: the first up to n rows from `begin` on that are one segment. Writes
  // their offsets in the operand and that of the segment in the windows, and returns how many they are.
  std::int64_t Places(std::int64_t begin, std::int64_t n, std::int32_t* place,
                      std::int64_t* windows_offset) const;

  // The rows, if every window is one element selected by one index component: row r selects operand element
  // base + index * operand_stride, where the index is element r * index_stride; `wrap` is added to a negative
  // index.
  struct Elements {
    DType type;
    const void* index;
    std::int64_t index_stride, wrap, limit, base, operand_stride, windows_step;

    // The index types: those of whole bytes whose values fit into 64 bits with a sign.
    static bool Supports(DType index_type) {
      bool supported = false;
      WithIndex(index_type, [&](auto) { supported = true; });
      return supported;
    }
    // Calls f with a zero of the C++ type of the indices.
    template <typename F>
    static void WithIndex(DType index_type, F&& f) {
      switch (index_type) {
        case DType::kS8:
          return f(std::int8_t{});
        case DType::kS16:
          return f(std::int16_t{});
        case DType::kS32:
          return f(std::int32_t{});
        case DType::kS64:
          return f(std::int64_t{});
        case DType::kU8:
          return f(std::uint8_t{});
        case DType::kU16:
          return f(std::uint16_t{});
        case DType::kU32:
          return f(std::uint32_t{});
        default:
          return;
      }
    }

    // Calls f(row, operand offset) for the rows [begin, end). Clamps the indices, or leaves out those that
    // are outside.
    template <typename I, bool kClamp, typename F>
    void ForEach(std::int64_t begin, std::int64_t end, F&& f) const {
      const I* const at = static_cast<const I*>(index);
      const auto largest = static_cast<std::uint64_t>(limit);
      for (std::int64_t row = begin; row < end; ++row) {
        auto v = static_cast<std::int64_t>(at[row * index_stride]);
        v += v < 0 ? wrap : 0;
        if constexpr (kClamp) {
          v = v < 0 ? 0 : v > limit ? limit : v;
        } else if (static_cast<std::uint64_t>(v) > largest) {
          continue;
        }
        f(row, base + v * operand_stride);
      }
    }
  };
  // Returns false if the rows have another form or index type.
  bool AreElements(Elements* elements) const;
  // The same for windows of any size of which one index gives the place; those of different indices do not
  // overlap. Offsets are those of the first element.
  bool AreIndexed(Elements* elements) const;

  // Single elements of which one index component gives the place in each row of a batch (take_along_axis):
  // consecutive rows have the form of Elements. Returns how many rows from `begin` on do, at most up to
  // `end`, with row `begin` as their row 0 and at `windows_offset` in windows, or 0 for other rows.
  std::int64_t ElementSegment(std::int64_t begin, std::int64_t end, Elements* elements,
                              std::int64_t* windows_offset) const;

  // The rows, if they lie along one dimension at most, without the addresses of the tensors: row r is at
  // base + r * step plus what its indices give in the operand, and at r * windows_step in windows.
  struct Line {
    struct Component {
      std::int64_t index, wrap, limit, stride;  // `index`: of row 0, in elements of the indices
    };
    DType type;
    std::int64_t rows, index_step, base, step, windows_step;
    int num_components = 0;
    Component component[kMaxRank];

    // Returns the offset of a row's window in the operand. With `clamp`, starts are clamped; without it, it
    // is kSkip if the window is not inside the operand.
    std::int64_t Place(const void* indices, std::int64_t row, bool clamp) const;
  };
  // Returns false if they lie along several dimensions, or for clipped placements.
  bool AreLine(Line* line) const;

  // The part of one row's window that is inside this call's operand. Writes, per operand dimension, its start
  // in the operand and in the window, and its extent. Returns false if nothing is inside.
  bool Clip(std::int64_t row, bool clamp, std::int64_t* operand_begin, std::int64_t* window_begin,
            std::int64_t* extent, std::int64_t* windows_offset) const;

  // The window's dimensions of extent above 1; neighbours are merged where both tensors allow it. Strides are
  // in elements. `indexed`: an index gives the dimension's start, so windows may overlap along it.
  struct Loop {
    int rank = 0;
    std::int64_t shape[kMaxRank], operand[kMaxRank], windows[kMaxRank];
    bool indexed[kMaxRank];
    std::int64_t elements = 1;
    bool contiguous() const { return rank == 1 && operand[0] == 1 && windows[0] == 1; }
  };
  Loop WindowLoop() const;

 private:
  std::int64_t Start(int dim, const char* index, const std::int64_t* batch) const;

  const IndexedWindow& window_;
  const WindowPlacement& placement_;
  const HostTensor &operand_, &indices_, &windows_;
  std::int64_t num_rows_ = 1;
  std::int64_t batch_shape_[kMaxRank], batch_windows_[kMaxRank], batch_indices_[kMaxRank];
  std::int64_t component_stride_ = 0;
  // The batch dimensions of more than one position; neighbours are merged where all tensors allow it. Strides
  // are in elements; `operand_base_` is the offset of the first row's window with indices of zero.
  struct Batch {
    std::int64_t count, operand, windows, indices;
  };
  int batches_ = 0;
  Batch batch_[kMaxRank];
  std::int64_t operand_base_ = 0;

  // A row: its position in each of `batch_`, and its offsets.
  struct Position {
    std::int64_t at[kMaxRank] = {}, operand = 0, windows = 0, indices = 0;

    void Move(const Batch& batch, std::int64_t steps) {
      operand += steps * batch.operand;
      windows += steps * batch.windows;
      indices += steps * batch.indices;
    }
  };
  Position PositionOf(std::int64_t row) const;
  // Writes the form of the rows from `begin` on, along the last of `batch_`. Returns false if they have none.
  bool FindElements(std::int64_t begin, Elements* elements) const;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_INDEX_INDEXED_WINDOW_H_
