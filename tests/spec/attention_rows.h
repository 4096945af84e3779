// Spec rows of attention and of the ops that prepare its queries and keys; a part of rows().
#pragma once

#include "tests/spec/spec.h"

namespace vitrine::spec {

std::vector<Spec> rotary_rows();
std::vector<Spec> additive_scores_rows();
std::vector<Spec> attention_rows();

}  // namespace vitrine::spec
