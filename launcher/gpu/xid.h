// What the numbers mean by which NVIDIA's driver tells of errors (XIDs). Data, from the table
// "Analyzing Xid Errors with the Xid Catalog" of NVIDIA's documentation
// (https://docs.nvidia.com/deploy/xid-errors/), whose column "immediate action" decides: RESET_GPU,
// RESTART_BM and what NVLink's own table leads to are faults of the machine, IGNORE is wear. Pure.
#pragma once

#include <cstdint>
#include <string>

namespace pawl::launcher::gpu {

enum class XidKind {
  kProgram,  // what a program may bring about by itself: no fault of the machine
  kWear,     // told for those who look after the machine; what runs goes on
  kFault     // the hardware: what ran on this GPU is lost, or wrong
};

struct XidMeaning {
  XidKind kind = XidKind::kProgram;
  const char* words = "";  // "fell off the bus": what the GPU did. Empty: a number without a name
};

XidMeaning meaning_of(std::uint64_t xid);

// "GPU 3 fell off the bus (XID 79)"
std::string xid_text(unsigned gpu, std::uint64_t xid);

}  // namespace pawl::launcher::gpu
