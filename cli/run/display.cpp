#include "cli/run/display.h"

#include <iostream>

namespace pawl::cli {
namespace {
// Up two lines, and everything from there erased.
constexpr char kEraseTwoLines[] = "\x1b[2A\r\x1b[J";
}  // namespace

void Display::clear_row() {
  if (has_row_) std::cout << kEraseTwoLines;
  has_row_ = false;
}

void Display::show(const JobView& view) {
  if (is_quiet_) return;
  const std::string row = table_row(view, clock_.now());
  if (is_terminal_) {
    if (has_row_ && row == row_) return;
    clear_row();
    std::cout << table_header() << "\n" << row << "\n" << std::flush;
    has_row_ = true;
    row_ = row;
    return;
  }
  const std::string key = change_key(view);
  if (key == key_) return;
  key_ = key;
  if (!has_header_) std::cout << table_header() << "\n";
  has_header_ = true;
  std::cout << row << "\n" << std::flush;
}

void Display::tell(const std::string& line) {
  if (is_quiet_) return;
  const bool had_row = has_row_;
  clear_row();
  std::cout << line << "\n";
  if (had_row) std::cout << table_header() << "\n" << row_ << "\n";
  has_row_ = had_row;
  std::cout << std::flush;
}

void Display::say(const std::string& line) {
  has_row_ = false;  // the last row stays where it is
  std::cout << line << "\n" << std::flush;
}

}  // namespace pawl::cli
