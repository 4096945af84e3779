#include "optim/optimizer.h"

#include <doctest/doctest.h>

#include <memory>

#include "core/creation.h"
#include "core/parallel.h"
#include "core/random.h"
#include "core/tape.h"
#include "core/tensor_kernels.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "optim/by_name.h"
#include "optim/optimizers.h"
#include "tests/optim/rules.h"

using namespace vitrine;
using namespace vitrine::optim;

namespace {

Parameter parameter(uint64_t seed, DType dtype = DType::float32) {
  Generator generator(seed);
  Parameter p(randn({300, 77}, DType::float32, Device::cpu, 0, 1, generator));
  p.to(dtype);
  return p;
}

void descend(Optimizer& optimizer, const Parameter& p, int steps) {
  for (int i = 0; i < steps; ++i) {
    optimizer.zero_grad();
    Tape tape;
    tape.backward(sum(square(p.value() - 1)));
    test::give_estimates(optimizer, {p});
    optimizer.step();
  }
}

/// A user-defined rule without a kernel. It has no code for 16-bit copies.
class Halving : public Optimizer {
 public:
  explicit Halving(std::vector<Parameter> parameters) : Optimizer(std::move(parameters), {}) {}

 private:
  void update(ParameterBatch& batch, const GroupOptions&, int64_t) override {
    for (Tensor& x : batch.x) VITRINE_RUN(copy, x, x * 0.5);
  }
  std::vector<StateSlot> slots(const Parameter&) const override { return {}; }
};

}  // namespace

TEST_CASE("16-bit copies follow their masters also where the rule does not write them") {
  for (const DType dtype : {DType::bfloat16, DType::float16}) {
    Parameter moved = parameter(3, dtype), still = parameter(4, dtype);
    const auto first = moved.master().values(), before = still.value().values();
    Tensor master = still.master();
    VITRINE_RUN(fill, master, 7.0);  // the 16-bit copy is not refreshed
    moved.master().set_grad(zeros_like(moved.master()));
    Halving({moved, still}).step();
    CHECK(moved.master().values()[5] == 0.5 * first[5]);
    CHECK(moved.value().values() == test::copy_of(moved).values());
    CHECK(still.value().values() == before);
  }
}

TEST_CASE("every optimizer lowers a loss") {
  for (const auto& rule : test::optimizer_rules()) {
    INFO(rule.first);
    Parameter p = parameter(1);
    const double before = sum(square(p.value() - 1)).item();
    descend(*rule.second({p}), p, 10);
    CHECK(sum(square(p.value() - 1)).item() < before);
  }
}

TEST_CASE("steps have the same bits on any number of threads, and beside a parameter without gradient") {
  const int before = threads();
  for (const auto& rule : test::optimizer_rules()) {
    INFO(rule.first);
    std::vector<std::vector<double>> results;
    for (int count : {1, 2, 3, 7}) {
      set_threads(count);
      Parameter p = parameter(2);
      descend(*rule.second({p}), p, 5);
      results.push_back(p.master().values());
    }
    set_threads(before);
    Parameter p = parameter(2), other = parameter(8);
    const auto both = rule.second({other, p});
    descend(*both, p, 5);  // `other` never has a gradient
    results.push_back(p.master().values());
    for (const auto& r : results) CHECK(r == results[0]);
    CHECK(other.master().values() == parameter(8).master().values());
  }
}

TEST_CASE("a run that is resumed from its state equals one that ran through") {
  for (const auto& rule : test::optimizer_rules()) {
    INFO(rule.first);
    Parameter a = parameter(3), b = parameter(3);
    const auto through = rule.second({a}), first = rule.second({b});
    descend(*through, a, 8);
    descend(*first, b, 5);
    const auto second = rule.second({b});
    second->load_state_dict(first->state_dict());
    descend(*second, b, 3);
    CHECK(a.master().values() == b.master().values());
    CHECK(second->steps() == 8);
  }
}

TEST_CASE("parameters of one name, or none, keep states of their own") {
  Parameter a = parameter(1), b = parameter(2), c = parameter(3);
  a.set_name("weight"), b.set_name("weight");
  Adam o({a, b, c});
  for (const Parameter& p : {a, b, c}) p.master().set_grad(copy_as(p.master(), DType::float32));
  o.step();
  const auto state = o.state_dict();
  CHECK(state.size() == 10);
  Adam other({a, b, c});
  other.load_state_dict(state);
  for (const auto& [path, x] : other.state_dict()) CHECK(x.values() == state.at(path).values());
  CHECK(state.at("weight/moment1").values() != state.at("weight#1/moment1").values());
}

