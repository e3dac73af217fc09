// Our declarations of NCCL against the vendor's header. Built only where that header is installed.
#include "nccl_abi.h"

#include <cstddef>
#include <tuple>
#include <type_traits>

#include <gtest/gtest.h>
#include <nccl.h>

namespace lf::cuda {
namespace {

// Passed and returned the same way: pointers, enumerations and structures of one size each, numbers of one type.
template <typename Ours, typename Theirs>
constexpr bool alike() {
  if constexpr (std::is_pointer_v<Ours> || std::is_enum_v<Ours> || std::is_class_v<Ours>)
    return std::is_pointer_v<Ours> == std::is_pointer_v<Theirs> && std::is_enum_v<Ours> == std::is_enum_v<Theirs> &&
           std::is_class_v<Ours> == std::is_class_v<Theirs> && sizeof(Ours) == sizeof(Theirs);
  else
    return std::is_same_v<Ours, Theirs>;
}

template <typename Ours, typename Theirs>
struct Calls;
template <typename R, typename... A, typename S, typename... B>
struct Calls<R(A...), S(B...)> {
  static constexpr bool same() {
    if constexpr (sizeof...(A) != sizeof...(B))
      return false;
    else
      return alike<R, S>() && (alike<A, B>() && ...);
  }
};

#define LF_SAME_CALL(name) \
  EXPECT_TRUE((Calls<nccl::name, std::remove_pointer_t<decltype(&::nccl##name)>>::same())) << #name
#define LF_SAME_NUMBER(name) EXPECT_EQ(static_cast<int>(lf::cuda::name), static_cast<int>(::name))

TEST(NcclAbi, functions_take_and_return_what_the_vendors_header_says) {
  LF_SAME_CALL(GetVersion);
  LF_SAME_CALL(GetErrorString);
  LF_SAME_CALL(GetUniqueId);
  LF_SAME_CALL(CommInitRankConfig);
  LF_SAME_CALL(CommDestroy);
  LF_SAME_CALL(CommAbort);
  LF_SAME_CALL(CommGetAsyncError);
  LF_SAME_CALL(GroupStart);
  LF_SAME_CALL(GroupEnd);
  LF_SAME_CALL(AllReduce);
  LF_SAME_CALL(ReduceScatter);
  LF_SAME_CALL(AllGather);
  LF_SAME_CALL(Broadcast);
  LF_SAME_CALL(Send);
  LF_SAME_CALL(Recv);
}

TEST(NcclAbi, numbers_are_those_of_the_vendors_header) {
  LF_SAME_NUMBER(ncclSuccess);
  LF_SAME_NUMBER(ncclUnhandledCudaError);
  LF_SAME_NUMBER(ncclSystemError);
  LF_SAME_NUMBER(ncclInternalError);
  LF_SAME_NUMBER(ncclInvalidArgument);
  LF_SAME_NUMBER(ncclInvalidUsage);
  LF_SAME_NUMBER(ncclRemoteError);
  LF_SAME_NUMBER(ncclInProgress);
  LF_SAME_NUMBER(ncclSum);
  LF_SAME_NUMBER(ncclMax);
  LF_SAME_NUMBER(ncclMin);
  LF_SAME_NUMBER(ncclInt8);
  LF_SAME_NUMBER(ncclUint8);
  LF_SAME_NUMBER(ncclInt32);
  LF_SAME_NUMBER(ncclInt64);
  LF_SAME_NUMBER(ncclFloat16);
  LF_SAME_NUMBER(ncclFloat32);
  LF_SAME_NUMBER(ncclFloat64);
  LF_SAME_NUMBER(ncclBfloat16);
}

TEST(NcclAbi, the_settings_are_the_beginning_of_the_vendors) {
  const ::ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  EXPECT_EQ(ncclConfig_t{}.magic, theirs.magic);
  EXPECT_EQ(offsetof(ncclConfig_t, magic), offsetof(::ncclConfig_t, magic));
  EXPECT_EQ(offsetof(ncclConfig_t, version), offsetof(::ncclConfig_t, version));
  EXPECT_EQ(offsetof(ncclConfig_t, blocking), offsetof(::ncclConfig_t, blocking));
  EXPECT_EQ(sizeof(ncclUniqueId), sizeof(::ncclUniqueId));
}

}  // namespace
}  // namespace lf::cuda
