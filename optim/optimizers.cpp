#include "optim/optimizers.h"

#include <algorithm>
#include <deque>

#include "core/names.h"

namespace vitrine::optim {
namespace {

using Made = std::unique_ptr<Optimizer>;
using Parameters = std::vector<Parameter>;
using Row = OptimizerRow;

const std::vector<std::string> kBetas = {"beta1", "beta2"};
const std::vector<std::string> kBetasAndMoments = {"beta1", "beta2", "moments"};

template <class R, class Options>
Made make_adam(Parameters p, const CommonOptions& c, Decay decay) {
  return std::make_unique<R>(
      std::move(p),
      Options{
          .lr = c.lr, .beta1 = c.beta1, .beta2 = c.beta2, .weight_decay = c.weight_decay, .decay = decay});
}

/// Adam or a related rule: with coupled decay under `name`, and with decoupled decay under the name
/// with a w at the end.
template <class R, class Options>
void add_adam(std::vector<Row>& rows, const std::string& name, const std::string& help,
              const std::string& source) {
  for (const Decay decay : {Decay::coupled, Decay::decoupled}) {
    const bool decoupled = decay == Decay::decoupled;
    rows.push_back({.name = name + (decoupled ? "w" : ""),
                    .help = help + (decoupled ? ", with decoupled weight decay" : ""),
                    .source = source + (decoupled ? "; Loshchilov and Hutter 2019" : ""),
                    .options = kBetasAndMoments,
                    .make = [decay](Parameters p, const CommonOptions& c) {
                      return make_adam<R, Options>(std::move(p), c, decay);
                    }});
  }
}

Made make_sgd(Parameters p, const CommonOptions& c) {
  return std::make_unique<Sgd>(
      std::move(p),
      SgdOptions{.lr = c.lr, .momentum = c.momentum, .weight_decay = c.weight_decay, .nesterov = c.nesterov});
}

Made make_lamb(Parameters p, const CommonOptions& c) {
  return std::make_unique<Lamb>(
      std::move(p),
      LambOptions{.lr = c.lr, .beta1 = c.beta1, .beta2 = c.beta2, .weight_decay = c.weight_decay});
}

Made make_lion(Parameters p, const CommonOptions& c) {
  return std::make_unique<Lion>(std::move(p), LionOptions{c.lr, c.beta1, c.beta2, c.weight_decay});
}

Made make_sophia(Parameters p, const CommonOptions& c) {
  return std::make_unique<Sophia>(
      std::move(p),
      SophiaOptions{.lr = c.lr, .beta1 = c.beta1, .beta2 = c.beta2, .weight_decay = c.weight_decay});
}

Made make_adafactor(Parameters p, const CommonOptions& c) {
  return std::make_unique<Adafactor>(
      std::move(p),
      AdafactorOptions{
          .lr = c.lr, .relative_step = false, .scale_parameter = false, .weight_decay = c.weight_decay});
}

/// One rate serves the matrices and the tensors that AdamW updates.
Made make_muon(Parameters p, const CommonOptions& c) {
  return std::make_unique<Muon>(std::move(p), MuonOptions{.lr = c.lr,
                                                          .weight_decay = c.weight_decay,
                                                          .scale = MuonScale::adamw_rms,
                                                          .beta1 = c.beta1,
                                                          .beta2 = c.beta2});
}

Made make_shampoo(Parameters p, const CommonOptions& c) {
  return std::make_unique<Shampoo>(std::move(p),
                                   ShampooOptions{.lr = c.lr, .weight_decay = c.weight_decay, .every = 10});
}

Made make_schedule_free(Parameters p, const CommonOptions& c) {
  return std::make_unique<ScheduleFreeAdamW>(
      std::move(p),
      ScheduleFreeOptions{.lr = c.lr, .beta1 = c.beta1, .beta2 = c.beta2, .weight_decay = c.weight_decay});
}

Made make_rmsprop(Parameters p, const CommonOptions& c) {
  return std::make_unique<Rmsprop>(
      std::move(p),
      RmspropOptions{.lr = c.lr, .beta2 = c.beta2, .weight_decay = c.weight_decay, .momentum = c.momentum});
}

Made make_adagrad(Parameters p, const CommonOptions& c) {
  return std::make_unique<Adagrad>(std::move(p), AdagradOptions{.lr = c.lr, .weight_decay = c.weight_decay});
}

Made make_adadelta(Parameters p, const CommonOptions& c) {
  return std::make_unique<Adadelta>(std::move(p),
                                    AdadeltaOptions{.lr = c.lr, .weight_decay = c.weight_decay});
}

std::vector<Row> library_rows() {
  std::vector<Row> rows = {{.name = "sgd",
                            .help = "gradient descent with momentum",
                            .source = "Sutskever et al. 2013",
                            .options = {"momentum", "nesterov", "moments"},
                            .make = make_sgd}};
  add_adam<Adam, AdamOptions>(rows, "adam", "mean of g divided by the root of the mean of g²",
                              "Kingma and Ba 2015");
  add_adam<Adamax, AdamaxOptions>(rows, "adamax", "mean of g divided by the decaying maximum of |g|",
                                  "Kingma and Ba 2015");
  add_adam<NAdam, NAdamOptions>(rows, "nadam", "Adam with Nesterov momentum", "Dozat 2016");
  add_adam<RAdam, RAdamOptions>(rows, "radam", "Adam with a rectified learning rate", "Liu et al. 2020");
  const std::vector<Row> others = {
      {.name = "lamb",
       .help = "Adam with a learning rate for each parameter, scaled by the parameter's norm",
       .source = "You et al. 2020",
       .options = kBetas,
       .make = make_lamb},
      {.name = "lion",
       .help = "sign of a mean of g",
       .source = "Chen et al. 2023",
       .options = kBetasAndMoments,
       .make = make_lion},
      {.name = "sophia",
       .help = "mean of g divided by that of the Hessian's diagonal, clipped; estimates it every tenth step",
       .source = "Liu et al. 2023",
       .options = kBetasAndMoments,
       .make = make_sophia},
      {.name = "muon",
       .help = "orthogonalized updates for matrices; AdamW for embeddings, heads and vectors",
       .source = "Jordan 2024",
       .options = kBetasAndMoments,
       .make = make_muon},
      {.name = "shampoo",
       .help = "g between the fourth roots of its statistics per row and column; a diagonal for vectors",
       .source = "Gupta, Koren and Singer 2018",
       .make = make_shampoo},
      {.name = "schedule_free_adamw",
       .help = "AdamW whose average of the iterates replaces a falling learning rate",
       .source = "Defazio et al. 2024",
       .options = kBetasAndMoments,
       .make = make_schedule_free},
      {.name = "adafactor",
       .help = "g divided by the root of its mean square, stored per row and column of a matrix",
       .source = "Shazeer and Stern 2018",
       .make = make_adafactor},
      {.name = "rmsprop",
       .help = "g divided by the root of its mean square, with momentum",
       .source = "Tieleman and Hinton 2012",
       .options = {"beta2", "momentum", "moments"},
       .make = make_rmsprop},
      {.name = "adagrad",
       .help = "g divided by the root of the sum of g²",
       .source = "Duchi, Hazan and Singer 2011",
       .make = make_adagrad},
      {.name = "adadelta",
       .help = "g times the root mean square of past steps, divided by that of g",
       .source = "Zeiler 2012",
       .options = {"moments"},
       .make = make_adadelta}};
  rows.insert(rows.end(), others.begin(), others.end());
  return rows;
}

/// A deque, so that rows keep their addresses.
std::deque<Row>& table() {
  static std::deque<Row> rows = [] {
    const auto own = library_rows();
    return std::deque<Row>(own.begin(), own.end());
  }();
  return rows;
}

const Row* find_row(std::string_view name) {
  const auto& rows = table();
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const Row& row) { return row.name == name; });
  return found == rows.end() ? nullptr : &*found;
}

