#include "vendor/codes.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>

namespace lf::kunlun {
namespace {

constexpr bool kLost = true;

constexpr VendorCode kCodes[] = {
    {701, LF_E_NO_DEVICE, false, "invalid device"},
    {702, LF_E_BUG, false, "not initialised"},
    {703, LF_E_NO_DEVICE, false, "no device"},
    {704, LF_E_UNSUPPORTED, false, "versions of driver and runtime do not match"},
    {705, LF_E_NOMEM_DEVICE, false, "out of device memory"},
    {706, LF_E_NOMEM_HOST, false, "out of host memory"},
    {707, LF_E_INVALID, false, "invalid parameter"},
    {708, LF_E_UNSUPPORTED, false, "no such function"},
    {709, LF_E_UNSUPPORTED, false, "a library could not be loaded"},
    {710, LF_E_UNSUPPORTED, false, "a symbol could not be loaded"},
    {711, LF_E_BUG, false, "the vendor's simulator failed"},
    {712, LF_E_UNSUPPORTED, false, "not supported"},
    {713, LF_E_DEVICE_LOST, kLost, "abnormal state after an earlier error"},
    {714, LF_E_DEVICE_LOST, kLost, "exception in a kernel"},
    {715, LF_E_DEVICE_LOST, kLost, "timeout on the device"},
    {716, LF_E_NOT_READY, false, "busy"},
    {717, LF_E_INVALID, false, "used after it was closed"},
    {718, LF_E_DEVICE_LOST, kLost, "uncorrectable memory error"},
    {719, LF_E_DEVICE_LOST, kLost, "overheated"},
    {800, LF_E_BUG, false, "unexpected error"},
    {801, LF_E_DEVICE_LOST, kLost, "the device was reset"},
    {802, LF_E_DEVICE_LOST, kLost, "exception in the hardware"},
    {803, LF_E_DEVICE_LOST, kLost, "its memory did not come up"},
    {804, LF_E_DEVICE_LOST, kLost, "the device did not come up"},
    {805, LF_E_DEVICE_LOST, kLost, "a peer device was reset"},
    {806, LF_E_UNSUPPORTED, false, "too many devices"},
    {807, LF_E_UNSUPPORTED, false, "the driver does not know this request; is it older than the runtime?"},
    {808, LF_E_DEVICE_LOST, kLost, "transfer timed out; the machine may need a reboot"},
    {809, LF_E_INVALID, false, "transfer aborted: an address is not device memory, or no longer"},
    {810, LF_E_DEVICE_LOST, kLost, "its controller is not initialised"},
    {811, LF_E_UNSUPPORTED, false, "its firmware is too old"},
    {812, LF_E_DEVICE_LOST, kLost, "PCIe error"},
    {813, LF_E_INVALID, false, "fault while copying to or from the process"},
    {814, LF_E_ABORTED, false, "interrupted"},
    {815, LF_E_BUG, false, "encryption timed out"},
    {816, LF_E_INVALID, false, "host memory is registered already"},
    {817, LF_E_BUG, false, "tracer failed"},
};

}  // namespace

VendorCode describe(int code) noexcept {
  const int size = std::abs(code);
  const auto* found = std::find_if(std::begin(kCodes), std::end(kCodes), [&](const auto& c) { return c.code == size; });
  return found != std::end(kCodes) ? *found : VendorCode{size, LF_E_BUG, false, "a code that is in no published list"};
}

}  // namespace lf::kunlun
