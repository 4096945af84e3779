// Attention beyond its spec rows: sizes of several tiles, elements that must have no influence, and
// errors.
#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "core/creation.h"
#include "core/parallel.h"
#include "core/random.h"
#include "core/tape.h"
#include "ops/additive_scores.h"
#include "ops/attention.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "tests/ops/attention_inputs.h"
#include "tests/spec/spec.h"

using namespace vitrine;

namespace {

using test::AttentionInputs;
using test::check_close, test::value_and_gradients;

AttentionInputs inputs(int64_t heads, int64_t key_heads, int64_t queries, int64_t keys, int64_t size,
                       DType dtype) {
  Generator g(7);
  return {randn({2, heads, queries, size}, dtype, Device::cpu, 0, 1, g),
          randn({2, key_heads, keys, size}, dtype, Device::cpu, 0, 1, g),
          randn({2, key_heads, keys, size + 1}, dtype, Device::cpu, 0, 1, g),
          randn({2, heads, queries, size + 1}, dtype, Device::cpu, 0, 1, g)};
}

constexpr AttentionRead kReads[] = {AttentionRead::mean, AttentionRead::laser};

}  // namespace

TEST_CASE("several tiles of queries and blocks of keys give what the definition gives") {
  for (const AttentionRead read : kReads)
    for (const auto& [queries, keys] : {std::pair{130, 130}, {70, 300}, {300, 70}, {1, 65}}) {
      if (read == AttentionRead::laser && queries * keys > 30000)
        continue;  // the definition would take gigabytes
      AttentionOptions o;
      o.read = read, o.causal = true, o.left = 290;
      const AttentionInputs x = inputs(4, 2, queries, keys, 5, DType::float64);
      check_close(value_and_gradients(attention, x, o), value_and_gradients(define::attention, x, o), 1e-12);
    }
}

TEST_CASE("blocks of keys that the mask hides from all queries of a tile change nothing") {
  // Of 200 queries, which are several tiles, the first 64 see no key, the next 64 some keys of the
  // last block, and the others some of the first one. What comes between is hidden from all.
  const int64_t queries = 200, keys = 600;
  std::vector<uint8_t> seen(static_cast<size_t>(queries * keys), 0);
  for (int64_t i = 64; i < queries; ++i)
    for (int64_t j = 0; j < keys; ++j)
      seen[static_cast<size_t>(i * keys + j)] = i < 128 ? j > 530 && (i + j) % 3 == 0 : j < 20 + i % 7;
  const Tensor allowed = tensor(seen, {queries, keys}, DType::boolean);
  for (const AttentionRead read : kReads)
    for (const Tensor& mask : {allowed, transpose(contiguous(transpose(allowed)))}) {
      AttentionInputs x = inputs(1, 1, queries, keys, 3, DType::float64);
      for (Tensor* t : {&x.q, &x.k, &x.v, &x.dy}) *t = slice(*t, 0, 0, 1);
      AttentionOptions o;
      o.read = read, o.allowed = mask;
      const auto want = value_and_gradients(define::attention, x, o);
      check_close(value_and_gradients(attention, x, o), want, 1e-12);
      o.left = 450;  // hides keys of the first block from later queries
      check_close(value_and_gradients(attention, x, o), value_and_gradients(define::attention, x, o), 1e-12);
      if (read == AttentionRead::laser) continue;
      // 0·NaN would be NaN in a block that is computed.
      o.left = AttentionForm::kUnlimited;
      x.v = contiguous(x.v);
      for (int64_t j = 256; j < 512; ++j) x.v.data<double>()[4 * j] = NAN;
      check_close(value_and_gradients(attention, x, o), want, 1e-12);
    }
}

