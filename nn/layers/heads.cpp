#include "nn/layers/heads.h"

#include "ops/view.h"

namespace vitrine::nn {

void check_heads(const std::string& who, int64_t width, int64_t heads, int64_t key_heads) {
  check(width > 0 && heads > 0 && width % heads == 0, "{}: the width {} is no multiple of the {} heads", who,
        width, heads);
  check(key_heads >= 0 && (key_heads == 0 || heads % key_heads == 0),
        "{}: {} query heads cannot share {} key heads evenly", who, heads, key_heads);
}

Tensor split_heads(const Tensor& x, int64_t heads) {
  return permute(reshape(x, {x.size(0), x.size(1), heads, x.size(2) / heads}), {0, 2, 1, 3});
}

Tensor join_heads(const Tensor& x) {
  return reshape(permute(x, {0, 2, 1, 3}), {x.size(0), x.size(2), x.size(1) * x.size(3)});
}

}  // namespace vitrine::nn
