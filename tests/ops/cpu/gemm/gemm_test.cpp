// The tuned matrix product against its definition in float64, on every instruction set that this
// CPU supports.
#include "ops/cpu/gemm/gemm.h"

#include <doctest/doctest.h>
#include <malloc.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "core/parallel.h"
#include "ops/cpu/gemm/plain.h"
#include "tests/environment.h"

using namespace vitrine;
using cpu::Trans;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<Isa> available() {
  std::vector<Isa> sets;
  for (Isa set : {Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx, Isa::amx_emulated})
    if (detail::includes(isa(), set)) sets.push_back(set);
  return sets;
}

/// Uniform in [-1, 1), from a fixed sequence.
double uniform(uint64_t& state) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return static_cast<double>(state >> 40) / (1 << 23) - 1;
}

/// rows × columns values, with a gap of NaN after each row: reading the gap spreads NaN.
template <class T>
struct Matrix {
  int64_t rows, columns, ld;
  std::vector<T> data;

  Matrix(int64_t rows, int64_t columns, int64_t gap, uint64_t seed)
      : rows(rows), columns(columns), ld(columns + gap), data(rows * ld, T(static_cast<float>(kNaN))) {
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) (*this)(i, j) = T(static_cast<float>(uniform(seed)));
  }
  T& operator()(int64_t i, int64_t j) { return data[i * ld + j]; }
  /// The same numbers in float64.
  std::vector<double> wide() const { return std::vector<double>(data.begin(), data.end()); }
};

struct Shape {
  int64_t M, N, K;
};

/// One product T → TC and its reference, with everything that may vary.
template <class T, class TC>
struct Case {
  Trans ta, tb;
  Shape s;
  double alpha = 1, beta = 0;
  bool bias = false;
  int64_t gap = 3;

  std::string describe() const {
    return fmt::format("{} -> {}: {}{} M {} N {} K {} alpha {} beta {} bias {}", name(dtype_v<T>),
                       name(dtype_v<TC>), ta == Trans::yes ? 'T' : 'N', tb == Trans::yes ? 'T' : 'N', s.M,
                       s.N, s.K, alpha, beta, bias);
  }

  void check() const {
    Matrix<T> A = ta == Trans::yes ? Matrix<T>(s.K, s.M, gap, 1) : Matrix<T>(s.M, s.K, gap, 1);
    Matrix<T> B = tb == Trans::yes ? Matrix<T>(s.N, s.K, gap, 2) : Matrix<T>(s.K, s.N, gap, 2);
    Matrix<TC> C(s.M, s.N, gap, 3);
    Matrix<TC> b(1, s.N, 0, 4);
    std::vector<double> expected = C.wide();
    cpu::gemm_plain(ta, tb, s.M, s.N, s.K, alpha, A.wide().data(), A.ld, B.wide().data(), B.ld, beta,
                    expected.data(), C.ld);
    double largest = 0;
    for (int64_t i = 0; i < s.M; ++i)
      for (int64_t j = 0; j < s.N; ++j) {
        if (bias) expected[i * C.ld + j] += static_cast<double>(b(0, j));
        largest = std::max(largest, std::abs(expected[i * C.ld + j]));
      }
    if (beta == 0)
      for (int64_t i = 0; i < s.M; ++i)
        for (int64_t j = 0; j < s.N; ++j) C(i, j) = TC(static_cast<float>(kNaN));
    const std::vector<TC> before = C.data;
    cpu::Epilogue<TC> epilogue;
    if (bias) epilogue.bias = b.data.data();
    // Rounding of K float sums grows as √K; the sums of numbers below 1 are about √K / 3 as well. A
    // 16-bit result is rounded once more.
    const double sums =
        8 * epsilon(dtype_v<AccumulatorOf<TC>>) * std::max(1.0, std::sqrt(static_cast<double>(s.K)));
    const double bound = sums * std::max(1.0, largest) + 0.5 * epsilon(dtype_v<TC>) * largest;
    for (Isa set : available()) {
      C.data = before;
      cpu::gemm_batched_on(set, {}, ta, tb, s.M, s.N, s.K, AccumulatorOf<TC>(alpha), A.data.data(), A.ld,
                           B.data.data(), B.ld, AccumulatorOf<TC>(beta), C.data.data(), C.ld, &epilogue);
      double worst = 0;
      bool gap_kept = true;
      for (int64_t i = 0; i < s.M; ++i) {
        for (int64_t j = 0; j < s.N; ++j) {
          const double error = std::abs(static_cast<double>(C(i, j)) - expected[i * C.ld + j]);
          worst = error <= worst ? worst : error;  // NaN stays
        }
        gap_kept &= std::memcmp(&C(i, 0) + s.N, &before[i * C.ld] + s.N, gap * sizeof(TC)) == 0;
      }
      INFO(describe() << " on " << name(set));
      CHECK(worst <= bound);
      CHECK(gap_kept);
    }
  }
};