TEST_CASE("a window that shows the first keys is a mask of these pairs, with every other option") {
  Generator g(3);
  const auto draw = [&](const Shape& shape) { return randn(shape, DType::float64, Device::cpu, 0, 1, g); };
  for (const AttentionRead read : kReads)
    for (const bool causal : {true, false})
      for (const auto& [queries, keys] : {std::pair{40, 40}, {9, 41}, {41, 9}, {1, 30}}) {
        const AttentionInputs x = inputs(4, 2, queries, keys, 5, DType::float64);
        for (const int options : {0, 1, 2, 3}) {
          const std::string what =
              fmt::format("laser {}, causal {}, q {}, k {}, options {}", read == AttentionRead::laser, causal,
                          x.q.shape(), x.k.shape(), options);
          INFO(what);
          AttentionOptions o;
          o.read = read, o.causal = causal, o.left = 6, o.first = 3;
          if (!causal) o.right = 2;
          if (options == 1) o.softcap = 2, o.slopes = tensor({0.5, 0.25, 0.1, 2}, DType::float64);
          if (options == 2) o.bias = draw({4, 1, keys}), o.slopes = tensor({0.5, 0.25, 0.1, 2});
          if (options == 3) o.allowed = less(draw({queries, keys}), full({}, 0, DType::float64));
          if (options == 3 && read == AttentionRead::mean) o.sink = tensor({0, 1, -1, 2}, DType::float64);
          std::vector<uint8_t> seen;
          for (int64_t i = keys - queries; i < keys; ++i)
            for (int64_t j = 0; j < keys; ++j)
              seen.push_back((j < 3 || j >= i - 6) && j <= (causal ? i : i + 2));
          AttentionOptions mask = o;
          mask.causal = false, mask.first = 0, mask.left = mask.right = AttentionForm::kUnlimited;
          mask.allowed = tensor(seen, {queries, keys}, DType::boolean);
          if (o.allowed.defined()) mask.allowed = logical_and(mask.allowed, o.allowed);
          const auto want = value_and_gradients(define::attention, x, mask);
          check_close(value_and_gradients(attention, x, o), want, 1e-12);
          check_close(value_and_gradients(define::attention, x, o), want, 1e-12);
          if (options != 2) continue;
          const auto gradient_of = [&x](const Tensor& bias, AttentionOptions with) {
            Tape tape;
            with.bias = tape.watch(clone(bias));
            return tape.gradient({attention(x.q, x.k, x.v, with)}, {with.bias}, {x.dy})[0];
          };
          for (const Tensor& bias : {o.bias, slice(o.bias, 2, 0, 1)})
            CHECK(spec::distance(gradient_of(bias, o).values(), gradient_of(bias, mask).values(), 0.1) <=
                  1e-12);
        }
      }
}

TEST_CASE("without keys every read is 0, on tapes of any order") {
  const Tensor q = ones({1, 2, 3, 4}), none = zeros({1, 2, 0, 4});
  for (const int order : {1, 2})
    for (const AttentionRead read : {AttentionRead::mean, AttentionRead::laser})
      for (const bool sink : {false, true}) {
        if (sink && read == AttentionRead::laser) continue;
        INFO(order, ", ", static_cast<int>(read), ", ", sink);
        AttentionOptions o;
        o.read = read;
        if (sink) o.sink = ones({2});
        Tape tape({.order = order});
        tape.watch(q);
        const Tensor y = attention(q, none, none, o);
        CHECK(y.values() == std::vector<double>(24, 0));
        CHECK(tape.gradient(sum(y), {q})[0].values() == std::vector<double>(24, 0));
        if (!sink) CHECK(max(attention_with_log_sum_exp(q, none, none, o).log_sum_exp).item() == -INFINITY);
      }
}

TEST_CASE("LASER of a window with first keys merges 16-bit values that are near each other") {
  const auto gradient = [](DType dtype) {
    const Tensor q = zeros({1, 1, 1, 1}, dtype), k = zeros({1, 1, 4, 1}, dtype),
                 v = cast(tensor({100, 100.5, 100, 101}, {1, 1, 4, 1}, DType::float64), dtype);
    AttentionOptions o;
    o.read = AttentionRead::laser, o.left = 1, o.first = 2;
    Tape tape;
    tape.watch(v);
    return tape.gradient(sum(attention(q, k, v, o)), {v})[0];
  };
  const auto exact = gradient(DType::float64).values(), low = gradient(DType::bfloat16).values();
  for (size_t i = 0; i < exact.size(); ++i) CHECK(low[i] == doctest::Approx(exact[i]).epsilon(.01));
}

