// One value in every element.
#include "common.hpp"

namespace hlo {

template <typename T>
class Fill : public poplar::MultiVertex {
 public:
  poplar::Output<poplar::Vector<T, poplar::VectorLayout::SPAN, 8>> out;
  T value;
  bool compute(unsigned worker) {
    const Share share = shareOf(worker, numWorkers(), out.size());
    for (unsigned i = share.begin; i < share.end; ++i) out[i] = value;
    return true;
  }
};
template class Fill<unsigned char>;
template class Fill<unsigned short>;
template class Fill<unsigned int>;
template class Fill<unsigned long long>;

}  // namespace hlo
