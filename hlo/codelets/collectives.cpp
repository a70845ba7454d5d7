// Pieces in an order that depends on the replica.
#include "common.hpp"

namespace hlo {

// Piece p of the result is the piece choice[replica * outs + p], or zeros if there is no such piece. Pieces
// are one after another in `pieces` and in `out`.
template <typename T>
class SelectPieces : public poplar::MultiVertex {
 public:
  In<T> pieces;
  poplar::Input<unsigned> replica;
  Out<T> out;
  poplar::Vector<unsigned> choice;
  unsigned outs;
  bool compute(unsigned worker) {
    const unsigned length = out.size() / outs, given = pieces.size() / length;
    const Share share = shareOf(worker, numWorkers(), out.size());
    for (unsigned i = share.begin; i < share.end; ++i) {
      const unsigned from = choice[*replica * outs + i / length];
      out[i] = from < given ? pieces[from * length + i % length] : T{0};
    }
    return true;
  }
};
template class SelectPieces<unsigned char>;
template class SelectPieces<unsigned short>;
template class SelectPieces<unsigned int>;
template class SelectPieces<unsigned long long>;

}  // namespace hlo