const std::vector<std::pair<Trans, Trans>> kTransposes = {
    {Trans::no, Trans::no}, {Trans::no, Trans::yes}, {Trans::yes, Trans::no}, {Trans::yes, Trans::yes}};

/// Large shapes take the transposes by turn, from `turn` on, if the definition would take too long
/// for all of them.
template <class T, class TC>
void check_shapes(const std::vector<Shape>& shapes, size_t turn) {
  for (const auto& [ta, tb] : kTransposes)
    for (const Shape& s : shapes) {
      const bool large = s.M * s.N * s.K > 1'000'000;
      if (large && !test::all_samples() && turn++ % 5 != 0) continue;
      Case<T, TC>{ta, tb, s}.check();
      Case<T, TC>{ta, tb, s, -0.75, 0.5, true}.check();
    }
}

/// Shapes around the sizes of vectors, tiles, strips, panels and blocks, and shapes that span
/// several of each.
const std::vector<Shape> kShapes = {
    {1, 1, 1},      {1, 65, 129},    {2, 3, 5},      {3, 130, 67},    {5, 17, 1},      {7, 1, 33},
    {8, 48, 16},    {9, 49, 17},     {13, 31, 63},   {16, 16, 16},    {17, 33, 127},   {31, 97, 2},
    {33, 129, 65},  {34, 400, 385},  {63, 13, 7},    {65, 24, 300},   {70, 800, 900},  {129, 5, 129},
    {1, 2100, 770}, {130, 63, 1200}, {40, 390, 800}, {12, 769, 1030}, {200, 100, 1540}};

}  // namespace

TEST_CASE("gemm: every small size is right for every transpose") {
#ifdef VITRINE_SANITIZED  // a part of the sizes, because these builds are slow
  const std::vector<int64_t> sizes = {1, 3, 17, 33, 129}, depths = {1, 7, 129};
#else
  const std::vector<int64_t> sizes = {1, 2, 3, 5, 7, 13, 17, 31, 33, 63, 65, 127, 129};
  const std::vector<int64_t> depths = {1, 2, 7, 16, 33, 129};
#endif
  for (const auto& [ta, tb] : kTransposes)
    for (int64_t M : sizes)
      for (int64_t N : sizes)
        for (int64_t K : depths) {
          Case<float, float>{ta, tb, {M, N, K}}.check();
          Case<bfloat16, bfloat16>{ta, tb, {M, N, K}}.check();
        }
}

TEST_CASE("gemm: float32 agrees with the definition") { check_shapes<float, float>(kShapes, 0); }
TEST_CASE("gemm: float64 agrees with the definition") { check_shapes<double, double>(kShapes, 1); }
TEST_CASE("gemm: bfloat16 into float32 agrees with the definition") {
  check_shapes<bfloat16, float>(kShapes, 2);
}
TEST_CASE("gemm: bfloat16 agrees with the definition") { check_shapes<bfloat16, bfloat16>(kShapes, 3); }
TEST_CASE("gemm: float16 into float32 agrees with the definition") {
  check_shapes<float16, float>(kShapes, 4);
}
TEST_CASE("gemm: float16 agrees with the definition") { check_shapes<float16, float16>(kShapes, 5); }

