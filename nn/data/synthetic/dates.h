// Dates as people write them, and their ISO form.
#pragma once

#include <string>

#include "nn/data/synthetic/part.h"

namespace vitrine::nn::synthetic {

/// "Tuesday, March 2, 1999" → "1999-03-02". The written form is lower case.
struct WrittenDate {
  std::string written, iso;
};

/// Days from 1 January 1900 to 31 December 2099, in one of eight written forms. A day is in one
/// part alone, in all of its forms.
Dataset<WrittenDate> dates(Part part, int64_t size, uint64_t seed = 0);

}  // namespace vitrine::nn::synthetic
