#include "optim/muon.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "core/creation.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "optim/step_elements.h"

namespace vitrine::optim {
namespace {

double scale_of(MuonScale scale, const Shape& shape) {
  const auto rows = static_cast<double>(shape[0]), columns = static_cast<double>(shape[1]);
  return scale == MuonScale::aspect ? std::sqrt(std::max(1.0, rows / columns))
                                    : 0.2 * std::sqrt(std::max(rows, columns));
}

}  // namespace

Tensor newton_schulz(const Tensor& x, int64_t iterations) {
  check(x.rank() == 2 && x.numel() > 0, "newton_schulz: wanted a matrix with elements, got {}", describe(x));
  const double a = 3.4445, b = -4.7750, c = 2.0315;
  const bool is_tall = x.size(0) > x.size(1);
  Tensor y = is_tall ? transpose(x) : x;  // A is the smaller of the two products
  y = y / (norm(y) + 1e-7);
  for (int64_t i = 0; i < iterations; ++i) {
    const Tensor gram = matmul(y, transpose(y));
    y = a * y + matmul(b * gram + c * matmul(gram, gram), y);
  }
  return is_tall ? transpose(y) : y;
}

Muon::Muon(std::vector<Parameter> parameters, MuonOptions o)
    : FusedOptimizer(std::move(parameters), {o.lr, o.weight_decay}), options_(std::move(o)) {
  check_betas("Muon", options_.beta1, options_.beta2, options_.eps);
  check(options_.momentum >= 0 && options_.momentum < 1, "Muon: the momentum is {}, wanted [0, 1)",
        options_.momentum);
  check(options_.iterations >= 1, "Muon: iterations is {}, wanted at least 1", options_.iterations);
}

bool Muon::is_hidden_matrix(const Parameter& p) const {
  if (p.shape().rank() != 2 || p.numel() == 0) return false;
  const auto& words = options_.adamw_words;
  std::stringstream name(p.name());
  for (std::string word; std::getline(name, word, '.');)
    if (std::find(words.begin(), words.end(), word) != words.end()) return false;
  return true;
}

void Muon::update(ParameterBatch& batch, const GroupOptions&, int64_t) {
  ParameterBatch matrices, rest;
  const List momentum = batch.slots("momentum");
  for (size_t i = 0; i < batch.x.size(); ++i) {
    ParameterBatch& part = momentum[i].defined() ? matrices : rest;
    part.parameters.push_back(batch.parameters[i]);
    part.x.push_back(batch.x[i]);
    part.partners.push_back(batch.partners[i]);
    part.g.push_back(batch.g[i]);
    part.states.push_back(batch.states[i]);
  }
  matrices.group = rest.group = batch.group;
  matrices.factor = rest.factor = batch.factor;
  if (!matrices.x.empty()) move_matrices(matrices);
  if (!rest.x.empty()) move_by_adamw(rest);
}

void Muon::move_matrices(ParameterBatch& batch) const {
  List directions, momentum = batch.slots("momentum"), no_partners;
  // Initialized with zeros, because the kernel reads the tensor that it writes.
  for (const Parameter& p : batch.parameters)
    directions.push_back(zeros(p.shape(), p.master_dtype(), p.device()));
  for (size_t i = 0; i < batch.g.size(); ++i) batch.g[i] = cast(batch.g[i], directions[i].dtype());
  const auto step = numbers(batch, [this](const GroupOptions&, int64_t t) {
    return Step<formulas::MuonMomentum>{{.momentum = options_.momentum, .nesterov = options_.nesterov}, t};
  });
  VITRINE_RUN_AS(formulas::MuonMomentum::kName, update<formulas::MuonMomentum>, directions, no_partners,
                 batch.g, batch.factor, momentum, step);
  batch.factor = Tensor();  // it is in the directions
  for (size_t i = 0; i < directions.size(); ++i) {
    const Tensor y = newton_schulz(directions[i], options_.iterations);
    batch.g[i] = contiguous(y * scale_of(options_.scale, y.shape()));
  }
  step_elements(batch, [](const GroupOptions& group, int64_t) {
    return formulas::Muon{.lr = group.lr, .decay = group.weight_decay};
  });
}

void Muon::move_by_adamw(ParameterBatch& batch) const {
  step_elements(batch, [this](const GroupOptions& group, int64_t t) {
    return formulas::Adam{.lr = group.lr,
                          .beta1 = options_.beta1,
                          .beta2 = options_.beta2,
                          .eps = options_.eps,
                          .decoupled_decay = group.weight_decay,
                          .m_factor = 1 / (1 - std::pow(options_.beta1, t)),
                          .v_factor = 1 / (1 - std::pow(options_.beta2, t))};
  });
}

std::vector<Optimizer::StateSlot> Muon::slots(const Parameter& p) const {
  if (is_hidden_matrix(p)) return {moment("momentum", p)};
  return {moment("moment1", p), moment("moment2", p)};
}

}  // namespace vitrine::optim