TEST_CASE("float32 in several blocks stays near float64") {
  AttentionOptions o;
  o.causal = true;
  AttentionInputs x = inputs(2, 2, 700, 700, 16, DType::float32), wide = x;
  for (Tensor* t : {&wide.q, &wide.k, &wide.v, &wide.dy}) *t = copy_as(*t, DType::float64);
  check_close(value_and_gradients(attention, x, o), value_and_gradients(attention, wide, o), 2e-6);
}

TEST_CASE(
    "LASER has one anchor for a head, or for a tile where values lie far apart: both give the definition") {
  for (const double far : {0.0, 17.0, 70.0})
    for (const bool causal : {false, true}) {
      INFO("values up to ", far, causal ? ", causal" : "");
      AttentionOptions o;
      o.read = AttentionRead::laser, o.causal = causal;
      AttentionInputs x = inputs(4, 2, 70, 70, 5, DType::float64);
      x.v = clone(x.v);
      x.v.data<double>()[65 * 6 + 2] += far;  // in one channel of one head
      check_close(value_and_gradients(attention, x, o), value_and_gradients(define::attention, x, o), 1e-12);
      AttentionInputs narrow = x;
      for (Tensor* t : {&narrow.q, &narrow.k, &narrow.v, &narrow.dy}) *t = copy_as(*t, DType::float32);
      check_close(value_and_gradients(attention, narrow, o), value_and_gradients(define::attention, x, o),
                  2e-5);
    }
}

TEST_CASE("LASER passes on NaN in a value to the queries that see it, and to no other") {
  AttentionOptions o;
  o.read = AttentionRead::laser, o.causal = true;
  AttentionInputs x = inputs(2, 2, 70, 70, 4, DType::float32);
  x.v = clone(x.v);
  x.v.data<float>()[66 * 5 + 1] = NAN;  // of the first head
  const Tensor y = attention(x.q, x.k, x.v, o);
  for (int64_t i = 0; i < 70; ++i) CHECK(std::isnan(y.data<float>()[i * y.strides()[2] + 1]) == (i >= 66));
}

TEST_CASE("the bits do not depend on the number of threads") {
  for (const AttentionRead read : kReads) {
    AttentionOptions o;
    o.read = read, o.causal = true;
    const AttentionInputs x = inputs(6, 3, 200, 200, 8, DType::float32);
    const int before = threads();
    set_threads(1);
    const auto want = value_and_gradients(attention, x, o);
    for (const int count : {2, 3, 7}) {
      set_threads(count);
      const auto got = value_and_gradients(attention, x, o);
      for (size_t i = 0; i < got.size(); ++i) CHECK(got[i].values() == want[i].values());
    }
    set_threads(before);
  }
}

TEST_CASE("the future has no influence: not on a bit of a mean, and on LASER only on the rounding") {
  for (const AttentionRead read : kReads) {
    AttentionOptions o;
    o.read = read, o.causal = true;
    const AttentionInputs x = inputs(2, 2, 100, 100, 8, DType::float32);
    const Tensor before = attention(x.q, x.k, x.v, o);
    const Tensor k = clone(x.k), v = clone(x.v);
    // Large values, so that even a tiny weight would show.
    const float huge = read == AttentionRead::mean ? 1e30f : 1000;
    for (int64_t d = 0; d < v.size(3); ++d) v.data<float>()[99 * v.size(3) + d] = huge;
    for (int64_t d = 0; d < k.size(3); ++d) k.data<float>()[99 * k.size(3) + d] = -50;
    const Tensor after = attention(x.q, k, v, o);
    // LASER's anchors follow all values of a head, or of a tile where they are far apart.
    if (read == AttentionRead::mean)
      CHECK(slice(before, 2, 0, 99).values() == slice(after, 2, 0, 99).values());
    CHECK(spec::distance(slice(after, 2, 0, 99).values(), slice(before, 2, 0, 99).values(), 0.1) <= 2e-6);
  }
}

