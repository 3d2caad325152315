// Reads logical tensors from a checkpoint of any number of shards: the trainer's way to load. It
// looks at the shards' headers once and then reads just the ranges that are asked for. It does not
// verify digests: select_newest and verify do. Const after open; read is thread-safe where the
// Store is.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/checkpoint/checkpoint.h"
#include "common/checkpoint/safetensors.h"
#include "common/store/store.h"

namespace pawl::checkpoint {

class Reader {
 public:
  // Borrows the store. Corrupt when the pieces of a tensor do not cover it exactly once.
  static Result<Reader> open(const store::Store& store, const Found& found);

  // All logical tensors, by name.
  const std::vector<Tensor>& tensors() const { return tensors_; }
  // nullptr when there is none.
  const Tensor* find(const std::string& name) const;
  // Fills `into` with elements from `first_element` on; whole elements only. NotFound: no such
  // tensor; Invalid: beyond its end.
  Status read(const std::string& name, std::uint64_t first_element,
              std::span<std::byte> into) const;

 private:
  struct Place {
    std::string key;
    std::uint64_t offset = 0, elements = 0;  // in the logical tensor
    std::uint64_t begin = 0;                 // in the shard, in bytes
  };
  Reader() = default;
  static Status check_cover(const Tensor& tensor, const std::vector<Place>& places);

  const store::Store* store_ = nullptr;
  std::vector<Tensor> tensors_;             // sorted by name
  std::vector<std::vector<Place>> places_;  // of tensors_[i], sorted by offset
};

// A checkpoint by the URI of its folder (channel::Welcome's load_uri), e.g.
// "file:///data/run1/step-00001200-a02-g0007".
struct Opened {
  std::unique_ptr<store::Store> store;
  Found found;
  Reader reader;
};
Result<Opened> open_checkpoint(const std::string& uri);

}  // namespace pawl::checkpoint