const Row& row_of(const std::string& name) {
  const Row* const row = find_row(name);
  if (row == nullptr) {
    std::vector<std::string> known;
    for (const Row& other : table()) known.push_back(other.name);
    fail("there is no optimizer {}: wanted {}{}", name, optimizer_names(), did_you_mean(name, known));
  }
  return *row;
}

}  // namespace

void register_optimizer(OptimizerRow row) {
  check(!row.name.empty() && row.name.find_first_of(", ") == std::string::npos,
        "register_optimizer: `{}` is no name: wanted letters without commas or spaces", row.name);
  check(find_row(row.name) == nullptr, "register_optimizer: there is an optimizer {} already", row.name);
  check(row.make != nullptr, "register_optimizer: {} has no function that makes it", row.name);
  table().push_back(std::move(row));
}

std::vector<const OptimizerRow*> optimizer_table(bool registered) {
  std::vector<const Row*> rows;
  for (const Row& row : table()) rows.push_back(&row);
  if (!registered) rows.resize(library_rows().size());
  return rows;
}

std::string optimizer_names() {
  std::vector<std::string> names;
  for (const Row& row : table()) names.push_back(row.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::unique_ptr<Optimizer> make_optimizer(const std::string& name, Parameters parameters,
                                          const CommonOptions& options) {
  check(!options.nesterov || has_option(name, "nesterov"),
        "{} has no Nesterov momentum to choose: sgd has, nadam is Adam with it, and muon always has it",
        name);
  auto optimizer = row_of(name).make(std::move(parameters), options);
  if (options.moments != DType::float32) {
    check(has_option(name, "moments"), "{} has no moments that can be {}", name,
          vitrine::name(options.moments));
    optimizer->set_moments(options.moments);
  }
  std::map<std::string, std::string> setting = {{"optimizer", name},
                                                {"weight-decay", fmt::format("{}", options.weight_decay)}};
  const std::pair<const char*, double> numbers[] = {
      {"beta1", options.beta1}, {"beta2", options.beta2}, {"momentum", options.momentum}};
  for (const auto& number : numbers)
    if (has_option(name, number.first)) setting[number.first] = fmt::format("{}", number.second);
  if (has_option(name, "nesterov")) setting["nesterov"] = fmt::format("{}", options.nesterov);
  if (has_option(name, "moments")) setting["moments"] = vitrine::name(options.moments);
  optimizer->set_setting(std::move(setting));
  return optimizer;
}

bool has_option(const std::string& optimizer, std::string_view option) {
  const auto& options = row_of(optimizer).options;
  return std::find(options.begin(), options.end(), option) != options.end();
}

}  // namespace vitrine::optim
