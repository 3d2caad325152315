// The inside of the keeper (keeper.h): the loop of the forked child. Single-threaded; never
// returns.
#pragma once

#include "common/os/fd.h"

namespace pawl::local {

[[noreturn]] void run_keeper(os::Fd socket);

}  // namespace pawl::local
