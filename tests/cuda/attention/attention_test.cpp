// Attention's kernels on the device at sizes around those of accumulators and tiles, under every
// option, against the CPU in float64.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/cuda/attention/check.h"

using namespace vitrine;
using namespace vitrine::test;
using Inputs = AttentionInputs;

TEST_CASE("attention at sizes around those of accumulators and tiles") {
  if (!has_gpu()) return;
  size_t turn = 0;
  for (const AttentionRead read : kReads) {
    ++turn;
    for (const auto& counts : {std::pair{1, 1},
                               {1, 33},
                               {31, 32},
                               {32, 31},
                               {16, 65},
                               {17, 64},
                               {33, 33},
                               {64, 1},
                               {65, 65},
                               {130, 40}}) {
      if (!is_chosen(turn++)) continue;
      const auto queries = counts.first, keys = counts.second;
      INFO(queries, " queries, ", keys, " keys, LASER: ", read == AttentionRead::laser);
      AttentionOptions o;
      o.read = read;
      const Inputs x = draw({2, 1, queries, keys, 3, 5});
      check_float32(x, o);
      o.causal = true;
      check_as_on_cpu(x, o);
    }
  }
}

TEST_CASE("attention with heads of every size, odd ones too") {
  if (!has_gpu()) return;
  for (const AttentionRead read : kReads)
    for (const auto& widths : kWidths) {
      const int64_t size = widths.first, channels = widths.second;
      INFO(size, " and ", channels, " channels, LASER: ", read == AttentionRead::laser);
      AttentionOptions o;
      o.read = read, o.causal = true;
      const Inputs x = draw({1, 1, 18, 35, size, channels});
      if (size > 31) check_float32(x, o);
      if (size <= 31 || size == 256) check_as_on_cpu(x, o);
    }
}

TEST_CASE("attention with windows, masks, bias, softcap, ALiBi and grouped queries") {
  if (!has_gpu()) return;
  for_varied_options([](const Inputs& x, const AttentionOptions& o, size_t i) {
    check_as_on_cpu(x, o);
    if (i == 0 || i == 2) check_float32(x, o);
  });
}

TEST_CASE("queries that see nothing give 0 and have gradient 0 on the device") {
  if (!has_gpu()) return;
  for (const AttentionRead read : kReads) {
    AttentionOptions o;
    o.read = read, o.causal = true;  // the first 30 queries stand before the first key
    Tensor allowed = ones({40}, DType::boolean);
    // The next 35 queries see what is masked
    for (int64_t j = 0; j < 35; ++j) allowed.data<bool>()[j] = false;
    o.allowed = allowed;
    const Inputs x = cast_all(draw({2, 2, 70, 40, 3, 3}), DType::float32, Device::cuda);
    const auto result = run(x, o);
    for (const Tensor& t : {result[0], result[1]})
      for (const double e : slice(t, 2, 0, 65).values()) CHECK(e == 0);
    for (const Tensor& t : {result[2], result[3]})
      for (const double e : slice(t, 2, 0, 35).values()) CHECK(e == 0);
    for (const Tensor& t : result)
      for (const double e : t.values()) CHECK(std::isfinite(e));
  }
}

TEST_CASE("nothing to attend to, and nobody who attends") {
  if (!has_gpu()) return;
  for (const AttentionRead read : kReads)
    for (const auto& [queries, keys] : {std::pair{3, 0}, {0, 3}}) {
      AttentionOptions o;
      o.read = read;
      const auto result = run(cast_all(draw({2, 1, queries, keys, 3, 2}), DType::float32, Device::cuda), o);
      for (const Tensor& t : result)
        for (const double e : t.values()) CHECK(e == 0);
    }
  // Keys of which no query head is; their gradients lie where these sevens did.
  const Inputs x = cast_all(draw({0, 2, 3, 3, 3, 3}), DType::float32, Device::cuda);
  const auto sevens = [] { return full({2, 2, 3, 3}, 7, DType::float32, Device::cuda); };
  std::vector<Tensor>{sevens(), sevens()}.clear();
  for (const Tensor& t : run(x, {}))
    for (const double e : t.values()) CHECK(e == 0);
}

