// Writes what `pawl run` has to say: on a terminal one live row below a scrolling story, elsewhere
// one line per change. One thread. Nothing here decides anything.
#pragma once

#include <string>

#include "cli/run/table.h"
#include "common/base/clock.h"

namespace pawl::cli {

class Display {
 public:
  // is_terminal: rewrite the row in place. is_quiet: only say().
  Display(const Clock& clock, bool is_terminal, bool is_quiet)
      : clock_(clock), is_terminal_(is_terminal), is_quiet_(is_quiet) {}

  void show(const JobView& view);
  // A line of the story: an event, a notice.
  void tell(const std::string& line);
  // A line that even --quiet shows; ends the live row.
  void say(const std::string& line);

 private:
  void clear_row();
  const Clock& clock_;
  bool is_terminal_, is_quiet_;
  bool has_row_ = false, has_header_ = false;
  std::string row_, key_;
};

}  // namespace pawl::cli
