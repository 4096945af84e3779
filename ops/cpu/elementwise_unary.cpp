#include "ops/cpu/elementwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/elementwise_unary.cpp"
#include "core/simd/dispatch.h"
#include "core/simd/vector_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vitrine {
namespace HWY_NAMESPACE {
namespace unary_forward {
#include "ops/formulas-inl.h"

template <class F, class T>
void row(T* y, const T* const* x, size_t n, double a, double b) {
  const F f = formula::make<F>(a, b);
  map(
      n, y, [f](Vec<T> v) HWY_ATTR { return f.value(v); }, x[0]);
}

template <class T>
cpu::Row<T> find(Unary op) {
  switch (op) {
#define VITRINE_CASE(name, Formula) \
  case Unary::name: return &row<Formula, T>;
    VITRINE_UNARY_FORMULAS(VITRINE_CASE)
#undef VITRINE_CASE
  }
  return nullptr;
}

cpu::Row<float> find_float(Unary op) { return find<float>(op); }
cpu::Row<double> find_double(Unary op) { return find<double>(op); }

}  // namespace unary_forward
}  // namespace HWY_NAMESPACE
}  // namespace vitrine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vitrine::cpu {

template <>
Row<float> unary_row<float>(Unary op) {
  return VITRINE_DISPATCH(unary_forward::find_float)(op);
}
template <>
Row<double> unary_row<double>(Unary op) {
  return VITRINE_DISPATCH(unary_forward::find_double)(op);
}

}  // namespace vitrine::cpu
#endif
