// Misuse of optimizers and schedules: parameters and states are unchanged, and the next step is the
// same as without the mistake.
#include "core/creation.h"
#include "core/tape.h"
#include "core/tensor_kernels.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "optim/by_name.h"
#include "optim/optimizers.h"
#include "tests/misuse/misuse.h"

using namespace vitrine;
using namespace vitrine::optim;
using namespace vitrine::test;

namespace {

Parameter parameter(std::initializer_list<double> values, const std::string& name) {
  Parameter p(tensor(values));
  p.set_name(name);
  p.master().set_grad(tensor(values) * 0.5);
  return p;
}

/// Undoes what a mistake has written into the scene by itself.
class Restore {
 public:
  explicit Restore(std::function<void()> f) : f_(std::move(f)) {}
  ~Restore() { f_(); }
  Restore(const Restore&) = delete;
  Restore& operator=(const Restore&) = delete;

 private:
  std::function<void()> f_;
};

/// An optimizer after its first step.
struct Stepped : Scene {
  Parameter a = parameter({1, 2}, "a"), b = parameter({3}, ""), fresh = parameter({4, 5}, "fresh");
  mutable Adam adam{{a, b}, {.lr = 0.1}};
  std::map<std::string, Tensor> saved;

  Stepped() {
    adam.step();
    saved = adam.state_dict();
  }
  std::string state() const override {
    std::string text = show(a.master()) + show(b.master()) + show(fresh.master());
    for (const auto& [name, x] : adam.state_dict()) text += name + " " + show(x);
    for (const Group& group : adam.groups())
      text +=
          fmt::format("{} {} {}\n", group.parameters.size(), group.options.lr, group.options.weight_decay);
    return text;
  }
  std::string outcome(const Tensor& y) override { return show(y) + state(); }
  Tensor step() {
    adam.step();
    return a.master();
  }
};

std::vector<Misuse> settings(Stepped& s) {
  const auto right = [&] { return s.step(); };
  const auto making = [&s](auto options) { return [&s, options] { Adam({s.fresh}, options); }; };
  return {
      {"a negative learning rate",
       making(AdamOptions{.lr = -1}),
       {"the learning rate is -1, wanted", "at least 0"},
       right},
      {"an infinite learning rate",
       making(AdamOptions{.lr = INFINITY}),
       {"the learning rate is inf, wanted a finite"},
       right},
      {"a negative learning rate later", [&] { s.adam.set_lr(-0.5); }, {"the learning rate is -0.5"}, right},
      {"a learning rate that is NaN", [&] { s.adam.set_lr(NAN); }, {"the learning rate is nan"}, right},
      {"a negative weight decay",
       making(AdamOptions{.weight_decay = -1}),
       {"the weight decay is -1, wanted a finite number of at least 0"},
       right},
      {"an infinite weight decay",
       making(AdamOptions{.weight_decay = INFINITY}),
       {"the weight decay is inf, wanted a finite"},
       right},
      {"an infinite factor of the learning rates",
       [&] { s.adam.set_lr_factor(INFINITY); },
       {"the factor of the learning rates is inf, wanted a finite"},
       right},
      {"an infinite eps", making(AdamOptions{.eps = INFINITY}), {"Adam: eps is inf, wanted a finite"}, right},
      {"an infinite momentum",
       [&] { Rmsprop({s.fresh}, {.momentum = INFINITY}); },
       {"Rmsprop: the momentum is inf, wanted a finite"},
       right},
      {"a beta of 1",
       making(AdamOptions{.beta1 = 1}),
       {"Adam: the betas are 1 and 0.999, wanted [0, 1)"},
       right},
      {"a negative beta",
       [&] { Lion({s.fresh}, {.beta2 = -0.5}); },
       {"Lion: the betas are 0.9 and -0.5, wanted [0, 1)"},
       right},
      {"a negative eps",
       making(AdamOptions{.eps = -1}),
       {"Adam: eps is -1, wanted a finite number of at least 0"},
       right},
      {"a negative momentum",
       [&] { Sgd({s.fresh}, {.momentum = -1}); },
       {"Sgd: the momentum is -1, wanted a finite number of at least 0"},
       right},
      {"a dampening above 1",
       [&] { Sgd({s.fresh}, {.momentum = 0.9, .dampening = 1.5}); },
       {"Sgd: the dampening is 1.5, wanted [0, 1]"},
       right},
      {"a dampening that is NaN",
       [&] { Sgd({s.fresh}, {.momentum = 0.9, .dampening = NAN}); },
       {"Sgd: the dampening is nan, wanted [0, 1]"},
       right},
      {"a momentum decay below 0",
       [&] { NAdam({s.fresh}, {.momentum_decay = -1}); },
       {"NAdam: momentum_decay is -1, wanted a finite number of at least 0"},
       right},
      {"Nesterov without momentum",
       [&] { Sgd({s.fresh}, {.nesterov = true}); },
       {"Sgd: Nesterov wants a momentum and no dampening, got 0 and 0"},
       right},
      {"Adafactor that clips everything",
       [&] { Adafactor({s.fresh}, {.clip = 0}); },
       {"Adafactor: clip is 0, wanted more than 0"},
       right},
      {"an optimizer of nothing", [] { Adam({}, {}); }, {"a group without parameters"}, right},
      {"an undefined parameter",
       [&] {
         s.adam.add_group({{Parameter()}, {}});
       },
       {"undefined parameter"},
       right},
      {"a parameter in two groups",
       [&] {
         s.adam.add_group({{s.fresh, s.a}, {}});
       },
       {"Optimizer: the parameter a is given twice"},
       right},
      {"an unnamed parameter in two groups",
       [&] {
         s.adam.add_group({{s.b}, {}});
       },
       {"Optimizer: the parameter float32[1] on cpu is given twice"},
       right},
      {"a parameter of another's memory",
       [&] {
         s.adam.add_group({{Parameter(s.a.master())}, {}});
       },
       {"shares memory with another", "tied parameters are copies of one Parameter"},
       right},
      {"a learning rate that is NaN, written into a group",
       [&] {
         s.adam.groups()[0].options.lr = NAN;
         const Restore restore([&] { s.adam.groups()[0].options.lr = 0.1; });
         s.adam.step();
       },
       {"the learning rate is nan"},
       right},
      {"a parameter that is appended to a group which has it",
       [&] {
         s.adam.groups()[0].parameters.push_back(s.a);
         const Restore restore([&] { s.adam.groups()[0].parameters.pop_back(); });
         s.adam.step();
       },
       {"step: the parameter a is in the groups twice"},
       right},
      {"a decay of Adagrad's rate that is infinite",
       [&] { Adagrad({s.fresh}, {.lr_decay = INFINITY}); },
       {"Adagrad: lr_decay is inf, wanted a finite number of at least 0"},
       right},
      {"an initial sum of Adagrad below 0",
       [&] { Adagrad({s.fresh}, {.initial_accumulator = -1}); },
       {"Adagrad: initial_accumulator is -1, wanted"},
       right},
      {"an infinite eps of Adadelta",
       [&] { Adadelta({s.fresh}, {.eps = INFINITY}); },
       {"Adadelta: rho is 0.9 and eps inf", "a finite number above 0"},
       right},
      {"a group with a negative learning rate",
       [&] {
         s.adam.add_group({{s.fresh}, {.lr = -1}});
       },
       {"the learning rate is -1"},
       right},
      {"an optimizer that is not there",
       [&] { make_optimizer("adamm", {s.fresh}, {}); },
       {"there is no optimizer adamm", "wanted sgd, adam, adamw", "did you mean adam?"},
       right},
      {"a schedule that is not there",
       [] { make_schedule("cosin", 1, 1, 2, 0); },
       {"there is no schedule cosin", "wanted constant, cosine"},
       right},
      {"a warmup longer than the training",
       [] { make_schedule("linear", 1, 5, 2, 0); },
       {"warmup_linear: wanted 0 ≤ warmup < total, got 5 and 2"},
       right},
      {"noam without warmup",
       [] { make_schedule("noam", 1, 0, 2, 0); },
       {"noam: wanted", "warmup above 0", "and 0"},
       right},
      {"noam's step 0", [] { noam(64, 10)(0); }, {"noam: steps count from 1, got 0"}, right},
  };
}

std::vector<Misuse> states(Stepped& s) {
  const auto load = [&] { s.adam.load_state_dict(s.saved); };
  const auto right = [&] { return s.step(); };
  return {
      {"a state of which much is wrong",
       load,
       {"missing a/moment1", "a/moment2 is float32[3] on cpu, wanted float32[2]", "unexpected c/moment1",
        "1/moment1 is float64[1] on cpu, wanted float32[1]"},
       right,
       [&] {
         s.saved.erase("a/moment1");
         s.saved["a/moment2"] = zeros({3});
         s.saved["1/moment1"] = zeros({1}, DType::float64);
         s.saved["c/moment1"] = zeros({1});
       }},
      {"a state that the rule does not have",
       [&] { s.adam.state(s.a, "rows"); },
       {"state: a has no state \"rows\" under this rule, which has moment1, moment2"},
       right},
      {"the state of a parameter of another optimizer",
       [&] { s.adam.set_state(s.fresh, "moment1", zeros({2})); },
       {"set_state: fresh is no parameter of this optimizer"},
       right},
      {"a state of another shape",
       [&] { s.adam.set_state(s.a, "moment1", zeros({3})); },
       {"set_state: the moment1 of a has the shape [2], got float32[3]"},
       right},
      {"a count of steps that no run reaches",
       load,
       {"step is int64[1]", "at most 9007199254740992"},
       right,
       [&] { s.saved["step"] = tensor({0x1p62}, DType::int64); }},
      {"a parameter's count beyond the optimizer's",
       load,
       {"a/step is int64[1]", "at least 0 and at most 1"},
       right,
       [&] { s.saved["a/step"] = tensor({2}, DType::int64); }},
      {"a state without its step", load, {"missing step"}, right, [&] { s.saved.erase("step"); }},
      {"a step that is NaN",
       load,
       {"step is float32[]", "wanted one int64 of at least 0"},
       right,
       [&] { s.saved["step"] = Tensor(NAN); }},
      {"a negative step",
       load,
       {"step is int64[1]", "wanted one int64 of at least 0"},
       right,
       [&] { s.saved["step"] = tensor({-1}, DType::int64); }},
      {"an undefined state", load, {"missing a/moment1"}, right, [&] { s.saved["a/moment1"] = Tensor(); }},
      {"clipping to nothing",
       [&] {
         clip_gradients({s.a, s.b}, 0);
       },
       {"clip_gradients: the largest norm is 0, wanted more than 0"},
       right},
      {"a step without any gradient",
       [&] { s.adam.step(); },
       {"step: no parameter has a gradient", "Tape::explain(a, loss)"},
       [&] {
         s.a.master().set_grad(tensor({1, 1}));
         return s.step();
       },
       [&] { s.adam.zero_grad(); }},
      {"clipping a gradient that is NaN",
       [&] {
         clip_gradients({s.a, s.b}, 1);
       },
       {"clip_gradients: the norm of the gradients is nan"},
       [&] { return s.a.master(); },
       [&] { s.b.master().set_grad(tensor({NAN})); }},
      {"a step after a backward that failed halfway",
       [&] { s.adam.step(); },
       {"step: the gradient of a is incomplete", "call zero_grad()"},
       [&] {
         s.adam.zero_grad();
         s.a.master().set_grad(tensor({1, 1}));
         return s.step();
       },
       [&] {
         Tape tape;
         const Tensor y = s.a.value() * 2;
         tape.on_gradient(y, [](const Tensor&) -> Tensor { throw Error("planted"); });
         CHECK_THROWS_AS(tape.backward(sum(y) + sum(s.a.value())), Error);
       }},
  };
}

}  // namespace

TEST_CASE("misuse of settings of optimizers and schedules") { check_all<Stepped>(settings); }
TEST_CASE("misuse of states of optimizers, and of gradients") { check_all<Stepped>(states); }
