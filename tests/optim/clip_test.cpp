#include "optim/clip.h"

#include <doctest/doctest.h>

#include <functional>

#include "core/creation.h"
#include "nn/training/loss_scale.h"
#include "ops/elementwise.h"
#include "ops/view.h"

using namespace vitrine;
using namespace vitrine::optim;

namespace {

/// Two parameters of two elements.
std::vector<Parameter> two_zeros() { return {Parameter(zeros({2})), Parameter(zeros({2}))}; }

}  // namespace

TEST_CASE("gradients that share memory are each scaled once, by clipping and by a loss scale") {
  using Views = std::pair<Tensor, Tensor>;
  const auto part = [](const Tensor& x, int64_t at) { return slice(x, 0, at, at + 2); };
  const std::pair<std::string, std::function<Views(const Tensor&)>> layouts[] = {
      {"one tensor", [&](const Tensor& x) { return Views(part(x, 0), part(x, 0)); }},
      {"apart in one storage", [&](const Tensor& x) { return Views(part(x, 0), part(x, 2)); }},
      {"backwards", [&](const Tensor& x) { return Views(part(x, 0), flip(part(x, 0), {0})); }},
      {"one element", [&](const Tensor& x) { return Views(part(x, 1), part(x, 0)); }},
      {"expanded", [&](const Tensor& x) { return Views(part(x, 2), expand(slice(x, 0, 0, 1), {2})); }}};
  for (const auto& layout : layouts)
    for (const bool clips : {true, false}) {
      INFO(layout.first, clips ? ", clipped" : ", scaled");
      const auto scale = [&](const std::vector<Parameter>& p) {
        if (clips) {
          clip_gradients(p, 1);
        } else {
          nn::training::LossScale scale(DType::float16);
          CHECK(scale.unscale(p));
        }
        auto values = p[0].grad().values();
        for (const double g : p[1].grad().values()) values.push_back(g);
        return values;
      };
      const Views views = layout.second(tensor({3, 4, 5, 6}));
      const auto apart = two_zeros(), together = two_zeros();
      apart[0].master().set_grad(copy_as(views.first, DType::float32));
      apart[1].master().set_grad(copy_as(views.second, DType::float32));
      together[0].master().set_grad(views.first);
      together[1].master().set_grad(views.second);
      CHECK(scale(together) == scale(apart));
    }
}

TEST_CASE("a parameter that is listed twice is clipped once") {
  const auto p = two_zeros();
  p[0].master().set_grad(tensor({3, 4}));
  CHECK(gradient_norm({p[0], p[0]}) == 5);
  CHECK(clip_gradients({p[0], p[0]}, 1).item() == 5);
  CHECK(p[0].grad().values()[0] == doctest::Approx(0.6));
}

TEST_CASE("the norm of float64 gradients neither overflows nor vanishes") {
  for (const double size : {1e200, 1.0, 1e-200}) {
    Parameter p(tensor({1, 2}, DType::float64));
    p.value().set_grad(tensor({3, -4}, DType::float64) * size);
    CHECK(gradient_norm({p}) / size == doctest::Approx(5).epsilon(1e-14));
    if (size < 1) continue;  // clipping adds 1e-6 to the norm
    clip_gradients({p}, size);
    CHECK(p.grad().values()[0] / size == doctest::Approx(0.6).epsilon(1e-6));
  }
  // Next to float32, in which a quotient would be 0/0
  Parameter wide(tensor({1, 2}, DType::float64)), narrow(tensor({1, 2}));
  wide.value().set_grad(tensor({3e-150, 4e-150}, DType::float64));
  narrow.value().set_grad(zeros({2}));
  CHECK(gradient_norm({wide, narrow}) / 5e-150 == doctest::Approx(1).epsilon(1e-12));
}
