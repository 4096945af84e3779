#include "ops/cpu/elementwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/elementwise_binary.cpp"
#include "core/simd/dispatch.h"
#include "core/simd/vector_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vitrine {
namespace HWY_NAMESPACE {
namespace binary {
#include "ops/formulas-inl.h"

template <class F, class T>
void row(T* z, const T* const* x, size_t n, double a, double b) {
  const F f = formula::make<F>(a, b);
  map(
      n, z, [f](Vec<T> v, Vec<T> w) HWY_ATTR { return f.value(v, w); }, x[0], x[1]);
}

template <class T>
cpu::Row<T> find(Binary op) {
  switch (op) {
#define VITRINE_CASE(name, Formula) \
  case Binary::name: return &row<Formula, T>;
    VITRINE_BINARY_FORMULAS(VITRINE_CASE)
#undef VITRINE_CASE
  }
  return nullptr;
}

cpu::Row<float> find_float(Binary op) { return find<float>(op); }
cpu::Row<double> find_double(Binary op) { return find<double>(op); }

}  // namespace binary
}  // namespace HWY_NAMESPACE
}  // namespace vitrine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vitrine::cpu {

template <>
Row<float> binary_row<float>(Binary op) {
  return VITRINE_DISPATCH(binary::find_float)(op);
}
template <>
Row<double> binary_row<double>(Binary op) {
  return VITRINE_DISPATCH(binary::find_double)(op);
}

}  // namespace vitrine::cpu
#endif