TEST_CASE("a masked key has no influence, however large its values, and gets no gradient") {
  const Tensor allowed = less(arange(0, 9), full({}, 7, DType::int64));  // the last two are padding
  for (const AttentionRead read : kReads)
    for (const bool by_bias : {false, true})
      for (const int64_t queries : {6, 70})  // one tile of queries, and several
        for (const float value : {2.0f, 3e4f}) {
          INFO(queries, " queries, ", value, by_bias ? ", by a bias" : "");
          AttentionInputs x = inputs(2, 1, queries, 9, 4, DType::float32);
          AttentionOptions o;
          o.read = read;
          (by_bias ? o.bias : o.allowed) = by_bias ? where(allowed, zeros({9}), -INFINITY) : allowed;
          const auto before = value_and_gradients(attention, x, o);
          x.v = clone(x.v);
          for (int64_t j = 7; j < 9; ++j)
            for (int64_t d = 0; d < 5; ++d) x.v.data<float>()[j * 5 + d] += value;
          const auto after = value_and_gradients(attention, x, o);
          for (size_t i = 0; i < before.size(); ++i) CHECK(before[i].values() == after[i].values());
          for (const double e : slice(after[3], 2, 7, 9).values()) CHECK(e == 0);
        }
}

TEST_CASE("LASER takes nothing from a hidden key's value, be it NaN, where visible ones lie far apart") {
  AttentionInputs x = inputs(1, 1, 6, 9, 4, DType::float32);
  for (int64_t j = 0; j < 9; ++j) x.v.data<float>()[j * 5] = j % 2 == 0 ? 90.0f : -90.0f;
  AttentionOptions o;
  o.read = AttentionRead::laser;
  // The first query sees only the low values, so they are read exactly. The last two keys are
  // padding.
  o.allowed = zeros({6, 9}, DType::boolean);
  for (int64_t i = 0; i < 6; ++i)
    for (int64_t j = 0; j < 7; ++j) o.allowed.data<bool>()[i * 9 + j] = i > 0 || j % 2 == 1;
  const auto before = value_and_gradients(attention, x, o);
  CHECK(before[0].values()[0] == doctest::Approx(-90));
  for (const double value : {static_cast<double>(NAN), static_cast<double>(INFINITY), 500.0}) {
    x.v = clone(x.v);
    for (int64_t i = 7 * 5; i < 9 * 5; ++i) x.v.data<float>()[i] = static_cast<float>(value);
    const auto after = value_and_gradients(attention, x, o);
    for (size_t i = 0; i < before.size(); ++i) CHECK(before[i].values() == after[i].values());
  }
}

TEST_CASE("a window as wide as numbers go hides nothing") {
  Generator g(4);
  const auto draw = [&] { return randn({1, 1, 5, 4}, DType::float32, Device::cpu, 0, 1, g); };
  const Tensor q = draw(), k = draw(), v = draw();
  const Tensor want = attention(q, k, v);
  AttentionOptions wide;
  wide.left = wide.right = INT64_MAX;
  CHECK(attention(q, k, v, wide).values() == want.values());
}

TEST_CASE("a query that sees nothing gives 0 and has gradient 0") {
  for (const AttentionRead read : kReads) {
    // Causal: the first three queries are before the first key.
    const AttentionInputs x = inputs(2, 2, 7, 4, 3, DType::float32);
    AttentionOptions o;
    o.read = read, o.causal = true;
    const auto result = value_and_gradients(attention, x, o);
    for (const Tensor& t : {result[0], result[1]})
      for (const double e : slice(t, 2, 0, 3).values()) CHECK(e == 0);
    for (const Tensor& t : result)
      for (const double e : t.values()) CHECK(std::isfinite(e));
  }
}

