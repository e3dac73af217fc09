// Our store as c10d's: Gloo leaves addresses there. Internal to comm.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "comm/membership.h"

namespace lf {

// Waiting is asking again, so that it can be called off.
class StoreForGloo final : public c10d::Store {
 public:
  StoreForGloo(std::shared_ptr<Membership> membership, std::string prefix);

  using c10d::Store::set;
  c10::intrusive_ptr<Store> clone() override;
  void set(const std::string& key, const std::vector<uint8_t>& value) override;
  std::vector<uint8_t> get(const std::string& key) override;
  int64_t add(const std::string& key, int64_t value) override;
  bool deleteKey(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  int64_t getNumKeys() override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override;

 private:
  std::shared_ptr<Membership> membership_;
  std::string prefix_;
};

}  // namespace lf
