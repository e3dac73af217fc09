// The entries of lf.collective/1.
#include "plugin.h"

namespace lf::cuda {
namespace {

Communicator& find(lf_communicator handle) { return plugin().communicators.find(handle); }

int32_t new_id(lf_sink id, lf_err* err) {
  return entry(err, [&] { sdk::put(id, new_communicator_id(plugin().nccl())); });
}

int32_t create(lf_device device, const lf_communicator_config* config, lf_communicator* out, lf_err* err) {
  return entry(err, [&] {
    auto made = std::make_unique<Communicator>(plugin().devices.find(device), plugin().nccl(), *config);
    *out = reinterpret_cast<lf_communicator>(plugin().communicators.add(std::move(made)));
  });
}

int32_t free_communicator(lf_communicator c, lf_err* err) {
  return entry(err, [&] { plugin().communicators.take(c); });
}

int32_t abort_communicator(lf_communicator c, lf_err* err) {
  return entry(err, [&] { find(c).abort(); });
}

int32_t state(lf_communicator c, lf_err* asynchronous_error) {
  return entry(asynchronous_error, [&] { find(c).require_sound(); });
}

int32_t group_begin(lf_communicator c, lf_err* err) {
  return entry(err, [&] { find(c).group_begin(); });
}

int32_t group_end(lf_communicator c, lf_err* err) {
  return entry(err, [&] { find(c).group_end(); });
}

int32_t all_reduce(lf_communicator c, const void* in, void* out, uint64_t n, int32_t dtype, int32_t reduction,
                   lf_stream stream, lf_err* err) {
  return entry(err, [&] { find(c).all_reduce(in, out, n, dtype, reduction, native(plugin(), stream)); });
}

int32_t reduce_scatter(lf_communicator c, const void* in, void* out, uint64_t n_out, int32_t dtype, int32_t reduction,
                       lf_stream stream, lf_err* err) {
  return entry(err, [&] { find(c).reduce_scatter(in, out, n_out, dtype, reduction, native(plugin(), stream)); });
}

int32_t all_gather(lf_communicator c, const void* in, void* out, uint64_t n_in, int32_t dtype, lf_stream stream,
                   lf_err* err) {
  return entry(err, [&] { find(c).all_gather(in, out, n_in, dtype, native(plugin(), stream)); });
}

int32_t all_to_all(lf_communicator c, const void* in, const uint64_t* n_send, const uint64_t* send_at, void* out,
                   const uint64_t* n_recv, const uint64_t* recv_at, int32_t dtype, lf_stream stream, lf_err* err) {
  return entry(err,
               [&] { find(c).all_to_all(in, n_send, send_at, out, n_recv, recv_at, dtype, native(plugin(), stream)); });
}

int32_t broadcast(lf_communicator c, const void* in, void* out, uint64_t n, int32_t dtype, int32_t root,
                  lf_stream stream, lf_err* err) {
  return entry(err, [&] { find(c).broadcast(in, out, n, dtype, root, native(plugin(), stream)); });
}

int32_t send(lf_communicator c, const void* in, uint64_t n, int32_t dtype, int32_t peer, lf_stream stream,
             lf_err* err) {
  return entry(err, [&] { find(c).send(in, n, dtype, peer, native(plugin(), stream)); });
}

int32_t receive(lf_communicator c, void* out, uint64_t n, int32_t dtype, int32_t peer, lf_stream stream, lf_err* err) {
  return entry(err, [&] { find(c).receive(out, n, dtype, peer, native(plugin(), stream)); });
}

lf_collective_api make_table() {
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

}  // namespace

const lf_collective_api kCollectiveTable = make_table();

}  // namespace lf::cuda
