#include "ops/cpu/gemm/gemm.h"

#include <algorithm>
#include <atomic>
#include <limits>

#include "core/memory/thread_buffer.h"
#include "core/parallel.h"
#include "ops/cpu/gemm/task.h"

namespace vitrine::cpu {
namespace {

/// Below about this many multiply-adds, waking another thread costs more than it saves. Products of
/// few rows take longer for each, because they wait for the numbers of B.
constexpr int64_t kSerialWork = 1 << 19, kSerialThinWork = 1 << 17;

int64_t serial_work(Way way) { return way == Way::blocked ? kSerialWork : kSerialThinWork; }

/// How the C of one product is cut into rows × columns parts. One thread computes a part from
/// operands that it packs itself, once for all its parts: packing twice is cheaper than waiting for
/// another thread.
struct Grid {
  int64_t rows = 1, columns = 1;  // number of parts
  int64_t height, width;          // of a part; the last may be smaller
};

int64_t ceil_div(int64_t x, int64_t y) { return (x + y - 1) / y; }
int64_t round_up(int64_t x, int64_t unit) { return ceil_div(x, unit) * unit; }

/// What the kernels of an instruction set prefer: parts of whole tiles, which have this many rows
/// and columns, and the largest part of B that is packed at once.
struct Preference {
  int64_t rows, columns;
  PackedBlock packed;
};
template <class T>
Preference preference(Isa isa) {
  if (std::is_same_v<T, bfloat16> && isa >= Isa::amx) return {32, 32, kAmxBlock};
  return {8, 16, isa == Isa::avx2 ? kAvx2Block : kAvx512Block};
}

/// Cuts M × N into `parts` parts. Each thread packs its columns of B, so the cut with the least
/// work in the largest part is chosen. Packing of rows of A is counted although it is rare: other
/// operations are cut by rows too, and each core's cache then holds its own rows.
Grid cut(const Preference& unit, int64_t M, int64_t N, int64_t parts) {
  // Packing one element takes as long as about this many multiply-adds.
  constexpr int64_t kPackB = 11, kReadA = 16;
  Grid best{1, 1, M, N};
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int64_t rows = 1; rows <= parts; ++rows) {
    if (parts % rows != 0) continue;
    const int64_t columns = parts / rows;
    const int64_t height = round_up(ceil_div(M, rows), unit.rows);
    const int64_t width = round_up(ceil_div(N, columns), unit.columns);
    const int64_t work = height * width + kReadA * height + kPackB * width;
    if (work >= least) continue;
    least = work;
    best = {ceil_div(M, height), ceil_div(N, width), height, width};
  }
  return best;
}

/// Cuts the rows of each part further, because cores are seldom equally fast: a thread that is done
/// helps another. This is done only if a part's columns of B are packed as one block, which a
/// thread then packs once for all its pieces.
Grid pieces(const Preference& unit, Grid grid, int64_t M, int64_t K) {
  constexpr int64_t kPieces = 4, kPanel = 64;
  if (K > unit.packed.depth || grid.width > unit.packed.columns) return grid;
  const int64_t pieces = std::clamp<int64_t>(grid.height / kPanel, 1, kPieces);
  grid.height = round_up(ceil_div(grid.height, pieces), unit.rows);
  grid.rows = ceil_div(M, grid.height);
  return grid;
}

uint64_t number_of_call() {
  static std::atomic<uint64_t> calls = 0;
  return 1 + calls.fetch_add(1, std::memory_order_relaxed);
}

/// OpenBLAS gives other bits for another block shape, so its blocks depend only on M and N.
Grid blas_blocks(int64_t M, int64_t N) {
  constexpr int64_t kHeight = 192, kWidth = 384;
  const int64_t height = std::min(M, kHeight), width = std::min(N, kWidth);
  return {ceil_div(M, height), ceil_div(N, width), height, width};
}

/// BLAS does not accept overlapping rows. The packed kernels could read them, but all instruction
/// sets must behave the same.
void check_distance(const char* matrix, int64_t rows, int64_t columns, int64_t distance) {
  check(rows <= 1 || columns == 0 || distance >= columns,
        "gemm: the rows of {} are {} elements apart, wanted {} or more, the length of a row", matrix,
        distance, columns);
}

template <class T, class TC>
void check_distances(const GemmTask<T, TC>& t) {
  const bool ta = t.ta == Trans::yes, tb = t.tb == Trans::yes;
  check_distance("A", ta ? t.K : t.M, ta ? t.M : t.K, t.lda);
  check_distance("B", tb ? t.N : t.K, tb ? t.K : t.N, t.ldb);
  check_distance("C", t.M, t.N, t.ldc);
}

template <class T, class TC>
void run(Isa isa, const GemmTask<T, TC>& task) {
#if defined(__x86_64__)
  if constexpr (!std::is_same_v<T, double>) {
    switch (isa) {
      case Isa::amx_emulated:
        if constexpr (std::is_same_v<T, bfloat16>) return amx_emulated::gemm(task);
        [[fallthrough]];
      case Isa::amx:
        if constexpr (std::is_same_v<T, bfloat16>) return amx::gemm(task);
        [[fallthrough]];
      case Isa::avx512_bf16:
        if constexpr (std::is_same_v<T, bfloat16>) return avx512_bf16::gemm(task);
        [[fallthrough]];
      case Isa::avx512: return avx512::gemm(task);
      case Isa::avx2: return avx2::gemm(task);
      case Isa::portable: break;
    }
  }
#endif
  constexpr int64_t kFewestRows = 4;  // OpenBLAS computes more rows as fast
  if constexpr (!std::is_same_v<T, double>)
    if (task.way == Way::dots && task.M <= kFewestRows) return portable::dots(task);
  blas::gemm(task);
}

}  // namespace

