// The law as a Backend: every op is the scalar definition of src/contract, called element by element. Far too slow to serve; it is what a
// whole model's answer *should* be, and every other backend is compared with it end to end.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace isobit {

std::unique_ptr<Backend> MakeLawBackend(const contract::Contract& contract);

}  // namespace isobit