TEST_CASE("gemm: beta accumulates, alpha scales, in every combination") {
  for (const auto& [ta, tb] : kTransposes)
    for (double alpha : {0.0, 1.0, 2.5})
      for (double beta : {0.0, 1.0, -3.0})
        for (bool bias : {false, true})
          for (const Shape& s : {Shape{1, 50, 40}, Shape{4, 50, 40}, Shape{50, 50, 40}, Shape{20, 50, 400}}) {
            Case<float, float>{ta, tb, s, alpha, beta, bias}.check();
            Case<bfloat16, bfloat16>{ta, tb, s, alpha, beta, bias}.check();
          }
}

TEST_CASE("gemm: an empty sum is beta C plus bias, and an empty C is left alone") {
  for (const Shape& s : {Shape{1, 70, 0}, Shape{5, 70, 0}, Shape{50, 70, 0}}) {
    for (const auto& [ta, tb] : kTransposes) {
      Case<float, float>{ta, tb, s, 1, 0, false}.check();
      Case<float, float>{ta, tb, s, 1, 2, true}.check();
      Case<double, double>{ta, tb, s, 1, 2, true}.check();
      Case<float16, float16>{ta, tb, s, 1, 0, true}.check();
      Case<bfloat16, float>{ta, tb, s, 1, 2, true}.check();
      Case<bfloat16, bfloat16>{ta, tb, s, 1, 0, true}.check();
    }
  }
  float untouched = 5;
  cpu::gemm<float, float>(Trans::no, Trans::no, 0, 1, 1, 1, nullptr, 1, nullptr, 1, 0, &untouched, 1);
  cpu::gemm<float, float>(Trans::no, Trans::no, 1, 0, 1, 1, nullptr, 1, nullptr, 1, 0, &untouched, 1);
  CHECK(untouched == 5);
}

TEST_CASE(
    "gemm: rows that overlap are an error on every instruction set; one row may be any distance from the next") {
  const std::vector<double> a(12, 1), b(12, 1);
  std::vector<double> c(9);
  const auto multiply = [&](Isa set, int64_t rows, int64_t lda, int64_t ldb, int64_t ldc) {
    cpu::gemm_batched_on(set, cpu::MatrixBatch(), Trans::no, Trans::yes, rows, rows, 3, 1.0, a.data(), lda,
                         b.data(), ldb, 0.0, c.data(), ldc);
  };
  for (const Isa set : available()) {
    CHECK_THROWS_WITH(multiply(set, 2, 2, 3, 2),
                      "gemm: the rows of A are 2 elements apart, wanted 3 or more, the length of a row");
    CHECK_THROWS_WITH(multiply(set, 2, 3, -3, 2),
                      "gemm: the rows of B are -3 elements apart, wanted 3 or more, the length of a row");
    CHECK_THROWS_WITH(multiply(set, 2, 3, 3, 0),
                      "gemm: the rows of C are 0 elements apart, wanted 2 or more, the length of a row");
    c[0] = 0;
    multiply(set, 1, -7, 0, 0);
    CHECK(c[0] == 3);
  }
}