float* scratch(Scratch slot, size_t floats) {
  switch (slot) {
    case Scratch::a: return detail::thread_buffer<float, Scratch::a>(floats);
    case Scratch::b: return detail::thread_buffer<float, Scratch::b>(floats);
    case Scratch::c: break;
  }
  return detail::thread_buffer<float, Scratch::c>(floats);
}

template <class T, class TC>
void gemm_batched_on(Isa isa, const MatrixBatch& batch, Trans ta, Trans tb, int64_t M, int64_t N, int64_t K,
                     AccumulatorOf<TC> alpha, const T* A, int64_t lda, const T* B, int64_t ldb,
                     AccumulatorOf<TC> beta, TC* C, int64_t ldc, const Epilogue<TC>* epilogue) {
  const int64_t count = batch.outer_count * batch.inner_count;
  if (M <= 0 || N <= 0 || count <= 0) return;
  if (alpha == 0) K = 0;
  GemmTask<T, TC> whole{way_for(M, tb),
                        ta,
                        tb,
                        M,
                        N,
                        K,
                        alpha,
                        A,
                        lda,
                        B,
                        ldb,
                        beta,
                        C,
                        ldc,
                        epilogue ? *epilogue : Epilogue<TC>()};
  check_distances(whole);
  const bool blas = isa == Isa::portable || std::is_same_v<T, double>;
  const int64_t team =
      in_parallel() || count * M * N * std::max<int64_t>(K, 16) < serial_work(whole.way) ? 1 : threads();
  // If there are few products, they are cut, so that every thread has an equal share. If there are
  // many, each is given to one thread.
  const int64_t parts = count >= 4 * team || count % team == 0 ? 1 : team;
  const Preference unit = preference<T>(isa);
  const Grid grid = blas        ? blas_blocks(M, N)
                    : parts > 1 ? pieces(unit, cut(unit, M, N, parts), M, K)
                                : cut(unit, M, N, parts);
  const int64_t tasks = count * grid.rows * grid.columns;
  if (tasks > 1) whole.call = number_of_call();
  const auto body = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t product = i / (grid.rows * grid.columns), cell = i % (grid.rows * grid.columns);
      const int64_t outer = product / batch.inner_count, inner = product % batch.inner_count;
      GemmTask<T, TC> task = whole;
      task.A += outer * batch.a.outer + inner * batch.a.inner;
      task.B += outer * batch.b.outer + inner * batch.b.inner;
      task.C += outer * batch.c.outer + inner * batch.c.inner;
      task.batch = product;
      const int64_t row = cell % grid.rows * grid.height, column = cell / grid.rows * grid.width;
      run(isa, task.part(row, std::min(grid.height, M - row), column, std::min(grid.width, N - column)));
    }
  };
  if (team == 1)
    body(0, tasks);
  else
    parallel_for(0, tasks, 1, body);
}

