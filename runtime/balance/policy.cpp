#include "balance/policy.h"

#include <utility>

#include "balance/ask.h"
#include "core/error.h"
#include "lf/plugin_sdk/guard.hpp"

namespace lf {

Policy::Policy(std::string id, const lf_balancer_api* api, const lf_host* host, const std::string& options_json)
    : id_(std::move(id)), api_(api) {
  if (!LF_HAS(api_, create) || !LF_HAS(api_, destroy) || !LF_HAS(api_, plan))
    fail(Exit::kConfig,
         "balancer plugin {}: expected create, destroy and plan in its {} table, got a null among them; "
         "`lfrun plugins verify` tells more",
         id_, LF_BALANCER_INTERFACE);
  lf_err err = sdk::make_err();
  if (api_->create(host, sdk::str(options_json), &balancer_, &err) != LF_OK)
    fail(Exit::kConfig, "balancer {}: {}", id_, err.message);
}

Policy::~Policy() {
  lf_err err = sdk::make_err();
  if (balancer_ != nullptr) api_->destroy(balancer_, &err);
}

Policy::Policy(Policy&& other) noexcept
    : id_(std::move(other.id_)), api_(other.api_), balancer_(std::exchange(other.balancer_, nullptr)) {}

BalancePlan Policy::plan(const BalanceInput& input) const { return make_plan(api_, balancer_, id_, input); }

std::vector<lf_assignment> Policy::ask(const BalanceInput& input) const {
  return ask_policy(api_, balancer_, id_, input);
}

}  // namespace lf
