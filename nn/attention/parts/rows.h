// The rows of the library's own parts, each from a file of this folder.
#pragma once

#include "nn/attention/part.h"

namespace vitrine::nn::parts {

AttentionPartRow laser();
AttentionPartRow cosine();
AttentionPartRow qk_norm();
AttentionPartRow qk_norm_rms();
AttentionPartRow temperature();
AttentionPartRow rotary();
AttentionPartRow alibi();
AttentionPartRow optimal();
AttentionPartRow entropy();
AttentionPartRow scale();
AttentionPartRow softcap();

}  // namespace vitrine::nn::parts