template <class T, class TC>
void gemm_batched(const MatrixBatch& batch, Trans ta, Trans tb, int64_t M, int64_t N, int64_t K,
                  AccumulatorOf<TC> alpha, const T* A, int64_t lda, const T* B, int64_t ldb,
                  AccumulatorOf<TC> beta, TC* C, int64_t ldc, const Epilogue<TC>* epilogue) {
  gemm_batched_on(isa(), batch, ta, tb, M, N, K, alpha, A, lda, B, ldb, beta, C, ldc, epilogue);
}

template <class T, class TC>
void gemm(Trans ta, Trans tb, int64_t M, int64_t N, int64_t K, AccumulatorOf<TC> alpha, const T* A,
          int64_t lda, const T* B, int64_t ldb, AccumulatorOf<TC> beta, TC* C, int64_t ldc,
          const Epilogue<TC>* epilogue) {
  gemm_batched(MatrixBatch(), ta, tb, M, N, K, alpha, A, lda, B, ldb, beta, C, ldc, epilogue);
}

namespace {

template <class T>
void run(Isa isa, const Int8Task<T>& task) {
#if defined(__x86_64__)
  if (isa >= Isa::avx512) return avx512::gemm_int8(task);
  if (isa == Isa::avx2) return avx2::gemm_int8(task);
#endif
  portable::gemm_int8(task);
}

}  // namespace

template <class T>
void gemm_int8_on(Isa isa, int64_t M, int64_t N, int64_t K, const T* A, const uint8_t* levels,
                  const float* scale, const T* bias, T* C) {
  if (M <= 0 || N <= 0) return;
  constexpr int64_t kColumns = 256;
  const auto body = [&](int64_t begin, int64_t end) {
    const int64_t j = begin * kColumns, n = std::min(end * kColumns, N) - j;
    run(isa, Int8Task<T>{M, n, K, A, levels + j * K, scale + j, bias ? bias + j : nullptr, C + j, N});
  };
  const int64_t blocks = ceil_div(N, kColumns);
  if (M * N * K < kSerialThinWork)
    body(0, blocks);
  else
    parallel_for(0, blocks, 1, body);
}

template <class T>
void gemm_int8(int64_t M, int64_t N, int64_t K, const T* A, const uint8_t* levels, const float* scale,
               const T* bias, T* C) {
  gemm_int8_on(isa(), M, N, K, A, levels, scale, bias, C);
}

#define VITRINE_GEMM_INT8(T)                                                                                \
  template void gemm_int8(int64_t, int64_t, int64_t, const T*, const uint8_t*, const float*, const T*, T*); \
  template void gemm_int8_on(Isa, int64_t, int64_t, int64_t, const T*, const uint8_t*, const float*,        \
                             const T*, T*);
VITRINE_GEMM_INT8(float)
VITRINE_GEMM_INT8(bfloat16)
VITRINE_GEMM_INT8(float16)
#undef VITRINE_GEMM_INT8

namespace {

/// A task that describes B alone.
template <class T>
GemmTask<T, float> task_of(const PackedMatrix<T>& b) {
  GemmTask<T, float> task{};
  task.way = Way::blocked;
  task.tb = b.trans;
  task.N = b.N, task.K = b.K;
  task.B = b.B, task.ldb = b.ldb;
  return task;
}

/// What packed memory consists of: vectors of `width` columns, `step` rows at a time, `per_unit`
/// elements in a float. 0 where the kernels do not read a packed B.
struct Packing {
  int64_t width = 0, step = 1, per_unit = 1;
};
template <class T>
Packing packing() {
  constexpr bool kPairs = std::is_same_v<T, bfloat16>;
  if (std::is_same_v<T, double>) return {};
  switch (isa()) {
    case Isa::amx:
    case Isa::amx_emulated: return kPairs ? Packing{16, 32, 2} : Packing{16, 1, 1};
    case Isa::avx512_bf16: return kPairs ? Packing{16, 2, 2} : Packing{16, 1, 1};
    case Isa::avx512: return {16, 1, 1};
    case Isa::avx2: return {8, 1, 1};
    case Isa::portable: break;
  }
  return {};
}

}  // namespace

