#include "optim/gradients.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <set>

#include "core/creation.h"
#include "core/tape.h"
#include "core/written_rows.h"

namespace vitrine::optim {
namespace {

/// The memory from the first to the last element of a tensor.
struct Extent {
  uintptr_t begin = 0, end = 0;

  bool is_expanded = false;

  explicit Extent(const Tensor& x) {
    if (x.numel() == 0) return;
    int64_t low = 0, high = 1;
    for (int axis = 0; axis < x.rank(); ++axis) {
      const int64_t reach = (x.size(axis) - 1) * x.strides()[axis];
      (reach < 0 ? low : high) += reach;
      is_expanded = is_expanded || (x.strides()[axis] == 0 && x.size(axis) > 1);
    }
    const auto first = reinterpret_cast<uintptr_t>(x.raw());
    begin = first + static_cast<uintptr_t>(low * x.element_size());
    end = first + static_cast<uintptr_t>(high * x.element_size());
    is_expanded = is_expanded || high - low < x.numel();
  }
};

}  // namespace

Tensor gradient_of(const Parameter& p) { return p.requires_grad() ? p.value().leaf()->grad : Tensor(); }

ZerosStay::ZerosStay(const std::vector<Parameter>& parameters) {
  for (const Parameter& p : parameters)
    if (const auto& leaf = p.value().leaf();
        leaf && leaf->written_rows && leaf->written_rows->describe(leaf->grad))
      known_.push_back(leaf);
}

ZerosStay::~ZerosStay() {
  for (const auto& leaf : known_) leaf->written_rows->confirm(leaf->grad);
}

std::vector<bool> share_memory(const std::vector<Tensor>& xs) {
  std::vector<Extent> extents;
  for (const Tensor& x : xs) extents.emplace_back(x);
  std::vector<size_t> order(xs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return extents[a].begin < extents[b].begin; });
  std::vector<bool> result(xs.size());
  uintptr_t taken = 0;  // the end of the memory of the tensors before
  for (const size_t i : order) {
    if (xs[i].numel() == 0) continue;
    result[i] = extents[i].is_expanded || extents[i].begin < taken;
    if (!result[i]) taken = extents[i].end;
  }
  return result;
}

std::vector<Tensor> separate_gradients(const std::vector<Parameter>& parameters) {
  std::vector<Parameter> owners;
  std::vector<Tensor> result;
  std::set<const void*> met;
  for (const Parameter& p : parameters)
    if (gradient_of(p).defined() && met.insert(p.identity()).second) {
      owners.push_back(p);
      result.push_back(gradient_of(p));
    }
  const Tape::Pause pause;
  const std::vector<bool> shared = share_memory(result);
  for (size_t i = 0; i < result.size(); ++i)
    if (shared[i]) {
      owners[i].value().set_grad(copy_as(result[i], result[i].dtype()));
      result[i] = gradient_of(owners[i]);
    }
  return result;
}

}  // namespace vitrine::optim