TEST_CASE("a wrong state is refused as a whole, and a step that fails does not count") {
  Parameter p = parameter(1);
  p.set_name("w");
  Adam o({p});
  descend(o, p, 2);
  auto state = o.state_dict();
  state["w/moment1"] = copy_as(state["w/moment1"], DType::float64);
  state.erase("w/moment2");
  state["v/moment1"] = zeros({1});
  CHECK_THROWS_WITH_AS(
      o.load_state_dict(state),
      "Optimizer: load_state_dict: w/moment1 is float64[300, 77] on cpu, wanted float32[300, 77]; missing "
      "w/moment2; unexpected v/moment1",
      Error);
  CHECK(o.steps() == 2);
  Parameter q = parameter(4);
  Lamb lamb({q});
  q.master().set_grad(full_like(q.master(), 1));
  q.master().leaf()->stale = true;
  CHECK_THROWS_AS(lamb.step(), Error);
  CHECK(lamb.steps() == 0);
}

TEST_CASE("a group that cannot step keeps the others from stepping, and leaves no state") {
  const SgdOptions options{.lr = 0.1, .momentum = 0.9, .dampening = 0.5};
  Parameter p = parameter(1), alone = parameter(1), converted = parameter(2);
  Sgd together({converted}, options), single({alone}, options);
  descend(together, converted, 1);
  together.add_group({{p}, {.lr = 0.1}});
  std::swap(together.groups()[0], together.groups()[1]);  // p comes first
  const auto before = p.value().values();
  converted.to(DType::float64);
  for (const Parameter& x : {p, alone, converted}) x.master().set_grad(full_like(x.master(), 1));
  CHECK_THROWS_WITH(together.step(), doctest::Contains("convert the model before"));
  CHECK(p.value().values() == before);
  CHECK(together.steps() == 1);
  // The next step is p's first step, which uses no dampening.
  converted.zero_grad();
  together.step();
  single.step();
  CHECK(p.value().values() == alone.value().values());
}

TEST_CASE("bfloat16 parameters move their float32 master and follow it") {
  Parameter p = parameter(4, DType::bfloat16);
  Adam o({p}, {.lr = 1e-4});
  const auto before = p.master().values();
  descend(o, p, 3);
  CHECK(p.master().dtype() == DType::float32);
  CHECK(p.grad().dtype() == DType::float32);
  CHECK(p.master().values() != before);
  CHECK(p.value().values() == test::copy_of(p).values());
}

TEST_CASE("a frozen parameter is passed by") {
  Parameter p = parameter(4), frozen = parameter(5);
  frozen.requires_grad(false);
  const auto before = frozen.master().values(), moved = p.master().values();
  Adam o({p, frozen}, {.weight_decay = 0.1});
  {
    Tape tape;
    tape.backward(sum(p.value()) + sum(frozen.value()));
  }
  o.step();
  CHECK(frozen.master().values() == before);
  CHECK(p.master().values() != moved);
}

TEST_CASE("with eps 0 what never had a gradient stays") {
  const std::unique_ptr<Optimizer> rules[] = {
      std::make_unique<Adam>(std::vector{parameter(4)}, AdamOptions{.eps = 0}),
      std::make_unique<NAdam>(std::vector{parameter(4)}, NAdamOptions{.eps = 0}),
      std::make_unique<RAdam>(std::vector{parameter(4)}, RAdamOptions{.eps = 0}),
      std::make_unique<Adagrad>(std::vector{parameter(4)}, AdagradOptions{.eps = 0}),
      std::make_unique<Rmsprop>(std::vector{parameter(4)}, RmspropOptions{.eps = 0})};
  for (const auto& o : rules) {
    const Parameter p = o->groups()[0].parameters[0];
    const double before = p.master().values()[0], second = p.master().values()[1];
    Tensor g = zeros(p.shape());
    g.data<float>()[1] = 1;
    for (int step = 0; step < 8; ++step) {  // RAdam divides from its sixth on
      p.master().set_grad(g);
      o->step();
    }
    CHECK(p.master().values()[0] == before);
    CHECK(p.master().values()[1] < second);
  }
}

TEST_CASE("a step after a failed backward is refused until the gradients are cleared") {
  Parameter p = parameter(5);
  p.set_name("weights");
  Adam o({p});
  {
    Tape tape;
    const Tensor y = square(p.value());
    tape.on_gradient(y, [](const Tensor&) -> Tensor { throw Error("planted"); });
    const Tensor loss = sum(y) + sum(p.value());
    CHECK_THROWS_WITH_AS(tape.backward(loss), doctest::Contains("planted"), Error);
  }
  CHECK_THROWS_WITH_AS(o.step(), doctest::Contains("the gradient of weights is incomplete"), Error);
  o.zero_grad();
  p.master().set_grad(zeros_like(p.master()));
  CHECK_NOTHROW(o.step());
}