TEST_CASE_TEMPLATE("gemm: nothing is skipped, so 0 times infinity is NaN, and only where it belongs", T,
                   float, bfloat16) {
  constexpr int64_t N = 70, K = 90;
  for (const auto& transposes : kTransposes)
    for (int64_t M : {1, 3, 50}) {
      const Trans ta = transposes.first, tb = transposes.second;
      for (Isa set : available()) {
        INFO(name(set) << " M " << M);
        Matrix<T> A = ta == Trans::yes ? Matrix<T>(K, M, 0, 1) : Matrix<T>(M, K, 0, 1);
        Matrix<T> B = tb == Trans::yes ? Matrix<T>(N, K, 0, 2) : Matrix<T>(K, N, 0, 2);
        const auto a = [&](int64_t i, int64_t k) -> T& { return ta == Trans::yes ? A(k, i) : A(i, k); };
        const auto b = [&](int64_t k, int64_t j) -> T& { return tb == Trans::yes ? B(j, k) : B(k, j); };
        for (int64_t i = 0; i < M; ++i) a(i, 88) = T(i == 0 ? 0.0f : 1.0f);
        b(88, 69) = T(static_cast<float>(kInfinity));  // 0 · ∞ in row 0, ∞ below
        b(5, 7) = T(static_cast<float>(kNaN));
        Matrix<float> C(M, N, 0, 3);
        cpu::gemm_batched_on(set, {}, ta, tb, M, N, K, 1.0f, A.data.data(), A.ld, B.data.data(), B.ld, 0.0f,
                             C.data.data(), C.ld);
        for (int64_t i = 0; i < M; ++i)
          for (int64_t j = 0; j < N; ++j) {
            if (j == 7 || (j == 69 && i == 0))
              CHECK(std::isnan(C(i, j)));
            else if (j == 69)
              CHECK(C(i, j) == static_cast<float>(kInfinity));
            else
              CHECK(std::isfinite(C(i, j)));
          }
      }
    }
}

namespace {

/// The bits of one batched product on `count` threads.
template <class T, class TC>
std::vector<TC> on_threads(int count, Isa set, Trans ta, Trans tb, const Shape& s, int64_t products) {
  const int before = threads();
  set_threads(count);
  Matrix<T> A(products, s.M * s.K, 0, 1), B(products, s.N * s.K, 0, 2), bias(1, s.N, 0, 3);
  Matrix<TC> C(products, s.M * s.N, 0, 4);
  const cpu::MatrixBatch batch{products, 1, {A.ld, 0}, {B.ld, 0}, {C.ld, 0}};
  cpu::gemm_batched_on(set, batch, ta, tb, s.M, s.N, s.K, AccumulatorOf<TC>(0.5), A.data.data(),
                       ta == Trans::yes ? s.M : s.K, B.data.data(), tb == Trans::yes ? s.K : s.N,
                       AccumulatorOf<TC>(1), C.data.data(), s.N);
  set_threads(before);
  return C.data;
}

template <class T, class TC>
void check_thread_counts(int64_t products, const std::vector<Shape>& shapes) {
  for (const auto& [ta, tb] : kTransposes)
    for (const Shape& s : shapes)
      for (Isa set : available()) {
        const std::vector<TC> one = on_threads<T, TC>(1, set, ta, tb, s, products);
        for (int count : {2, 3, 7}) {
          const std::vector<TC> many = on_threads<T, TC>(count, set, ta, tb, s, products);
          INFO(name(dtype_v<T>) << " " << name(set) << " M " << s.M << " N " << s.N << " K " << s.K << " on "
                                << count);
          CHECK(std::memcmp(one.data(), many.data(), one.size() * sizeof(TC)) == 0);
        }
      }
}

}  // namespace

TEST_CASE("gemm: the bits are the same on 1, 2, 3 and 7 threads") {
  const std::vector<Shape> shapes = {{1, 2500, 300}, {1, 300, 2500},  {3, 500, 700},  {17, 900, 129},
                                     {333, 65, 190}, {201, 203, 810}, {90, 600, 400}, {400, 40, 900}};
  check_thread_counts<float, float>(1, shapes);
  check_thread_counts<double, double>(1, shapes);
  check_thread_counts<bfloat16, float>(1, shapes);
  check_thread_counts<float16, float16>(1, shapes);
  const std::vector<Shape> heads = {{1, 64, 300}, {65, 33, 90}, {64, 64, 32}};
  check_thread_counts<float, float>(5, heads);
  check_thread_counts<bfloat16, bfloat16>(5, heads);
}

