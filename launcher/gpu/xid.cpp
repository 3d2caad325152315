#include "launcher/gpu/xid.h"

#include <algorithm>
#include <array>

namespace pawl::launcher::gpu {
namespace {

struct Row {
  std::uint64_t xid;
  XidMeaning meaning;
};

constexpr XidKind kProgram = XidKind::kProgram, kWear = XidKind::kWear, kFault = XidKind::kFault;

// By number. Where NVIDIA names none of the two, the program may be to blame: a machine that is
// really broken says so again.
constexpr std::array kTable = {
    Row{8, {kProgram, "stopped processing"}},
    Row{11, {kProgram, "got commands that it cannot read"}},
    Row{13, {kProgram, "raised an exception in a kernel"}},
    Row{31, {kProgram, "was asked for memory that the program does not have"}},
    Row{32, {kProgram, "got commands that are damaged"}},
    Row{43, {kProgram, "stopped processing for the program"}},
    Row{45, {kProgram, "dropped the work of a program that ended"}},
    Row{48, {kFault, "had a memory error that cannot be corrected (double-bit ECC)"}},
    Row{61, {kWear, "had an error in its power management that it got over"}},
    Row{62, {kFault, "stopped in its power management"}},
    Row{63, {kWear, "replaces a bad row of its memory with the next reset"}},
    Row{64, {kFault, "could not replace a bad row of its memory"}},
    Row{68, {kProgram, "had an error in its video decoder"}},
    Row{69, {kProgram, "got a command that its class does not know"}},
    Row{74, {kFault, "had an error on NVLink"}},
    Row{79, {kFault, "fell off the bus"}},
    Row{92, {kWear, "corrects many memory errors"}},
    Row{94, {kFault, "had a memory error that cannot be corrected, contained to one program"}},
    Row{95, {kFault, "had a memory error that cannot be corrected or contained"}},
    // NVIDIA's table says RESET_GPU, its device plugin counts it among the programs' errors.
    Row{109, {kProgram, "did not change between programs in time"}},
    Row{110, {kFault, "had a security fault"}},
    Row{119, {kFault, "no longer answers (its system processor timed out)"}},
    Row{120, {kFault, "had an error in its system processor"}},
    Row{121, {kWear, "had an error on its link to the processor, which was corrected"}},
    Row{136, {kFault, "could not bring up NVLink"}},
    Row{137, {kProgram, "had a fault in another GPU's memory over NVLink"}},
    Row{140, {kFault, "had a memory error that it cannot recover from"}},
    Row{143, {kFault, "could not be initialised"}},
    Row{155, {kFault, "had an error on NVLink that its software cannot mend"}},
    Row{156, {kFault, "retires a part of itself"}},
    Row{158, {kFault, "did not answer in time"}},
};
static_assert(std::ranges::is_sorted(kTable, {}, &Row::xid));

}  // namespace

XidMeaning meaning_of(std::uint64_t xid) {
  const auto found = std::ranges::lower_bound(kTable, xid, {}, &Row::xid);
  return found != kTable.end() && found->xid == xid ? found->meaning : XidMeaning{};
}

std::string xid_text(unsigned gpu, std::uint64_t xid) {
  const std::string number = "XID " + std::to_string(xid), name = "GPU " + std::to_string(gpu);
  const std::string words = meaning_of(xid).words;
  return words.empty() ? name + " reported " + number : name + " " + words + " (" + number + ")";
}

}  // namespace pawl::launcher::gpu