TEST_CASE("more batches than a grid's axis has blocks are computed in parts") {
  if (!has_gpu()) return;
#if VITRINE_CUDA_EMULATED
  const struct Shallow {
    Shallow() { emulator::set_most_blocks_in_depth(256); }
    ~Shallow() { emulator::set_most_blocks_in_depth(65535); }
  } shallow;
  constexpr int64_t kBatches = 256 + 2;
#else
  constexpr int64_t kBatches = 65535 + 2;
#endif
  Generator g(9);
  const auto normal = [&](const Shape& shape) {
    return to(randn(shape, DType::float32, Device::cpu, 0, 1, g), Device::cuda);
  };
  const Inputs x{normal({kBatches, 1, 1, 2}), normal({kBatches, 1, 2, 2}), normal({kBatches, 1, 2, 3}),
                 normal({kBatches, 1, 1, 3})};
  Tensor allowed = ones({kBatches, 1, 1, 2}, DType::boolean);
  allowed.data<bool>()[2 * kBatches - 1] = false;
  for (const AttentionRead read : kReads) {
    AttentionOptions o;
    o.read = read, o.allowed = allowed;
    const auto whole = run(x, o);
    for (const auto& range : {std::pair{int64_t{0}, int64_t{3}}, {kBatches - 4, kBatches}}) {
      const auto part = [&](const Tensor& t) { return slice(t, 0, range.first, range.second); };
      o.allowed = part(allowed);
      const auto own = run({part(x.q), part(x.k), part(x.v), part(x.dy)}, o);
      for (size_t i = 0; i < own.size(); ++i) CHECK(part(whole[i]).values() == own[i].values());
    }
  }
}

TEST_CASE("what is hidden has no influence on the device: no bit of a mean, and of LASER's in other tiles") {
  if (!has_gpu()) return;
  for (const AttentionRead read : kReads) {
    AttentionOptions o;
    o.read = read, o.causal = true;
    Inputs x = cast_all(draw({1, 1, 130, 130, 8, 8}), DType::float32);
    const auto attend = [&] {
      const Inputs moved = cast_all(x, DType::float32, Device::cuda);
      return attention(moved.q, moved.k, moved.v, o);
    };
    const Tensor before = attend();
    const float huge = read == AttentionRead::mean ? 1e30f : 1000;
    for (int64_t b = 0; b < 2; ++b)
      for (int64_t d = 0; d < 8; ++d) {
        x.v.data<float>()[(b * 130 + 129) * 8 + d] = huge;
        x.k.data<float>()[(b * 130 + 129) * 8 + d] = -50;
      }
    const Tensor after = attend();
    const int64_t tile = 64, same = read == AttentionRead::mean ? 129 : 2 * tile;
    CHECK(slice(before, 2, 0, same).values() == slice(after, 2, 0, same).values());
    CHECK(spec::distance(slice(after, 2, 0, 129).values(), slice(before, 2, 0, 129).values(), 0.1) <= 2e-6);
    o.causal = false;
    o.allowed = less(arange(0, 130, 1, DType::int64, Device::cuda),
                     full({}, 129, DType::int64, Device::cuda));  // the last key is padding
    const Tensor hidden = attend();
    for (int64_t e = 0; e < 8; ++e) x.v.data<float>()[129 * 8 + e] = -500;
    CHECK(hidden.values() == attend().values());
  }
}

TEST_CASE("a bias of −∞ hides a key as a mask does: LASER's anchors do not see its value") {
  if (!has_gpu()) return;
  Inputs x = draw({2, 1, 70, 75, 8, 6});
  x.v = x.v * 0.01;
  Tensor hidden = zeros({75}, DType::float64);
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t j = 3; j < 75; j += 5)
      for (int64_t d = 0; d < 6; ++d) x.v.data<double>()[(b * 75 + j) * 6 + d] = -9;
  for (int64_t j = 3; j < 75; j += 5) hidden.data<double>()[j] = -INFINITY;
  for (const AttentionRead read : kReads) {
    INFO("LASER: ", read == AttentionRead::laser);
    AttentionOptions o;
    o.read = read, o.bias = hidden;
    check_as_on_cpu(x, o);
    check_float32(x, o);
    check_16_bits(x, o);
    for (const DType dtype : {DType::float32, DType::bfloat16, DType::float16}) {
      const Inputs rounded = cast_all(x, dtype);
      const Tensor want = run(cast_all(rounded, DType::float64), o)[0],
                   got = run(cast_all(rounded, dtype, Device::cuda), o)[0];
      INFO(name(dtype));
      CHECK(spec::distance(got.values(), want.values(), 0) <= 2 * epsilon(dtype) + 4e-6);
    }
  }
}