TEST_CASE("a parameter that is made of a view has memory of its own") {
  const auto numbers = [](double end, const Shape& shape) {
    return reshape(arange(0, end, 1, DType::float32), shape);
  };
  Parameter turned(transpose(zeros({2, 3}, DType::float32)));
  turned.value().set_grad(numbers(6, {3, 2}));
  Sgd({turned}, {.lr = 1}).step();
  CHECK(turned.value().values() == std::vector<double>{0, -1, -2, -3, -4, -5});
  const Tensor whole = full({2, 3}, 7, DType::float32);
  Parameter column(slice(whole, 1, 0, 1));
  column.value().set_grad(ones({2, 1}, DType::float32));
  Sgd({column}, {.lr = 1}).step();
  CHECK(column.value().values() == std::vector<double>{6, 6});
  CHECK(whole.values() == std::vector<double>(6, 7));
}

TEST_CASE("a parameter that replaces another has a state of its own") {
  auto old = std::make_unique<Parameter>(ones({4}, DType::float32));
  Sgd o({*old}, {.lr = 1, .momentum = .5});
  const auto step = [&](const Parameter& p) {
    p.value().set_grad(ones(p.shape(), DType::float32));
    o.step();
  };
  step(*old);
  o.groups().clear();
  old.reset();
  for (int i = 0; i < 20; ++i) {  // one of them would get the memory of the old one
    Parameter fresh(ones({40}, DType::float32));
    CHECK(o.steps(fresh) == 0);
    o.add_group({{fresh}, {.lr = 1}});
    step(fresh);
    CHECK(fresh.value().values() == std::vector<double>(40, 0));
    o.groups().clear();
  }
}

TEST_CASE("a float32 model takes the gradients that it had in bfloat16") {
  Parameter p(ones({2}, DType::float32));
  p.to(DType::bfloat16);
  p.gradients_in(DType::bfloat16);
  Tape tape;
  tape.backward(sum(p.value() * 2));
  p.to(DType::float32);
  Sgd({p}, {.lr = .25}).step();
  CHECK(p.value().values() == std::vector<double>{.5, .5});
}

TEST_CASE("bad settings and states are refused with a reason") {
  Parameter p = parameter(6);
  CHECK_THROWS_WITH_AS(Adam({p}, {.lr = -1}), doctest::Contains("the learning rate is -1, wanted"), Error);
  CHECK_THROWS_WITH_AS(Adam({p}, {.beta1 = 1}), doctest::Contains("wanted [0, 1)"), Error);
  CHECK_THROWS_WITH_AS(Sgd({p}, {.nesterov = true}), doctest::Contains("Nesterov wants a momentum"), Error);
  CHECK_THROWS_WITH_AS(Adam({}), doctest::Contains("without parameters"), Error);
  Adam o({p});
  CHECK_THROWS_WITH_AS(o.add_group({{p}, {}}), doctest::Contains("is given twice"), Error);
  CHECK_THROWS_WITH_AS(Adam({p, p}), doctest::Contains("is given twice"), Error);
  CHECK_THROWS_WITH_AS(o.load_state_dict({}), doctest::Contains("missing step"), Error);
}

TEST_CASE("a name that ends in w means weights that decay by themselves") {
  for (const std::string name : {"adam", "nadam", "radam"})
    for (const bool decoupled : {false, true}) {
      INFO(name << " " << decoupled);
      const Parameter p(ones({1}));
      const auto optimizer =
          make_optimizer(name + (decoupled ? "w" : ""), {p}, {.lr = 0.1, .weight_decay = 0.01});
      for (int i = 0; i < 20; ++i) {
        optimizer->zero_grad();
        Tape tape;
        tape.backward(sum(p * 0.0));
        optimizer->step();
      }
      const double decayed = std::pow(1 - 0.1 * 0.01, 20);
      CHECK((std::abs(p.value().item() - decayed) < 1e-5) ==
            decoupled);  // through the gradient it is steps of lr
    }
}

TEST_CASE("optimizers and schedules by name") {
  for (const OptimizerRow* row : optimizer_table()) {
    const std::string& name = row->name;
    INFO(name);
    Parameter p = parameter(1);
    const double before = sum(square(p.value() - 1)).item();
    descend(*make_optimizer(name, {p}, {.lr = 1e-3}), p, 5);
    CHECK(sum(square(p.value() - 1)).item() < before);
  }
  CHECK_THROWS_WITH(make_optimizer("adm", {parameter(1)}, {}),
                    doctest::Contains("there is no optimizer adm: wanted sgd, adam, adamw"));
  for (const char* name : {"constant", "cosine", "linear", "inverse_sqrt", "noam", "cosine_times_warmup"}) {
    INFO(name);
    const Schedule s = make_schedule(name, 0.5, 10, 100, 0.1);
    double highest = 0;
    for (int64_t t = 0; t < 100; ++t) highest = std::max(highest, s(t));
    // The cosine has fallen a little when the warmup ends
    CHECK(highest == doctest::Approx(0.5).epsilon(0.03));
  }
  CHECK_THROWS_WITH(make_schedule("cosin", 1, 1, 2, 0),
                    doctest::Contains("there is no schedule cosin: wanted constant, cosine"));
}

