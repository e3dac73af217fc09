#include "communicator.h"

#include <cstring>

#include <fmt/format.h>

#include "hardware/bounded.h"
#include "lf/plugin_sdk/tensor.hpp"

namespace lf::kunlun {
namespace {

constexpr size_t kMaxIdBytes = 4096;  // no unique id is as large
constexpr char kUntouched = 0x5A;
constexpr size_t kArraysInFlight = 16;  // before an all-to-all waits for the first of them

}  // namespace

std::string new_communicator_id(const Bkcl& bkcl) {
  std::string id(kMaxIdBytes, kUntouched);
  if (const int32_t result = bkcl.table.get_unique_id(id.data()); result != bkcl.table.success)
    throw VendorFailure(LF_E_COMM, result, fmt::format("bkcl_get_unique_id returned {}", result));
  // A size that is wrong (it may have been typed in by hand) must not pass: ranks would meet under half an id.
  if (bkcl.table.id_bytes >= kMaxIdBytes || id.find_first_not_of(kUntouched, bkcl.table.id_bytes) != id.npos)
    throw sdk::Failure(LF_E_INVALID, fmt::format("kunlun collectives: a unique id is larger than the {} bytes of "
                                                 "BKCL_UNIQUE_ID_BYTES; take the number from the vendor's bkcl.h",
                                                 bkcl.table.id_bytes));
  id.resize(bkcl.table.id_bytes);
  return id;
}

Communicator::Communicator(std::shared_ptr<const Runtime> runtime, Device& device, const Bkcl& bkcl,
                           const lf_communicator_config& config)
    : runtime_(std::move(runtime)),
      device_(device),
      bkcl_(bkcl),
      rank_(config.rank),
      size_(config.size),
      timeout_(std::max<int64_t>(config.timeout_ms, 0)),
      name_(sdk::view(config.name)),
      flights_(runtime_->xre().event_query == nullptr ? std::chrono::milliseconds(0) : timeout_) {  // KL2 has no query
  if (size_ < 1 || rank_ < 0 || rank_ >= size_)
    throw sdk::Failure(LF_E_INVALID, fmt::format("communicator {}: rank {} of {}", name_, rank_, size_));
  if (config.id_bytes != bkcl_.table.id_bytes)
    throw sdk::Failure(LF_E_INVALID, fmt::format("communicator {}: an id has {} bytes, got {}", name_,
                                                 bkcl_.table.id_bytes, config.id_bytes));
  struct Made {
    int32_t result;
    void* context;
  };
  const std::function<Made()> create =
      [runtime = runtime_, table = bkcl_.table, ordinal = device_.ordinal(), rank = rank_, size = size_,
       id = std::string(static_cast<const char*>(config.id), config.id_bytes)]() mutable {
        const CurrentDevice current(*runtime, ordinal);  // the vendor binds the context to the thread's device
        Made made{0, nullptr};
        made.result = table.init_rank(&made.context, rank, size, id.data());
        return made;
      };
  const auto made =
      timeout_.count() == 0 ? std::optional<Made>(create()) : hardware::call_within<Made>(timeout_, create);
  if (!made)
    throw sdk::Failure(LF_E_TIMEOUT, fmt::format("communicator {}: {} ranks did not meet within {} ms; is each of them "
                                                 "running, and does each create it?",
                                                 name_, size_, timeout_.count()));
  check(made->result, "bkcl_init_rank");
  context_ = made->context;
}

Communicator::~Communicator() {
  bool sound = !aborted_ && !runtime_->cause_of_death();
  {
    const std::lock_guard lock(mutex_);
    sound = sound && !failure_;
  }
  try {
    if (sound) {
      device_.synchronize();
      bkcl_.table.destroy_context(context_);
    } else if (!runtime_->cause_of_death()) {
      // Whether an aborted context may be destroyed is published nowhere: it is left to the process.
      abort();
      device_.synchronize();  // the arrays below
    }
    for (const Arrays& arrays : arrays_) {
      device_.release(arrays.host);
      device_.release(arrays.device);
    }
  } catch (const sdk::Failure&) {  // the device is lost, and all of this with it
  }
}

void Communicator::fail(int32_t code, const std::string& message) {
  const sdk::Failure failure(code, fmt::format("communicator {} (rank {} of {}): {}", name_, rank_, size_, message));
  if (code != LF_E_INVALID && code != LF_E_UNSUPPORTED) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = failure;
  }
  throw failure;
}

