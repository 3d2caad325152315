#include "cli/arguments.h"

#include <charconv>

namespace pawl::cli {
namespace {

const Flag* find_long(const std::vector<Flag>& flags, const std::string& name) {
  for (const Flag& flag : flags) {
    if (name == flag.name) return &flag;
  }
  return nullptr;
}

const Flag* find_short(const std::vector<Flag>& flags, const std::string& argument) {
  for (const Flag& flag : flags) {
    const std::string name = flag.short_name;
    const bool is_match =
        !name.empty() && (argument == name || (flag.has_value && argument.starts_with(name)));
    if (is_match) return &flag;
  }
  return nullptr;
}

}  // namespace

Result<Arguments> Arguments::parse(const std::vector<std::string>& given,
                                   const std::vector<Flag>& flags) {
  Arguments out;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const std::string& argument = given[i];
    if (argument == "--") {
      out.words_.insert(out.words_.end(), given.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                        given.end());
      break;
    }
    if (argument == "-" || !argument.starts_with("-")) {
      out.words_.push_back(argument);
      continue;
    }
    const bool is_long = argument.starts_with("--");
    const auto equals = argument.find('=');
    const bool has_equals = is_long && equals != std::string::npos;
    const std::string name = has_equals ? argument.substr(0, equals) : argument;
    const Flag* flag = is_long ? find_long(flags, name) : find_short(flags, argument);
    if (flag == nullptr) return fail(Code::kInvalid, "unknown option " + name);
    if (out.values_.contains(flag->name)) {
      return fail(Code::kInvalid, std::string(flag->name) + " is given twice");
    }
    std::string value;
    if (has_equals) {
      value = argument.substr(equals + 1);
    } else if (!is_long && argument != flag->short_name) {
      value = argument.substr(std::string(flag->short_name).size());
      if (value.starts_with("=")) value.erase(0, 1);
    } else if (flag->has_value && i + 1 < given.size()) {
      value = given[++i];
    }
    if (flag->has_value && value.empty()) {
      return fail(Code::kInvalid, std::string(flag->name) + " needs a value");
    }
    if (!flag->has_value && has_equals) {
      return fail(Code::kInvalid, std::string(flag->name) + " takes no value");
    }
    out.values_[flag->name] = value;
  }
  return out;
}

std::string Arguments::value(const std::string& name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? "" : found->second;
}

Result<int> Arguments::number(const std::string& name, int max) const {
  const std::string text = value(name);
  int number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (text.empty() || error != std::errc{} || stop != end || number < 0 || number > max) {
    return fail(Code::kInvalid,
                name + " " + text + ": write a whole number from 0 to " + std::to_string(max));
  }
  return number;
}

}  // namespace pawl::cli
