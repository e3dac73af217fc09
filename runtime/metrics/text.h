// Numbers as people read them. Internal to metrics.
#pragma once

#include <cstdint>
#include <string>

namespace lf {

std::string short_count(double value);       // 87, 3.1k, 12.4M
std::string short_bytes(int64_t bytes);      // 1.2 GB: powers of 1000
std::string short_duration(double seconds);  // 0:42, 12:05, 3:07:09, 2d 04:10
std::string utc_time(double unix_seconds);   // 2025-01-31T08:15:00Z

}  // namespace lf