void Communicator::check(int32_t result, const std::string& what) {
  const lf_bkcl& codes = bkcl_.table;
  if (result == codes.success) return;
  if (result == codes.invalid_argument) fail(LF_E_INVALID, what + ": invalid argument");
  if (result == codes.system_error) fail(LF_E_COMM, what + ": system error; a peer is gone");
  if (result == codes.runtime_error) {
    runtime_->require_alive();
    fail(LF_E_COMM, what + ": the runtime refused it");
  }
  fail(LF_E_COMM,
       fmt::format("{}: {} ({})", what, result == codes.internal_error ? "internal error" : "unknown error", result));
}

void Communicator::abort() {
  if (aborted_.exchange(true)) return;
  if (bkcl_.table.comm_abort == nullptr)
    throw sdk::Failure(LF_E_UNSUPPORTED,
                       "kunlun collectives: this version has no bkcl_comm_abort; end the process instead");
  const CurrentDevice current(*runtime_, device_.ordinal());
  bkcl_.table.comm_abort(context_);
}

void Communicator::find_overdue() {
  if (const std::string overdue = flights_.overdue(); !overdue.empty())
    fail(LF_E_TIMEOUT,
         fmt::format("{} has not finished within {} ms; a peer is slow or gone", overdue, timeout_.count()));
}

void Communicator::require_sound() {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) throw *failure_;
  }
  if (aborted_) throw sdk::Failure(LF_E_ABORTED, fmt::format("communicator {} was aborted", name_));
  runtime_->require_alive();
  find_overdue();
}

void Communicator::track(const std::string& what, XpuStream stream) {
  flights_.track(what, stream, [this] { return std::make_unique<Event>(device_); });
}

template <typename Call>
void Communicator::submit(const std::string& what, XpuStream stream, Call&& call) {
  require_sound();
  const CurrentDevice current(*runtime_, device_.ordinal());
  device_.note_work(stream);
  check(call(), what);
  if (group_depth_ > 0)
    group_streams_.insert(stream);
  else
    track(what, stream);
}

void Communicator::group_begin() {
  require_sound();
  check(bkcl_.table.group_start(), "bkcl_group_start");
  ++group_depth_;
}

void Communicator::group_end() {
  if (group_depth_ == 0) throw sdk::Failure(LF_E_INVALID, "kunlun collectives: group_end without group_begin");
  const CurrentDevice current(*runtime_, device_.ordinal());
  --group_depth_;
  for (const XpuStream stream : group_streams_) device_.note_work(stream);
  check(bkcl_.table.group_end(), "bkcl_group_end");
  if (group_depth_ > 0) return;
  for (const XpuStream stream : std::exchange(group_streams_, {})) track("a group of calls", stream);
  for (auto& [arrays, stream] : std::exchange(group_arrays_, {})) {
    arrays.passed->record(stream);
    arrays_.push_back(std::move(arrays));
  }
}

int32_t Communicator::reduced_type(int32_t dtype) const {
  const lf_bkcl& codes = bkcl_.table;
  switch (dtype) {
    case LF_DTYPE_F32:
      return codes.float32;
    case LF_DTYPE_BF16:
      return codes.bfloat16;
    case LF_DTYPE_F16:
      return codes.float16;
    case LF_DTYPE_F64:
      return codes.float64;
    case LF_DTYPE_I64:
      return codes.int64;
    case LF_DTYPE_I32:
      return codes.int32;
    case LF_DTYPE_U8:
      return codes.uint8;
    default:
      throw sdk::Failure(LF_E_UNSUPPORTED, fmt::format("kunlun collectives: no sums over element type {}", dtype));
  }
}

std::pair<int32_t, uint64_t> Communicator::moved_type(int32_t dtype) const {
  switch (dtype) {
    case LF_DTYPE_BOOL:
    case LF_DTYPE_F8_E4M3:
    case LF_DTYPE_I8:
    case LF_DTYPE_I16:
      return {bkcl_.table.uint8, static_cast<uint64_t>(sdk::item_bytes(dtype))};
    default:
      return {reduced_type(dtype), 1};
  }
}

int32_t Communicator::reduction_code(int32_t reduction) const {
  switch (reduction) {
    case LF_REDUCE_SUM:
      return bkcl_.table.add;
    case LF_REDUCE_MAX:
      return bkcl_.table.max;
    case LF_REDUCE_MIN:
      return bkcl_.table.min;
    default:
      throw sdk::Failure(LF_E_UNSUPPORTED, fmt::format("kunlun collectives: unknown reduction {}", reduction));
  }
}