TEST_CASE_TEMPLATE("gemm: a row of a packed product does not depend on how many rows there are", T, float,
                   bfloat16) {
  constexpr int64_t N = 130, K = 500;
  Matrix<T> A(100, K, 0, 1), B(N, K, 0, 2);
  Matrix<float> whole(100, N, 0, 3), few(100, N, 0, 3);
  for (Isa set : available()) {
    if (set == Isa::portable) continue;  // OpenBLAS makes no such promise
    const auto rows = [&](Matrix<float>& C, int64_t from, int64_t count) {
      cpu::gemm_batched_on(set, {}, Trans::no, Trans::yes, count, N, K, 1.0f, &A(from, 0), K, B.data.data(),
                           K, 0.0f, &C(from, 0), N);
    };
    rows(whole, 0, 100);
    for (int64_t i = 0; i < 100; i += 25) rows(few, i, 25);
    CHECK(whole.data == few.data);
  }
}

TEST_CASE("gemm: a batch has two levels of strides, and stride 0 broadcasts") {
  constexpr int64_t kOuter = 3, kInner = 4, T = 20, D = 9;
  // q [kOuter, T, kInner, D] has the layout of heads in a projection; k [kInner, T, D] is shared by
  // the outer level.
  Matrix<float> q(kOuter * T, kInner * D, 0, 1), k(kInner * T, D, 0, 2), scores(kOuter * kInner, T * T, 0, 3);
  const cpu::MatrixBatch batch{kOuter, kInner, {T * kInner * D, D}, {0, T * D}, {kInner * T * T, T * T}};
  for (Isa set : available()) {
    cpu::gemm_batched_on(set, batch, Trans::no, Trans::yes, T, T, D, 1.0f, q.data.data(), kInner * D,
                         k.data.data(), D, 0.0f, scores.data.data(), T);
    for (int64_t o = 0; o < kOuter; ++o)
      for (int64_t h = 0; h < kInner; ++h)
        for (int64_t i = 0; i < T; ++i)
          for (int64_t j = 0; j < T; ++j) {
            double expected = 0;
            for (int64_t d = 0; d < D; ++d)
              expected += static_cast<double>(q(o * T + i, h * D + d)) * k(h * T + j, d);
            CHECK(scores(o * kInner + h, i * T + j) == doctest::Approx(expected).epsilon(1e-5).scale(1));
          }
  }
}

TEST_CASE_TEMPLATE("gemm: finish is called once for every element, when it is complete", T, float, bfloat16) {
  struct Seen {
    const float* C;
    const float* expected;
    int64_t size, N;
    std::vector<int> calls;
    bool complete = true;
  };
  const auto hook = [](void* context, int64_t batch, int64_t row, int64_t column, int64_t rows,
                       int64_t columns) {
    Seen& seen = *static_cast<Seen*>(context);
    for (int64_t i = row; i < row + rows; ++i)
      for (int64_t j = column; j < column + columns; ++j) {
        const int64_t at = batch * seen.size + i * seen.N + j;
        ++seen.calls[at];  // blocks are disjoint: no two threads touch one counter
        if (seen.C[at] != seen.expected[at]) seen.complete = false;
      }
  };
  for (Isa set : available())
    for (Trans tb : {Trans::no, Trans::yes})
      for (const Shape& s :
           {Shape{1, 300, 900}, Shape{3, 300, 900}, Shape{210, 500, 900}, Shape{40, 1700, 70}})
        for (int64_t products : {1, 3}) {
          INFO(name(set) << " M " << s.M << " products " << products);
          Matrix<T> A(products, s.M * s.K, 0, 1), B(products, s.K * s.N, 0, 2);
          Matrix<float> bias(1, s.N, 0, 3);
          Matrix<float> expected(products, s.M * s.N, 0, 4), C(products, s.M * s.N, 0, 4);
          const cpu::MatrixBatch batch{products, 1, {A.ld, 0}, {B.ld, 0}, {C.ld, 0}};
          const auto product = [&](Matrix<float>& to, const cpu::Epilogue<float>& epilogue) {
            cpu::gemm_batched_on(set, batch, Trans::no, tb, s.M, s.N, s.K, 1.0f, A.data.data(), s.K,
                                 B.data.data(), tb == Trans::yes ? s.K : s.N, 1.0f, to.data.data(), s.N,
                                 &epilogue);
          };
          cpu::Epilogue<float> epilogue;
          epilogue.bias = bias.data.data();
          product(expected, epilogue);
          Seen seen{C.data.data(), expected.data.data(), s.M * s.N, s.N,
                    std::vector<int>(products * s.M * s.N, 0)};
          epilogue.finish = hook;
          epilogue.context = &seen;
          product(C, epilogue);
          CHECK(seen.complete);
          CHECK(seen.calls == std::vector<int>(seen.calls.size(), 1));
        }
}