template <class T>
size_t packed_size(int64_t N, int64_t K) {
  const auto [width, step, per_unit] = packing<T>();
  return width == 0 ? 0 : static_cast<size_t>(round_up(K, step) * round_up(N, width) / per_unit);
}

template <class T>
int64_t packed_step() {
  return packing<T>().step;
}

template <class T>
PackedMatrix<T> pack(Trans tb, int64_t N, int64_t K, const T* B, int64_t ldb, float* to) {
  PackedMatrix<T> b{tb, N, K, B, ldb, nullptr};
#if defined(__x86_64__)
  if constexpr (!std::is_same_v<T, double>) {
    const GemmTask<T, float> task = task_of(b);
    b.units = to;
    switch (isa()) {
      case Isa::amx:
      case Isa::amx_emulated:
        if constexpr (std::is_same_v<T, bfloat16>) return amx::pack(task, to), b;
        [[fallthrough]];
      case Isa::avx512_bf16:
        if constexpr (std::is_same_v<T, bfloat16>) return avx512_bf16::pack(task, to), b;
        [[fallthrough]];
      case Isa::avx512: return avx512::pack(task, to), b;
      case Isa::avx2: return avx2::pack(task, to), b;
      case Isa::portable: b.units = nullptr;
    }
  }
#endif
  return b;
}

template <class T, class TC>
void multiply(Trans ta, int64_t M, int64_t N, int64_t K, AccumulatorOf<TC> alpha, const T* A, int64_t lda,
              const PackedMatrix<T>& B, AccumulatorOf<TC> beta, TC* C, int64_t ldc) {
  if (M <= 0 || N <= 0) return;
  check(N <= B.N && K <= B.K && (K == B.K || K % packed_step<T>() == 0),
        "multiply: wanted at most [{}, {}] of the right operand, rows in steps of {}, got [{}, {}]", B.K, B.N,
        packed_step<T>(), K, N);
  GemmTask<T, TC> task{Way::blocked, ta, B.trans, M, N, K, alpha, A, lda, B.B, B.ldb, beta, C, ldc, {}};
  task.packed = B.units;
  task.packed_columns = B.N, task.packed_rows = B.K;
  check_distances(task);
  run(isa(), task);
}

#define VITRINE_GEMM(T, TC)                                                                                  \
  template void gemm(Trans, Trans, int64_t, int64_t, int64_t, AccumulatorOf<TC>, const T*, int64_t,          \
                     const T*, int64_t, AccumulatorOf<TC>, TC*, int64_t, const Epilogue<TC>*);               \
  template void gemm_batched(const MatrixBatch&, Trans, Trans, int64_t, int64_t, int64_t, AccumulatorOf<TC>, \
                             const T*, int64_t, const T*, int64_t, AccumulatorOf<TC>, TC*, int64_t,          \
                             const Epilogue<TC>*);                                                           \
  template void gemm_batched_on(Isa, const MatrixBatch&, Trans, Trans, int64_t, int64_t, int64_t,            \
                                AccumulatorOf<TC>, const T*, int64_t, const T*, int64_t, AccumulatorOf<TC>,  \
                                TC*, int64_t, const Epilogue<TC>*);                                          \
  template void multiply(Trans, int64_t, int64_t, int64_t, AccumulatorOf<TC>, const T*, int64_t,             \
                         const PackedMatrix<T>&, AccumulatorOf<TC>, TC*, int64_t);
VITRINE_GEMM(float, float)
VITRINE_GEMM(double, double)
VITRINE_GEMM(bfloat16, float)
VITRINE_GEMM(bfloat16, bfloat16)
VITRINE_GEMM(float16, float)
VITRINE_GEMM(float16, float16)
#undef VITRINE_GEMM

#define VITRINE_PACK(T)                             \
  template size_t packed_size<T>(int64_t, int64_t); \
  template int64_t packed_step<T>();                \
  template PackedMatrix<T> pack(Trans, int64_t, int64_t, const T*, int64_t, float*);
VITRINE_PACK(float)
VITRINE_PACK(double)
VITRINE_PACK(bfloat16)
VITRINE_PACK(float16)
#undef VITRINE_PACK

}  // namespace vitrine::cpu