TEST_CASE("a query that sees nothing gives 0 next to a sink of −∞, too") {
  const Tensor q = ones({1, 1, 2, 4}, DType::float64);
  AttentionOptions o;
  o.sink = full({1}, -INFINITY, DType::float64);
  o.allowed = tensor({1, 0}, {2, 1}, DType::boolean);
  Tape tape;
  tape.watch(q);
  const Tensor y = attention(q, q, q, o);
  CHECK(y.values() == std::vector<double>{1, 1, 1, 1, 0, 0, 0, 0});
  CHECK(all(is_finite(tape.gradient(sum(y), {q})[0])).item() == 1);
  o.sink = o.allowed = {}, o.bias = tensor({1, 0}, {1, 2}, DType::boolean);
  CHECK_THROWS_WITH_AS(attention(q, q, q, o), doctest::Contains("the bias is bool, wanted a floating dtype"),
                       Error);
}

TEST_CASE("LASER: bounds, shift, and one key") {
  AttentionOptions o;
  o.read = AttentionRead::laser;
  const AttentionInputs x = inputs(2, 2, 5, 6, 4, DType::float64);
  const Tensor y = attention(x.q, x.k, x.v, o);
  AttentionOptions plain;
  for (const double e : (y - attention(x.q, x.k, x.v, plain)).values()) CHECK(e >= 0);  // Jensen
  CHECK(spec::distance(attention(x.q, x.k, x.v + 80, o).values(), (y + 80).values(), 1) <= 1e-12);
  const Tensor one = slice(x.v, 2, 2, 3);
  CHECK(spec::distance(attention(x.q, slice(x.k, 2, 2, 3), one, o).values(), expand(one, y.shape()).values(),
                       1) <= 1e-12);
}

TEST_CASE("a query with NaN gives NaN, in the kernel and in the definition") {
  AttentionInputs x = inputs(2, 2, 5, 6, 4, DType::float64);
  x.q.data<double>()[0] = NAN;
  AttentionOptions o;
  for (AttentionRead read : kReads) {
    o.read = read;
    for (const Tensor& y : {attention(x.q, x.k, x.v, o), define::attention(x.q, x.k, x.v, o)})
      CHECK(std::isnan(y.values()[0]));
  }
}

TEST_CASE("the gradient of a mean over queries is that of any other cotangent with the same values") {
  // The cotangent of a mean is an expanded tensor: all its rows share memory.
  const auto gradient = [](const Tensor& cotangent) {
    const Tensor v = tensor({1, 2, 3, 4, 5, 6, 7, 8}, {1, 1, 4, 2}, DType::float64);
    Tape tape;
    tape.watch(v);
    return tape.gradient({attention(v, v, v)}, {v}, {cotangent})[0];
  };
  const Tensor cotangent = expand(tensor({0.25, 0.5}, {1, 1, 1, 2}, DType::float64), {1, 1, 4, 2});
  const auto got = gradient(cotangent), want = gradient(contiguous(cotangent));
  CHECK(spec::distance(got.values(), want.values(), 1) <= 1e-15);
  CHECK(want.values()[7] > 0.9);
}

TEST_CASE(
    "with heads of no channels all scores are 0: weights are equal, and the result is a mean of the values") {
  for (const DType dtype : {DType::float64, DType::float32, DType::bfloat16}) {
    const Tensor q = zeros({1, 1, 2, 0}, dtype), v = tensor({1, 2, 3, 6}, {1, 1, 4, 1}, dtype);
    const Tensor k = zeros({1, 1, 4, 0}, dtype);
    AttentionOptions causal;
    causal.causal = true;
    for (const auto& f : {attention, define::attention}) {
      CHECK(f(q, k, v, {}).values() == std::vector<double>{3, 3});
      CHECK(f(q, k, v, causal).values() == std::vector<double>{2, 3});
    }
  }
}

