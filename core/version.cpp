#include "core/version.h"

namespace vitrine {

const char* version() { return VITRINE_VERSION; }

}  // namespace vitrine