TEST_CASE("a rule from outside is made by its name, beside those of the library") {
  const size_t own = optimizer_table(false).size();
  register_optimizer({.name = "halving", .help = "half of x", .make = [](auto p, const auto&) {
                        return std::make_unique<Halving>(std::move(p));
                      }});
  CHECK(optimizer_table().size() == own + 1);
  CHECK(optimizer_table(false).size() == own);
  CHECK(optimizer_names().ends_with(", halving"));
  CHECK_FALSE(has_option("halving", "beta1"));
  const Parameter p(ones({2}));
  p.master().set_grad(zeros({2}));
  make_optimizer("halving", {p}, {})->step();
  CHECK(p.value().values()[0] == 0.5);
  const auto make = optimizer_table(false)[0]->make;
  CHECK_THROWS_WITH(register_optimizer({.name = "adam", .make = make}),
                    doctest::Contains("an optimizer adam already"));
  CHECK_THROWS_WITH(register_optimizer({.name = "", .make = make}), doctest::Contains("`` is no name"));
  CHECK_THROWS_WITH(register_optimizer({.name = "a, b", .make = make}),
                    doctest::Contains("`a, b` is no name"));
  CHECK_THROWS_WITH(register_optimizer({.name = "other"}), doctest::Contains("other has no function"));
}

TEST_CASE("a rule has an option where the option changes its steps") {
  const auto after_steps = [](const std::string& name, const CommonOptions& options) {
    const Parameter p = parameter(1), vector(tensor({1, 2, 3}));  // Muon's betas are for vectors
    const auto optimizer = make_optimizer(name, {p, vector}, options);
    for (int i = 0; i < 8; ++i) {  // RAdam's beta2 says nothing before the sixth
      optimizer->zero_grad();
      Tape tape;
      tape.backward(sum(square(p.value() - 1)) + sum(square(vector.value() - 1.5)));
      test::give_estimates(*optimizer, {p, vector});
      optimizer->step();
    }
    auto values = p.value().values();
    for (const double x : vector.value().values()) values.push_back(x);
    return values;
  };
  const std::pair<std::string, CommonOptions> changes[] = {
      {"beta1", {.beta1 = 0.5}}, {"beta2", {.beta2 = 0.5}}, {"momentum", {.momentum = 0.5}}};
  for (const OptimizerRow* row : optimizer_table()) {
    const std::string& name = row->name;
    INFO(name);
    const auto plain = after_steps(name, {});
    for (const auto& change : changes) {
      INFO(change.first);
      CHECK(has_option(name, change.first) == (after_steps(name, change.second) != plain));
    }
    if (has_option(name, "nesterov"))
      CHECK(after_steps(name, {.nesterov = true}) != plain);
    else
      CHECK_THROWS_WITH(after_steps(name, {.nesterov = true}),
                        doctest::Contains((name + " has no Nesterov momentum").c_str()));
  }
  CHECK_THROWS_WITH(has_option("adm", "beta1"), doctest::Contains("there is no optimizer adm"));
}

TEST_CASE("a model that is converted after the first step finds its optimizer's state of another type") {
  for (const auto& rule : test::optimizer_rules()) {
    INFO(rule.first);
    Parameter p = parameter(1);
    const auto optimizer = rule.second({p});
    if (optimizer->state_names(p).empty()) continue;
    descend(*optimizer, p, 1);
    p.to(DType::float64);
    CHECK_THROWS_WITH_AS(descend(*optimizer, p, 1),
                         doctest::Contains("convert the model before the optimizer's first step"), Error);
  }
}

TEST_CASE("a parameter that leaves the groups loses its states at the next step") {
  Parameter a = parameter(1), b = parameter(2), never = parameter(3);
  Adam o({a, b, never});
  const auto step = [&] {
    for (const Parameter& p : {a, b}) p.value().set_grad(ones(p.shape(), p.master_dtype()));
    o.step();
  };
  step();
  CHECK(o.steps(b) == 1);
  o.groups()[0].parameters.erase(o.groups()[0].parameters.begin() + 1);
  CHECK(o.steps(b) == 1);
  step();
  CHECK(o.steps(b) == 0);
  CHECK(o.steps(a) == 2);
}
