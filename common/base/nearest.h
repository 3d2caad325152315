// The known name that a wrong one was probably meant to be: fields of a job, of the trainer's
// configuration. Pure.
#pragma once

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

namespace pawl {

// Levenshtein's distance.
inline std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, row[j + 1] + 1, replaced});
    }
  }
  return row.back();
}

// `known` is not empty; of equals the first.
inline std::string nearest(const std::string& name, const std::vector<std::string>& known) {
  return *std::min_element(known.begin(), known.end(),
                           [&](const std::string& a, const std::string& b) {
                             return edit_distance(name, a) < edit_distance(name, b);
                           });
}

// The same, if it is so near that the difference is a slip of the hand; else "". A third of the
// letters: enough for another convention ("image_pull_policy"), too little for another word.
inline std::string likely_meant(const std::string& name, const std::vector<std::string>& known) {
  if (known.empty()) return "";
  const std::string found = nearest(name, known);
  const std::size_t most = name.size() < 4 ? 1 : std::max<std::size_t>(2, name.size() / 3);
  return edit_distance(name, found) <= most ? found : "";
}

}  // namespace pawl