void Communicator::all_reduce(const void* in, void* out, uint64_t n, int32_t dtype, int32_t reduction,
                              XpuStream stream) {
  const int32_t type = reduced_type(dtype), op = reduction_code(reduction);
  if (n == 0) return require_sound();
  submit(fmt::format("all_reduce of {} elements", n), stream,
         [&] { return bkcl_.table.all_reduce(context_, in, out, n, type, op, stream); });
}

void Communicator::reduce_scatter(const void* in, void* out, uint64_t n_out, int32_t dtype, int32_t reduction,
                                  XpuStream stream) {
  const int32_t type = reduced_type(dtype), op = reduction_code(reduction);
  if (n_out == 0) return require_sound();
  submit(fmt::format("reduce_scatter to {} elements", n_out), stream,
         [&] { return bkcl_.table.reduce_scatter(context_, in, out, n_out, type, op, stream); });
}

void Communicator::all_gather(const void* in, void* out, uint64_t n_in, int32_t dtype, XpuStream stream) {
  const auto [type, per_element] = moved_type(dtype);
  if (n_in == 0) return require_sound();
  submit(fmt::format("all_gather of {} elements", n_in), stream, [&, type = type, n = n_in * per_element] {
    return bkcl_.table.all_gather(context_, in, n, out, type, stream);
  });
}

void Communicator::broadcast(const void* in, void* out, uint64_t n, int32_t dtype, int root, XpuStream stream) {
  const auto [type, per_element] = moved_type(dtype);
  if (n == 0) return require_sound();
  submit(fmt::format("broadcast of {} elements", n), stream, [&, type = type, count = n * per_element] {
    return bkcl_.table.broadcast(context_, rank_ == root ? in : out, out, count, type, root, stream);
  });
}

void Communicator::send(const void* in, uint64_t n, int32_t dtype, int peer, XpuStream stream) {
  const auto [type, per_element] = moved_type(dtype);
  if (n == 0) return require_sound();
  submit(fmt::format("send of {} elements to rank {}", n, peer), stream, [&, type = type, count = n * per_element] {
    return bkcl_.table.send(context_, in, count, peer, type, stream);
  });
}

void Communicator::receive(void* out, uint64_t n, int32_t dtype, int peer, XpuStream stream) {
  const auto [type, per_element] = moved_type(dtype);
  if (n == 0) return require_sound();
  submit(
      fmt::format("receive of {} elements from rank {}", n, peer), stream,
      [&, type = type, count = n * per_element] { return bkcl_.table.recv(context_, out, count, peer, type, stream); });
}

Communicator::Arrays Communicator::take_arrays() {
  if (arrays_.size() >= kArraysInFlight) {
    Arrays oldest = std::move(arrays_.front());
    arrays_.pop_front();
    oldest.passed->wait();
    return oldest;
  }
  const uint64_t bytes = 4 * sizeof(size_t) * size_;
  Arrays arrays{};
  arrays.host = device_.allocate(bytes, LF_MEMORY_PINNED_HOST);
  arrays.device = device_.allocate(bytes, LF_MEMORY_MAIN);
  arrays.passed = std::make_unique<Event>(device_);
  return arrays;
}

void Communicator::all_to_all(const void* in, const uint64_t* n_send, const uint64_t* send_at, void* out,
                              const uint64_t* n_recv, const uint64_t* recv_at, int32_t dtype, XpuStream stream) {
  const auto [type, per_element] = moved_type(dtype);
  if (bkcl_.table.all_to_all_v == nullptr)
    throw sdk::Failure(LF_E_UNSUPPORTED, "kunlun collectives: this version has no bkcl_all_to_all_v");
  require_sound();
  Arrays arrays = take_arrays();
  auto* host = static_cast<size_t*>(arrays.host);
  for (const uint64_t* values : {n_send, send_at, n_recv, recv_at})
    for (int peer = 0; peer < size_; ++peer) *host++ = values[peer] * per_element;
  copy({&device_, arrays.device}, {nullptr, arrays.host}, 4 * sizeof(size_t) * size_, &device_, stream);
  // A rank without rows may have no buffer; any device address will do for one that is not touched.
  const void* from = in != nullptr ? in : arrays.device;
  void* to = out != nullptr ? out : arrays.device;
  const auto* on_device = static_cast<const size_t*>(arrays.device);
  submit("all_to_all", stream, [&, type = type] {
    return bkcl_.table.all_to_all_v(context_, from, on_device, on_device + size_, type, to, on_device + 2 * size_,
                                    on_device + 3 * size_, type, stream);
  });
  if (group_depth_ > 0) {
    group_arrays_.emplace_back(std::move(arrays), stream);
  } else {
    arrays.passed->record(stream);
    arrays_.push_back(std::move(arrays));
  }
}

}  // namespace lf::kunlun
