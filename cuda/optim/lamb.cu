// LAMB: moments and sums of squares, the sums of each tensor, and the update with the rate that
// follows from the sums. The rate is never copied to the CPU.
#include "cuda/pieces.h"
#include "optim/kernels.h"

namespace vitrine::optim::cuda {

using namespace vitrine::cuda;

namespace {

/// Each block writes Σx² and Σu² of its piece.
template <class T>
__global__ void lamb_moments_kernel(double* squares, Pieces<5> pieces, const double* factor,
                                    Live<formulas::Lamb> scalars) {
  const formulas::Lamb f = scalars.get();
  const Piece piece = this_piece(pieces);
  double of_x = 0, of_u = 0;
  const Master<const T> master = pieces.master<const T>(piece);
  const auto update = [&](T x, T grad, T& m, T& v) {
    f.moments(grad, m, v);
    const T u = f.direction(x, m, v);
    of_x += double{x} * double{x};
    of_u += double{u} * double{u};
  };
  update_elements(piece.size, update, master, pieces.gradient<T>(2, piece, factor),
                  State<T>{.wide = pieces.at<T>(3, piece)}, State<T>{.wide = pieces.at<T>(4, piece)});
  of_x = sum_block(of_x);
  of_u = sum_block(of_u);
  if (threadIdx.x == 0) squares[2 * blockIdx.x] = of_x, squares[2 * blockIdx.x + 1] = of_u;
}

template <class T>
__global__ void lamb_kernel(Pieces<5> pieces, const double* sums, Live<formulas::Lamb> scalars) {
  const formulas::Lamb f = scalars.get();
  const Piece piece = this_piece(pieces);
  const T rate = T(f.rate(sums[2 * piece.tensor], sums[2 * piece.tensor + 1]));
  const auto update = [&](T& x, T m, T v) { x -= rate * f.direction(x, m, v); };
  update_elements(piece.size, update, pieces.master<T>(piece), pieces.at<const T>(3, piece),
                  pieces.at<const T>(4, piece));
}

}  // namespace

void lamb_step(List& x, List& partners, const List& g, const Tensor& factor, List& m, List& v,
               Live<formulas::Lamb> s) {
  for_each_table<5>("lamb_step", {&x, &partners, &g, &m, &v}, {},
                    [&](auto type, const Pieces<5>& pieces, unsigned blocks, int64_t) {
                      using T = typename decltype(type)::type;
                      Tensor squares = empty({int64_t{blocks}, 2}, DType::float64, x[0].device());
                      Tensor sums = empty({pieces.count, 2}, DType::float64, x[0].device());
                      VITRINE_LAUNCH((lamb_moments_kernel<T>), blocks, kThreads, 0, squares.data<double>(),
                                     pieces, address_of(factor), s);
                      VITRINE_LAUNCH((sum_pairs_kernel<Pieces<5>>), static_cast<unsigned>(pieces.count),
                                     kThreads, 0, sums.data<double>(), squares.data<double>(), pieces);
                      VITRINE_LAUNCH((lamb_kernel<T>), blocks, kThreads, 0, pieces, sums.data<double>(), s);
                    });
}

}  // namespace vitrine::optim::cuda
