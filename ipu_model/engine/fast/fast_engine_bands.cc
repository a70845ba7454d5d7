// Groups of operations that the fast engine runs band by band, with what lies between them in the caches.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/fast/fast_engine.h"
#include "engine/fast/packed_tensor.h"

namespace ipu_model {

void FastEngine::MakeBandMemory(const BandGroup& group) {
  BandMemory& memory = band_memory_.emplace_back();
  if (group.partial_bytes > 0)
    memory.partials = Allocate(kAlignment, static_cast<std::size_t>(group.partial_bytes));
  memory.workers = std::vector<BandWorker>(static_cast<std::size_t>(ThreadPool::Global().size()));
  for (BandWorker& worker : memory.workers) {
    if (group.local_bytes > 0)
      worker.local = Allocate(kAlignment, static_cast<std::size_t>(group.local_bytes));
    for (const BandedOperation& banded : group.operations) {
      const BoundOperation& whole = operations_[banded.operation];
      std::vector<HostTensor>& in = worker.in.emplace_back(whole.in);
      std::vector<HostTensor>& out = worker.out.emplace_back(whole.out);
      for (std::size_t k = 0; k < banded.local.size(); ++k) {
        HostTensor& tensor = k < in.size() ? in[k] : out[k - in.size()];
        if (banded.local[k] >= 0) tensor.data = worker.local.get() + banded.local[k];
      }
      for (std::size_t o = 0; o < banded.partials.size(); ++o) out[o] = Partial(memory, banded, o);
    }
  }
}

HostTensor FastEngine::Partial(const BandMemory& memory, const BandedOperation& banded,
                               std::size_t output) const {
  const BoundOperation& whole = operations_[banded.operation];
  View view;
  view.type = whole.combining->PartialType(static_cast<unsigned>(output));
  view.shape = whole.operation->outputs[output].shape;
  HostTensor partial = Packed(view);
  partial.data = memory.partials.get() + banded.partials[output];
  return partial;
}

void FastEngine::RunBands(HostContext& context, std::uint32_t index) {
  const BandGroup& group = plan_.bands[index];
  BandMemory& memory = band_memory_[index];
  const std::int64_t bands = group.bands();
  const int workers = static_cast<int>(std::min<std::int64_t>(bands, context.pool.size()));
  WorkShares shares(bands, workers);
  auto task = [&](int w) {
    BandWorker& worker = memory.workers[static_cast<std::size_t>(w)];
    for (std::int64_t band = shares.Next(w); band != WorkShares::kNone; band = shares.Next(w)) {
      for (std::size_t i = 0; i < group.operations.size(); ++i) RunBand(group, memory, i, band, &worker);
    }
  };
  context.pool.Run(workers, TaskRef(task));
  for (const BandedOperation& banded : group.operations) {
    if (banded.partials.empty()) continue;
    const BoundOperation& whole = operations_[banded.operation];
    std::vector<HostTensor> partials;
    for (std::size_t o = 0; o < banded.partials.size(); ++o) {
      HostTensor& t = partials.emplace_back(Partial(memory, banded, o));
      const std::int64_t results = t.num_elements();
      std::copy_backward(t.shape, t.shape + t.rank, t.shape + t.rank + 1);
      std::copy_backward(t.strides, t.strides + t.rank, t.strides + t.rank + 1);
      ++t.rank;
      t.shape[0] = bands;
      t.strides[0] = results;
    }
    scratch_.Reset();
    whole.combining->Combine(context, partials, whole.in, whole.out);
  }
}

void FastEngine::RunBand(const BandGroup& group, const BandMemory& memory, std::size_t i, std::int64_t band,
                         BandWorker* worker) const {
  const std::int64_t outer = band / group.inner_bands(), begin = band % group.inner_bands() * group.rows;
  const std::int64_t count = std::min(group.rows, group.extent - begin);
  const BandedOperation& banded = group.operations[i];
  const BoundOperation& whole = operations_[banded.operation];
  std::vector<HostTensor>&in = worker->in[i], &out = worker->out[i];
  for (std::size_t k = 0; k < banded.dimensions.size(); ++k) {
    const bool input = k < whole.in.size();
    const std::size_t at = input ? k : k - whole.in.size();
    HostTensor& to = input ? in[at] : out[at];
    if (!input && !banded.partials.empty()) {
      to.data = memory.partials.get() + banded.partials[at] +
                band * to.num_elements() * static_cast<std::int64_t>(SizeOf(to.type));
      continue;
    }
    const HostTensor& from = input ? whole.in[at] : whole.out[at];
    const bool local = banded.local[k] >= 0;
    std::int64_t elements = 0;
    if (const int d = banded.dimensions[k]; d >= 0) {
      to.shape[d] = count;
      elements += begin * from.strides[d];
    }
    if (const int d = group.outer > 1 ? banded.outer_dimensions[k] : -1; d >= 0) {
      to.shape[d] = 1;
      elements += outer * from.strides[d];
    }
    if (!local) to.data = from.as<unsigned char>() + elements * static_cast<std::int64_t>(SizeOf(from.type));
  }
  CallerPool caller;
  HostContext context{caller, worker->scratch};
  worker->scratch.Reset();
  if (banded.partials.empty()) {
    whole.operation->Run(context, in, out);
  } else {
    whole.combining->RunPart(context, in, out);
  }
}

}  // namespace ipu_model
