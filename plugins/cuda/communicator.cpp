#include "communicator.h"

#include <thread>

#include <fmt/format.h>

#include "lf/plugin_sdk/tensor.hpp"

namespace lf::cuda {
namespace {

constexpr std::chrono::milliseconds kLookAgain{1};

ncclDataType_t reduced_type(int32_t dtype) {
  switch (dtype) {
    case LF_DTYPE_F32:
      return ncclFloat32;
    case LF_DTYPE_BF16:
      return ncclBfloat16;
    case LF_DTYPE_F16:
      return ncclFloat16;
    case LF_DTYPE_F64:
      return ncclFloat64;
    case LF_DTYPE_I64:
      return ncclInt64;
    case LF_DTYPE_I32:
      return ncclInt32;
    case LF_DTYPE_U8:
      return ncclUint8;
    case LF_DTYPE_I8:
      return ncclInt8;
    default:
      throw sdk::Failure(LF_E_UNSUPPORTED, fmt::format("cuda collectives: no sums over element type {}", dtype));
  }
}

// A type of the same width for collectives that only move, and how many of it make one element.
std::pair<ncclDataType_t, uint64_t> moved_type(int32_t dtype) {
  switch (dtype) {
    case LF_DTYPE_BOOL:
    case LF_DTYPE_F8_E4M3:
    case LF_DTYPE_I16:
      return {ncclUint8, static_cast<uint64_t>(sdk::item_bytes(dtype))};
    default:
      return {reduced_type(dtype), 1};
  }
}

ncclRedOp_t reduction_code(int32_t reduction) {
  switch (reduction) {
    case LF_REDUCE_SUM:
      return ncclSum;
    case LF_REDUCE_MAX:
      return ncclMax;
    case LF_REDUCE_MIN:
      return ncclMin;
    default:
      throw sdk::Failure(LF_E_UNSUPPORTED, fmt::format("cuda collectives: unknown reduction {}", reduction));
  }
}

}  // namespace

std::string new_communicator_id(const Nccl& nccl) {
  ncclUniqueId id{};
  nccl.check(nccl.get_unique_id(&id), "ncclGetUniqueId");
  return std::string(id.internal, sizeof id.internal);
}

Communicator::Communicator(Device& device, const Nccl& nccl, const lf_communicator_config& config)
    : device_(device),
      nccl_(nccl),
      rank_(config.rank),
      size_(config.size),
      timeout_(std::max<int64_t>(config.timeout_ms, 0)),
      name_(sdk::view(config.name)) {
  if (size_ < 1 || rank_ < 0 || rank_ >= size_)
    throw sdk::Failure(LF_E_INVALID, fmt::format("communicator {}: rank {} of {}", name_, rank_, size_));
  ncclUniqueId id{};
  if (config.id_bytes != sizeof id.internal)
    throw sdk::Failure(LF_E_INVALID, fmt::format("communicator {}: an id has {} bytes, got {}", name_,
                                                 sizeof id.internal, config.id_bytes));
  std::memcpy(id.internal, config.id, sizeof id.internal);
  ncclConfig_t settings;
  const CurrentDevice current(device_.runtime(), device_.ordinal());
  try {
    check(nccl_.comm_init_rank_config(&context_, size_, id, rank_, &settings), "ncclCommInitRankConfig");
    finish(fmt::format("the meeting of {} ranks", size_));
  } catch (const sdk::Failure&) {
    if (context_ != nullptr) nccl_.comm_abort(context_);  // the destructor of a half-made object does not run
    throw;
  }
}

Communicator::~Communicator() {
  bool sound = !aborted_;
  {
    const std::lock_guard lock(mutex_);
    sound = sound && !failure_;
  }
  if (aborted_) return;  // ncclCommAbort has freed it
  if (sound)
    nccl_.comm_destroy(context_);
  else
    nccl_.comm_abort(context_);
}

void Communicator::fail(int32_t code, int native, const std::string& message) {
  const CudaFailure failure(code, native, "nccl",
                            fmt::format("communicator {} (rank {} of {}): {}", name_, rank_, size_, message));
  if (code != LF_E_INVALID && code != LF_E_UNSUPPORTED) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = failure;
  }
  throw failure;
}

void Communicator::check(ncclResult_t result, const std::string& what) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  fail(meaning_of(result), result, fmt::format("{}: {}", what, nccl_.get_error_string(result)));
}

template <typename Call>
ncclResult_t Communicator::exclusively(Call&& call) {
  const std::lock_guard lock(nccl_mutex_);
  if (aborted_) throw sdk::Failure(LF_E_ABORTED, fmt::format("communicator {} was aborted", name_));
  return call();
}

void Communicator::finish(const std::string& what) {
  const auto deadline = Clock::now() + timeout_;
  for (ncclResult_t state = ncclInProgress; state == ncclInProgress;) {
    check(exclusively([&] { return nccl_.comm_get_async_error(context_, &state); }), "ncclCommGetAsyncError");
    check(state, what);
    if (state != ncclInProgress) return;
    if (timeout_.count() > 0 && Clock::now() > deadline)
      fail(LF_E_TIMEOUT, ncclInProgress,
           fmt::format("{} was not done within {} ms; a peer is slow or gone", what, timeout_.count()));
    std::this_thread::sleep_for(kLookAgain);
  }
}

void Communicator::abort() {
  if (aborted_.exchange(true)) return;
  const std::lock_guard lock(nccl_mutex_);
  const CurrentDevice current(device_.runtime(), device_.ordinal());
  nccl_.check(nccl_.comm_abort(context_), "ncclCommAbort");
}