TEST_CASE("gemm: inside a parallel loop it runs on the calling thread and gives the same bits") {
  constexpr int64_t n = 130;
  Matrix<float> A(n, n, 0, 1), B(n, n, 0, 2), expected(n, n, 0, 3), C(4, n * n, 0, 3);
  const auto product = [&](float* to) {
    cpu::gemm(Trans::no, Trans::no, n, n, n, 1, A.data.data(), n, B.data.data(), n, 0, to, n);
  };
  product(expected.data.data());
  parallel_for(0, 4, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) product(&C(i, 0));
  });
  for (int64_t i = 0; i < 4; ++i)
    CHECK(std::memcmp(&C(i, 0), expected.data.data(), n * n * sizeof(float)) == 0);
}

TEST_CASE("gemm: a repeated product allocates nothing") {
  Matrix<bfloat16> A(150, 500, 0, 1), B(500, 500, 0, 2), C(150, 500, 0, 3);
  const auto allocated = [] { return mallinfo2().uordblks + mallinfo2().hblkhd; };
  for (Isa set : available()) {
    // Several rounds in turn: a thread's buffers grow when it first takes a part, and when that is
    // depends on timing.
    int quiet = 0;
    for (int round = 0; round < 100 && quiet < 10; ++round) {
      const size_t before = allocated();
      for (const auto& [ta, tb] : kTransposes)
        for (int64_t M : {1, 4, 150})
          cpu::gemm_batched_on(set, {}, ta, tb, M, int64_t{500}, int64_t{150}, 1.0f, A.data.data(), 500,
                               B.data.data(), 500, 0.0f, C.data.data(), 500);
      quiet = allocated() == before ? quiet + 1 : 0;
    }
    CHECK(quiet == 10);
  }
}

TEST_CASE("gemm: the definition works on integers and on dual numbers") {
  const std::vector<int64_t> a = {1, 2, 3, 4, 5, 6}, b = {1, 0, -1, 2, 1, 1};  // [2, 3] and [3, 2]
  std::vector<int64_t> c = {100, 100, 100, 100};
  cpu::gemm_plain<int64_t, int64_t>(Trans::no, Trans::no, 2, 2, 3, 1, a.data(), 3, b.data(), 2, 2, c.data(),
                                    2);
  CHECK(c == std::vector<int64_t>{202, 207, 205, 216});
  const Dual x[2] = {{3, 1}, {4, 0}}, y[2] = {{5, 0}, {6, 2}};
  Dual xy;
  cpu::gemm_plain<Dual, Dual>(Trans::no, Trans::no, 1, 1, 2, 1, x, 2, y, 1, 0, &xy, 1);
  CHECK(xy.value == 39);
  CHECK(xy.tangent == 13);  // 1 · 5 + 4 · 2
}
