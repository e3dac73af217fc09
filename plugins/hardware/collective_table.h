// The entries of lf.collective/1 over a vendor's communicator: handles become objects, and nothing else happens here.
//
// Vendor has plugin() with tables `devices` and `communicators` of handles, entry(err, body), native(stream), new_id(),
// and join(device, config).
#pragma once

#include <string>
#include <utility>

#include "lf/plugin_api/collective.h"
#include "lf/plugin_sdk/guard.hpp"

namespace lf::hardware {

template <typename Vendor>
class CollectiveEntries {
 public:
  static lf_collective_api table() {
    auto table = sdk::with_header<lf_collective_api>();
    table.new_id = new_id;
    table.create = create;
    table.free = free_communicator;
    table.abort = abort_communicator;
    table.state = state;
    table.group_begin = group_begin;
    table.group_end = group_end;
    table.all_reduce = all_reduce;
    table.reduce_scatter = reduce_scatter;
    table.all_gather = all_gather;
    table.all_to_all = all_to_all;
    table.broadcast = broadcast;
    table.send = send;
    table.receive = receive;
    return table;
  }

 private:
  static auto& find(lf_communicator handle) { return Vendor::plugin().communicators.find(handle); }

  static int32_t new_id(lf_sink id, lf_err* err) {
    return Vendor::entry(err, [&] { sdk::put(id, Vendor::new_id()); });
  }

  static int32_t create(lf_device device, const lf_communicator_config* config, lf_communicator* out, lf_err* err) {
    return Vendor::entry(err, [&] {
      auto made = Vendor::join(Vendor::plugin().devices.find(device), *config);
      *out = reinterpret_cast<lf_communicator>(Vendor::plugin().communicators.add(std::move(made)));
    });
  }

  static int32_t free_communicator(lf_communicator c, lf_err* err) {
    return Vendor::entry(err, [&] { Vendor::plugin().communicators.take(c); });
  }

  static int32_t abort_communicator(lf_communicator c, lf_err* err) {
    return Vendor::entry(err, [&] { find(c).abort(); });
  }

  static int32_t state(lf_communicator c, lf_err* asynchronous_error) {
    return Vendor::entry(asynchronous_error, [&] { find(c).require_sound(); });
  }

  static int32_t group_begin(lf_communicator c, lf_err* err) {
    return Vendor::entry(err, [&] { find(c).group_begin(); });
  }

  static int32_t group_end(lf_communicator c, lf_err* err) {
    return Vendor::entry(err, [&] { find(c).group_end(); });
  }

  static int32_t all_reduce(lf_communicator c, const void* in, void* out, uint64_t n, int32_t dtype, int32_t reduction,
                            lf_stream stream, lf_err* err) {
    return Vendor::entry(err, [&] { find(c).all_reduce(in, out, n, dtype, reduction, Vendor::native(stream)); });
  }

  static int32_t reduce_scatter(lf_communicator c, const void* in, void* out, uint64_t n_out, int32_t dtype,
                                int32_t reduction, lf_stream stream, lf_err* err) {
    return Vendor::entry(err,
                         [&] { find(c).reduce_scatter(in, out, n_out, dtype, reduction, Vendor::native(stream)); });
  }

  static int32_t all_gather(lf_communicator c, const void* in, void* out, uint64_t n_in, int32_t dtype,
                            lf_stream stream, lf_err* err) {
    return Vendor::entry(err, [&] { find(c).all_gather(in, out, n_in, dtype, Vendor::native(stream)); });
  }

  static int32_t all_to_all(lf_communicator c, const void* in, const uint64_t* n_send, const uint64_t* send_at,
                            void* out, const uint64_t* n_recv, const uint64_t* recv_at, int32_t dtype, lf_stream stream,
                            lf_err* err) {
    return Vendor::entry(
        err, [&] { find(c).all_to_all(in, n_send, send_at, out, n_recv, recv_at, dtype, Vendor::native(stream)); });
  }

  static int32_t broadcast(lf_communicator c, const void* in, void* out, uint64_t n, int32_t dtype, int32_t root,
                           lf_stream stream, lf_err* err) {
    return Vendor::entry(err, [&] { find(c).broadcast(in, out, n, dtype, root, Vendor::native(stream)); });
  }

  static int32_t send(lf_communicator c, const void* in, uint64_t n, int32_t dtype, int32_t peer, lf_stream stream,
                      lf_err* err) {
    return Vendor::entry(err, [&] { find(c).send(in, n, dtype, peer, Vendor::native(stream)); });
  }

  static int32_t receive(lf_communicator c, void* out, uint64_t n, int32_t dtype, int32_t peer, lf_stream stream,
                         lf_err* err) {
    return Vendor::entry(err, [&] { find(c).receive(out, n, dtype, peer, Vendor::native(stream)); });
  }
};

}  // namespace lf::hardware