void Communicator::require_sound() {
  if (aborted_) throw sdk::Failure(LF_E_ABORTED, fmt::format("communicator {} was aborted", name_));
  {
    const std::lock_guard lock(mutex_);
    if (failure_) throw *failure_;
  }
  const std::string overdue = flights_.overdue();
  ncclResult_t state = ncclSuccess;
  check(exclusively([&] { return nccl_.comm_get_async_error(context_, &state); }), "ncclCommGetAsyncError");
  check(state, "asynchronous error");
  if (!overdue.empty())
    fail(LF_E_TIMEOUT, ncclInProgress,
         fmt::format("{} has not finished within {} ms; a peer is slow or gone", overdue, timeout_.count()));
}

void Communicator::track(const std::string& what, cudaStream_t stream) {
  flights_.track(what, stream, [this] { return std::make_unique<Event>(device_); });
}

template <typename Call>
void Communicator::submit(const std::string& what, cudaStream_t stream, Call&& call) {
  require_sound();
  const CurrentDevice current(device_.runtime(), device_.ordinal());
  check(exclusively(call), what);
  if (group_depth_ > 0) {
    group_streams_.insert(stream);
    return;
  }
  finish(what);
  track(what, stream);
}

void Communicator::group_begin() {
  require_sound();
  check(exclusively([&] { return nccl_.group_start(); }), "ncclGroupStart");
  ++group_depth_;
}

void Communicator::group_end() {
  if (group_depth_ == 0) throw sdk::Failure(LF_E_INVALID, "cuda collectives: group_end without group_begin");
  const CurrentDevice current(device_.runtime(), device_.ordinal());
  --group_depth_;
  check(exclusively([&] { return nccl_.group_end(); }), "ncclGroupEnd");
  if (group_depth_ > 0) return;
  finish("a group of calls");
  for (const cudaStream_t stream : std::exchange(group_streams_, {})) track("a group of calls", stream);
}

void Communicator::all_reduce(const void* in, void* out, uint64_t n, int32_t dtype, int32_t reduction,
                              cudaStream_t stream) {
  const auto type = reduced_type(dtype);
  const auto op = reduction_code(reduction);
  submit(fmt::format("all_reduce of {} elements", n), stream,
         [&] { return nccl_.all_reduce(in, out, n, type, op, context_, stream); });
}

void Communicator::reduce_scatter(const void* in, void* out, uint64_t n_out, int32_t dtype, int32_t reduction,
                                  cudaStream_t stream) {
  const auto type = reduced_type(dtype);
  const auto op = reduction_code(reduction);
  submit(fmt::format("reduce_scatter to {} elements", n_out), stream,
         [&] { return nccl_.reduce_scatter(in, out, n_out, type, op, context_, stream); });
}

void Communicator::all_gather(const void* in, void* out, uint64_t n_in, int32_t dtype, cudaStream_t stream) {
  const auto [type, per_element] = moved_type(dtype);
  submit(fmt::format("all_gather of {} elements", n_in), stream,
         [&, type = type, n = n_in * per_element] { return nccl_.all_gather(in, out, n, type, context_, stream); });
}

void Communicator::broadcast(const void* in, void* out, uint64_t n, int32_t dtype, int root, cudaStream_t stream) {
  const auto [type, per_element] = moved_type(dtype);
  submit(fmt::format("broadcast of {} elements", n), stream, [&, type = type, count = n * per_element] {
    return nccl_.broadcast(rank_ == root ? in : out, out, count, type, root, context_, stream);
  });
}

void Communicator::send(const void* in, uint64_t n, int32_t dtype, int peer, cudaStream_t stream) {
  const auto [type, per_element] = moved_type(dtype);
  submit(fmt::format("send of {} elements to rank {}", n, peer), stream,
         [&, type = type, count = n * per_element] { return nccl_.send(in, count, type, peer, context_, stream); });
}

void Communicator::receive(void* out, uint64_t n, int32_t dtype, int peer, cudaStream_t stream) {
  const auto [type, per_element] = moved_type(dtype);
  submit(fmt::format("receive of {} elements from rank {}", n, peer), stream,
         [&, type = type, count = n * per_element] { return nccl_.recv(out, count, type, peer, context_, stream); });
}

// NCCL has no all-to-all with counts: a group of sends and receives is its documented form.
void Communicator::all_to_all(const void* in, const uint64_t* n_send, const uint64_t* send_at, void* out,
                              const uint64_t* n_recv, const uint64_t* recv_at, int32_t dtype, cudaStream_t stream) {
  const auto [type, per_element] = moved_type(dtype);
  const uint64_t bytes = static_cast<uint64_t>(sdk::item_bytes(dtype));
  const auto exchange = [&, type = type, per_element = per_element]() -> ncclResult_t {
    const auto accepted = [](ncclResult_t result) { return result == ncclSuccess || result == ncclInProgress; };
    ncclResult_t result = nccl_.group_start();
    for (int peer = 0; peer < size_ && accepted(result); ++peer) {
      if (n_send[peer] > 0)
        result = nccl_.send(static_cast<const std::byte*>(in) + send_at[peer] * bytes, n_send[peer] * per_element, type,
                            peer, context_, stream);
      if (accepted(result) && n_recv[peer] > 0)
        result = nccl_.recv(static_cast<std::byte*>(out) + recv_at[peer] * bytes, n_recv[peer] * per_element, type,
                            peer, context_, stream);
    }
    const ncclResult_t end = nccl_.group_end();
    return accepted(result) ? end : result;
  };
  submit("all_to_all", stream, exchange);
}

}  // namespace lf::cuda
