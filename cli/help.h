// What `pawl --help` and `pawl VERB --help` print. Pure.
#pragma once

#include <string>

namespace pawl::cli {

// `program`: "pawl", or "kubectl pawl" for the plugin.
std::string usage_text(const std::string& program);
// The whole usage for a verb that is not known.
std::string help_text(const std::string& program, const std::string& verb);
// "kubectl pawl" if the program was started under the plugin's name.
std::string program_name(const std::string& path);

}  // namespace pawl::cli