TEST_CASE("LASER on the device: anchors that move, values of every size, elements that are read exactly") {
  if (!has_gpu()) return;
  AttentionOptions o;
  o.read = AttentionRead::laser;
  for (const double deviation : {0.01, 1.0, 10.0, 100.0}) {
    INFO("deviation ", deviation);
    o.causal = deviation != 10;
    Inputs x = draw({1, 1, 34, 70, 4, 34}, deviation);
    // float64 rounds at the size of the values, which the exponents see.
    check_as_on_cpu(x, o, deviation < 10 ? 1e-11 : 1e-10);
    if (deviation < 100) check_float32(x, o);
    if (deviation == 1) {
      for (int64_t d = 0; d < 34; d += 3)
        x.v.data<double>()[60 * 34 + d] = 1000;  // a late outlier: δ goes from 1 to 0
      check_as_on_cpu(x, o);
    }
  }
  Inputs x = draw({2, 1, 70, 70, 4, 6}, 0.01);
  x.v = add(x.v, Tensor(1000.0));  // next to which the values' differences have few digits
  check_as_on_cpu(x, o);
  check_float32(x, o);
}

TEST_CASE("the gradient of a bias on the device, with every other option") {
  if (!has_gpu()) return;
  const Inputs x = draw({2, 1, 5, 7, 3, 4});
  Generator g(5);
  const Tensor bias = randn({2, 5, 7}, DType::float64, Device::cpu, 0, 1, g);
  for (const AttentionRead read : kReads) {
    const auto results = [&](Device device) {
      const Inputs here = cast_all(x, DType::float64, device);
      AttentionOptions o;
      o.read = read, o.causal = true, o.left = 3, o.right = 1, o.softcap = 2;
      o.bias = to(bias, device), o.slopes = to(tensor({0.5, 0.25}, DType::float64), device);
      o.allowed = not_equal(arange(0, 7, 1, DType::int64, device), full({}, 3, DType::int64, device));
      Tape tape;
      for (const Tensor& t : {here.q, here.k, here.v, o.bias}) tape.watch(t);
      const Tensor y = attention(here.q, here.k, here.v, o);
      std::vector<Tensor> all = tape.gradient({y}, {here.q, here.k, here.v, o.bias}, {here.dy});
      all.insert(all.begin(), y);
      return all;
    };
    check_close(results(Device::cuda), results(Device::cpu), 1e-12);
  }
}

TEST_CASE(
    "on the device a query with NaN gives NaN, and the result lies as the projection that follows reads it") {
  if (!has_gpu()) return;
  for (const AttentionRead read : kReads) {
    Inputs x = draw({2, 1, 5, 40, 4, 4});
    x.q.data<double>()[0] = NAN;
    AttentionOptions o;
    o.read = read;
    const Inputs here = cast_all(x, DType::float32, Device::cuda);
    const Tensor y = attention(here.q, here.k, here.v, o);
    CHECK(std::isnan(y.values()[0]));
    CHECK(std::isfinite(y.values()[4]));
    CHECK(permute(y, {0, 2, 1, 3}).is_contiguous());
  }
}

#if VITRINE_CUDA_EMULATED
TEST_CASE("attention fits into the shared memory of smaller GPUs, or does without") {
  struct Small {
    Small() { emulator::set_shared_memory_size(size_t{99} << 10); }
    ~Small() { emulator::set_shared_memory_size(size_t{227} << 10); }
  } const small;
  for (const AttentionRead read : kReads) {
    AttentionOptions o;
    o.read = read, o.causal = true;
    for (const int64_t size : {64, 128, 192}) {
      INFO(size, " channels, LASER: ", read == AttentionRead::laser);
      const Inputs x = draw({1, 1, 70, 40, size, size});
      if (size <= 128) check_float32(x, o);
      check_16_bits(x, o);
    }
    const Inputs wide = draw({1, 1, 18, 35, 256, 256});
    check_as_on_cpu(wide, o);  // no tile fits: the naive step runs
  }
}
#endif
