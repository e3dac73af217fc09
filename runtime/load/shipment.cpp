#include "load/shipment.h"

#include "core/error.h"
#include "load/wire.h"

namespace lf {

std::string write_shipment(const PlanStamp& stamp, const std::map<uint32_t, CarriedSample>& samples) {
  WireWriter out;
  out.put(stamp.step);
  out.put(stamp.hash);
  for (const auto& [index, carried] : samples) {
    out.put(index);
    out.put(carried.sample.index);
    out.put(std::string_view(carried.sample.place));
    out.put(std::string_view(carried.sample.json));
    out.put(static_cast<uint32_t>(carried.media->media().size()));
    for (const StreamedMedium& medium : carried.media->media()) {
      out.put(std::string_view(medium.name));
      out.put(std::string_view(*medium.bytes));
    }
  }
  return out.take();
}

void read_shipment(const std::string& message, const PlanStamp& stamp, int from, int here, HeldMedia& held,
                   std::map<uint32_t, CarriedSample>& out) {
  WireReader in(message);
  PlanStamp theirs;
  theirs.step = in.get<int64_t>();
  theirs.hash = in.get<uint64_t>();
  check_stamp(theirs, stamp, from, here);
  while (!in.empty()) {
    const auto index = in.get<uint32_t>();
    CarriedSample carried;
    carried.sample.index = in.get<uint64_t>();
    carried.sample.place = in.text();
    carried.sample.json = in.text();
    std::vector<StreamedMedium> media(in.get<uint32_t>());
    for (StreamedMedium& medium : media) {
      medium.name = in.text();
      medium.bytes = std::make_shared<const std::string>(in.text());
    }
    carried.media = std::make_shared<const HeldMedia::Lease>(held, std::move(media));
    out.insert_or_assign(index, std::move(carried));
  }
}

void check_stamp(const PlanStamp& theirs, const PlanStamp& ours, int from, int here) {
  if (theirs == ours) return;
  if (theirs.step != ours.step)
    fail(Exit::kBug,
         "loader: rank {} plans step {}, rank {} step {}: the ranks have diverged; nothing was trained on "
         "it. Please report it with the logs of both",
         from, theirs.step + 1, here, ours.step + 1);
  fail(Exit::kBug,
       "loader: step {}: rank {} has planned {:016x}, rank {} {:016x}: the ranks have diverged; nothing was "
       "trained on it. Do all run the same job file, plugins and kind of machine?",
       ours.step + 1, from, theirs.hash, here, ours.hash);
}

}  // namespace lf
