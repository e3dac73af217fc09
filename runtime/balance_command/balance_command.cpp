#include "balance_command/balance_command.h"

#include <set>

#include "balance_command/options.h"
#include "balance_command/report.h"
#include "balance_command/simulation.h"
#include "core/error.h"

namespace lf {

PolicyMaker policies_of(PluginSet& plugins, const lf_host* host) {
  return [&plugins, host, started = std::set<std::string>()](const std::string& id,
                                                             const std::string& options_json) mutable {
    Plugin& plugin = plugins.load(PluginKind::kBalancer, id);
    if (host != nullptr && started.insert(id).second) plugin.start(host);
    const auto* api = plugin.interface<lf_balancer_api>(LF_BALANCER_INTERFACE);
    if (api == nullptr)
      fail(Exit::kConfig, "{}: expected the interface {}, which it does not offer", plugin.path().string(),
           LF_BALANCER_INTERFACE);
    return Policy(id, api, host, options_json);
  };
}

int run_balance(std::span<const std::string> arguments, const PolicyMaker& make_policy, const JobReader& read_job,
                std::ostream& out) {
  BalanceOptions options = read_balance_options(arguments);
  if (options.help) {
    out << balance_help();
    return static_cast<int>(Exit::kDone);
  }
  require_place_for_plot(options.plot);
  Source source = source_of(options, read_job);
  if (!options.scaling.empty()) {
    report_scaling(simulate(options, source, make_policy), options, source, out);
    return static_cast<int>(Exit::kDone);
  }
  const Steps steps = steps_of(source, options);
  report_comparison(compare(steps, options, make_policy), steps, options, source, out);
  return static_cast<int>(Exit::kDone);
}

}  // namespace lf