TEST_CASE("bias, mask and slopes may be any views, in every dtype") {
  for (const AttentionRead read : kReads)
    for (const DType dtype : {DType::float64, DType::float32, DType::bfloat16})
      for (const spec::Layout& layout : spec::layouts()) {
        INFO(std::string(layout.name));
        const AttentionInputs x = inputs(4, 2, 5, 6, 3, dtype);
        Generator g(11);
        AttentionOptions o, copied;
        o.read = read;
        o.bias = layout.of(randn({2, 4, 5, 6}, dtype, Device::cpu, 0, 1, g));
        o.allowed = layout.of(greater(randn({2, 4, 5, 6}, dtype, Device::cpu, 0, 1, g), zeros({}, dtype)));
        if (const Tensor slopes = layout.of(randn({4}, dtype, Device::cpu, 0, 1, g)); slopes.defined())
          o.slopes = slopes;
        copied = o;
        for (Tensor* t : {&copied.bias, &copied.allowed, &copied.slopes})
          if (t->defined()) *t = contiguous(*t);
        const auto got = value_and_gradients(attention, x, o),
                   want = value_and_gradients(attention, x, copied);
        for (size_t i = 0; i < want.size(); ++i) CHECK(got[i].values() == want[i].values());
      }
}

TEST_CASE("the result lies as the projection that follows reads it") {
  const AttentionInputs x = inputs(4, 2, 3, 3, 4, DType::float32);
  CHECK(permute(attention(x.q, x.k, x.v), {0, 2, 1, 3}).is_contiguous());
}

TEST_CASE("misuse of attention is told") {
  const Tensor q = zeros({1, 4, 3, 2}), k = zeros({1, 3, 5, 2}), v = zeros({1, 3, 5, 2});
  CHECK_THROWS_WITH(attention(q, k, v), "attention: 4 query heads cannot share 3 key heads evenly");
  CHECK_THROWS_WITH(attention(q, k, zeros({1, 3, 4, 2})),
                    doctest::Contains("wanted [B, H, Tq, D], [B, Hkv, Tk, D]"));
  CHECK_THROWS_WITH(attention(q, q, cast(q, DType::float64)), doctest::Contains("wanted one dtype"));
  AttentionOptions o;
  o.allowed = ones({3, 4}, DType::boolean);
  CHECK_THROWS_WITH(attention(q, q, q, o), doctest::Contains("[3, 4]"));
  o.allowed = ones({3, 3});
  CHECK_THROWS_WITH(attention(q, q, q, o), "attention: allowed is float32, wanted bool");
  o.allowed = {};
  o.first = -1;
  CHECK_THROWS_WITH(attention(q, q, q, o), doctest::Contains("the first -1 keys"));
  o.first = 0, o.left = -1;
  CHECK_THROWS_WITH(attention(q, q, q, o), doctest::Contains("the window is [-1"));
}

TEST_CASE("additive scores of operands whose exponentials overflow, and of NaN") {
  // From 20 on, pairs are computed from their sums. e^(2·100) is beyond float32.
  const Tensor q = tensor({-100, -100, 100, 19, 0.5}, {1, 5, 1}), w = tensor({2}, {1, 1}),
               k = tensor({100, -100, 100, -19, 0.25}, {1, 5, 1});
  const auto check_rows = [&](const Tensor& keys) {
    const Tensor got = additive_scores(q, keys, w), want = define::additive_scores(q, keys, w);
    for (int64_t i = 0; i < got.numel(); ++i)
      CHECK(got.values()[static_cast<size_t>(i)] ==
            doctest::Approx(want.values()[static_cast<size_t>(i)]).epsilon(1e-6));
  };
  check_rows(k);
  check_rows(slice(k, 1, 3));
  const Tensor unknown = additive_scores(q, tensor({NAN, 1}, {1, 2, 1}), w);
  CHECK(std::isnan(unknown.values()[0]));
  CHECK(!std::isnan(unknown.values()[1]));
}
