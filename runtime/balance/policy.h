// One policy in use: a balancer plugin's object, made with its settings and destroyed with them.
#pragma once

#include <string>
#include <vector>

#include "balance/balance.h"

namespace lf {

class Policy {
 public:
  // `api` and `host` must outlive the policy. Throws lf::Error(kConfig) for a setting that the plugin refuses.
  Policy(std::string id, const lf_balancer_api* api, const lf_host* host, const std::string& options_json);
  ~Policy();
  Policy(Policy&& other) noexcept;
  Policy& operator=(Policy&&) = delete;

  const std::string& id() const { return id_; }
  // make_plan with this policy. Any thread.
  BalancePlan plan(const BalanceInput& input) const;
  // What the policy says, unchecked: for comparing policies that may break limits. Any thread.
  std::vector<lf_assignment> ask(const BalanceInput& input) const;

 private:
  std::string id_;
  const lf_balancer_api* api_;
  lf_balancer balancer_ = nullptr;
};

}  // namespace lf
