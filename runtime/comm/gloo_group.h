// The one place where comm meets c10d; internal to comm.
#pragma once

#include <memory>
#include <string>

#include <gloo/transport/device.h>

#include "comm/group.h"
#include "comm/membership.h"

namespace lf {

// Listens on the address, numeric, and on no other.
std::shared_ptr<gloo::transport::Device> listen_on(const std::string& address);

// Called by every rank, one group at a time in a process.
std::unique_ptr<Group> form_gloo_group(const std::string& name, std::shared_ptr<Membership> membership,
                                       std::shared_ptr<gloo::transport::Device> device);

}  // namespace lf
