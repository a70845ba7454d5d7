#include "kernels/index/bound_windows.h"

#include <cstdint>
#include <cstring>
#include <utility>

#include "kernels/copy/bound_copy.h"
#include "kernels/host/isa.h"

namespace ipu_model {
namespace {

constexpr std::int64_t kMostRows = 64, kMostElements = 4096;

bool AreFew(const WindowRows::Line& line, const WindowRows::Loop& loop) {
  return line.rows > 0 && loop.elements > 0 && line.rows <= kMostRows &&
         line.rows * loop.elements <= kMostElements;
}

struct BoundScatter {
  Combine combine;
  DType type;
  WindowRows::Line line;
  WindowRows::Loop loop;
};
// Operand 0: the indices, operand 1: the updates, operand 2: the BoundScatter.
void CallScatter(const MicroArguments& m) {
  const auto& bound = *static_cast<const BoundScatter*>(m.operand[2]);
  std::int64_t to[kMostRows], from[kMostRows], count = 0;
  for (std::int64_t row = 0; row < bound.line.rows; ++row) {
    to[count] = bound.line.Place(m.operand[0], row, /*clamp=*/false);
    from[count] = row * bound.line.windows_step;
    count += to[count] != WindowRows::kSkip ? 1 : 0;
  }
  JAX_IPU_FOR_ISA(CombineWindows)(bound.combine, bound.type, bound.loop, {to, from, count}, m.operand[1],
                                  m.result);
}

struct BoundGather {
  std::int64_t size;  // of an element
  WindowRows::Line line;
  BoundCopy window;
};
// Copies the windows with copy(from, to). Operand 0: the operand, operand 1: the indices.
template <typename F>
void ForEachWindow(const MicroArguments& m, const BoundGather& bound, F&& copy) {
  const auto* const operand = static_cast<const char*>(m.operand[0]);
  auto* const out = static_cast<char*>(m.result);
  for (std::int64_t row = 0; row < bound.line.rows; ++row) {
    copy(operand + bound.line.Place(m.operand[1], row, /*clamp=*/true) * bound.size,
         out + row * bound.line.windows_step * bound.size);
  }
}
// Operand 2: the BoundGather.
void CallGather(const MicroArguments& m) {
  const auto& bound = *static_cast<const BoundGather*>(m.operand[2]);
  const CopyLoop& loop = bound.window.loop;
  if (IsContiguous(loop, bound.size)) {
    const auto bytes = static_cast<std::size_t>(loop.total * bound.size);
    if (bytes == 4)
      return ForEachWindow(m, bound, [](const char* from, char* to) { std::memcpy(to, from, 4); });
    return ForEachWindow(m, bound, [bytes](const char* from, char* to) { std::memcpy(to, from, bytes); });
  }
  ForEachWindow(m, bound, [&](const char* from, char* to) { bound.window.copy(bound.window, from, to); });
}

}  // namespace

bool AddScatter(CallList* list, Combine combine, const IndexedWindow& window,
                const WindowPlacement& placement, const ScatterTensors& tensors) {
  const WindowRows rows(window, placement, tensors.out, tensors.indices, tensors.updates);
  BoundScatter bound{combine, tensors.updates.type, {}, rows.WindowLoop()};
  if (!rows.AreLine(&bound.line) || !AreFew(bound.line, bound.loop)) return false;
  list->Add(
      CallScatter, CallList::Output(tensors.output),
      {CallList::Input(tensors.indices_input), CallList::Input(tensors.updates_input), list->Keep(bound)},
      bound.line.rows);
  return true;
}

std::unique_ptr<BoundKernel> BindGather(const IndexedWindow& window, const WindowPlacement& placement,
                                        const HostTensor& operand, const HostTensor& indices,
                                        const HostTensor& out) {
  const WindowRows rows(window, placement, operand, indices, out);
  const WindowRows::Loop loop = rows.WindowLoop();
  WindowRows::Line line;
  if (!rows.AreLine(&line) || !AreFew(line, loop)) return nullptr;
  HostTensor from, to;
  from.type = to.type = operand.type;
  from.rank = to.rank = loop.rank;
  for (int d = 0; d < loop.rank; ++d) {
    from.shape[d] = to.shape[d] = loop.shape[d];
    from.strides[d] = loop.operand[d];
    to.strides[d] = loop.windows[d];
  }
  auto list = std::make_unique<CallList>();
  BoundGather bound{static_cast<std::int64_t>(SizeOf(operand.type)), line, BindCopy(loop.shape, from, to)};
  list->Add(CallGather, CallList::Output(0),
            {CallList::Input(0), CallList::Input(1), list->Keep(std::move(bound))}, line.rows);
  return list;
}

}  // namespace ipu_model
