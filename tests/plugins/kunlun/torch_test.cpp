// LibTorch on the device "kunlun": the CPU's own bits, through its own kernels, on memory that only looks like a
// card's.
#include <functional>

#include <c10/core/CachingDeviceAllocator.h>
#include <gtest/gtest.h>

#include "opened.h"
#include "torch_job.h"

namespace lf::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Where the host sees device memory, and where every operator's tensors are copied there and back.
class KunlunTorch : public ::testing::TestWithParam<const char*> {
 protected:
  // `body` gets the plugin with its device known to LibTorch. "warn" unless said otherwise.
  void registered(const std::function<void(Opened&, lf_device)>& body, Environment more = {},
                  const std::string& policy = "\"warn\"") {
    more["LF_KUNLUN_HOME"] = home(GetParam());
    run_alone(more, [&] {
      Opened plugin;
      if (!policy.empty()) plugin.set_option("device.op_fallback", policy);
      const lf_device device = plugin.open();
      ASSERT_EQ(plugin.device().torch_register(device, sdk::str(LF_TORCH_BUILD), sdk::str(""), &plugin.err), LF_OK)
          << plugin.message();
      body(plugin, device);
    });
  }
};

const at::Device kKunlun(at::kPrivateUse1, 0);

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.detach().cpu().contiguous(), y = b.detach().cpu().contiguous();
  return x.sizes() == y.sizes() && x.dtype() == y.dtype() &&
         (x.nbytes() == 0 || std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0);
}

TEST_P(KunlunTorch, training_steps_of_a_transformer_give_the_cpus_bits) {
  registered([](Opened&, lf_device) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      const Trained on_cpu = train(at::kCPU, type, 3), on_device = train(kKunlun, type, 3);
      EXPECT_EQ(on_cpu.losses, on_device.losses);
      EXPECT_LT(on_cpu.losses.back(), on_cpu.losses.front()) << "it learns, so there is something to compare";
      ASSERT_EQ(on_cpu.parameters.size(), on_device.parameters.size());
      for (size_t i = 0; i < on_cpu.parameters.size(); ++i) {
        EXPECT_TRUE(same_bits(on_cpu.parameters[i], on_device.parameters[i])) << "parameter " << i;
        EXPECT_TRUE(same_bits(on_cpu.gradients[i], on_device.gradients[i])) << "gradient " << i;
      }
    }
  });
}

TEST_P(KunlunTorch, single_operators_give_the_cpus_bits) {
  registered([](Opened&, lf_device) {
    for (const auto& [name, operation] : operations()) {
      at::Tensor expected, got;
      at::manual_seed(11);
      ASSERT_NO_THROW(expected = operation(at::kCPU)) << name;
      at::manual_seed(11);
      try {
        got = operation(kKunlun);
      } catch (const std::exception& problem) {
        ADD_FAILURE() << name << ": " << problem.what();
        continue;
      }
      EXPECT_EQ(got.device(), kKunlun) << name;
      EXPECT_TRUE(same_bits(expected, got)) << name << "\n" << expected << "\n" << got.cpu();
    }
  });
}

TEST_P(KunlunTorch, by_default_an_operator_that_the_device_lacks_is_an_error_that_names_it_and_the_setting) {
  for (const char* policy : {"", "\"error\""})
    registered(
        [](Opened& plugin, lf_device) {
          const at::Tensor a = at::arange(6, at::kFloat).to(kKunlun);  // copies and views are the device's own
          EXPECT_TRUE(same_bits(a.view({2, 3}).t().cpu(), at::arange(6, at::kFloat).view({2, 3}).t()));
          try {
            at::add(a, a);
            ADD_FAILURE() << "nothing was thrown";
          } catch (const c10::NotImplementedError& problem) {
            EXPECT_THAT(problem.what_without_backtrace(), AllOf(HasSubstr("aten::add"), HasSubstr("op_fallback")));
          }
          EXPECT_THAT(plugin.log(), Not(HasSubstr("ran on the CPU")));
        },
        {}, policy);
}

TEST_P(KunlunTorch, every_operator_that_fell_back_is_counted_and_listed_at_the_end) {
  registered([](Opened& plugin, lf_device) {
    const at::Tensor a = at::ones({4, 4}).to(kKunlun);
    for (int i = 0; i < 3; ++i) at::mm(a, a);
    at::relu(a);
    plugin.stop();
    EXPECT_THAT(plugin.log(), AllOf(HasSubstr("4 calls of 2 operators ran on the CPU"), HasSubstr("aten::mm.out 3"),
                                    HasSubstr("aten::relu 1")));
  });
}

TEST_P(KunlunTorch, gradients_land_in_the_memory_that_the_core_owns) {
  registered([](Opened& plugin, lf_device device) {
    const std::vector<float> values{1, 2, 3, 4};
    auto* value = plugin.upload(device, values);
    auto* gradient = plugin.upload(device, std::vector<float>(4, 10));
    const auto options = at::TensorOptions(at::kFloat).device(kKunlun);
    at::Tensor parameter = at::from_blob(value, {4}, options).requires_grad_(true);
    parameter.mutable_grad() = at::from_blob(gradient, {4}, options);
    at::sum(parameter * parameter).backward();
    EXPECT_EQ(parameter.grad().data_ptr(), gradient);
    EXPECT_EQ(plugin.download<float>(device, gradient, 4), (std::vector<float>{12, 14, 16, 18}));
  });
}

TEST_P(KunlunTorch, operators_wait_for_copies_that_are_still_under_way) {
  registered(
      [](Opened& plugin, lf_device device) {
        const size_t n = 100'000;
        void* memory = plugin.upload(device, std::vector<float>(n, 2));  // 400 kB at 2 MB/s, enqueued
        const at::Tensor tensor =
            at::from_blob(memory, {static_cast<int64_t>(n)}, at::TensorOptions(at::kFloat).device(kKunlun));
        EXPECT_EQ(at::sum(tensor).item<float>(), 2.0F * n);
      },
      {{"LF_SIM_XPU_MBPS", "2"}});
}

TEST_P(KunlunTorch, memory_that_tensors_leave_is_used_again_and_can_be_given_back) {
  registered([](Opened& plugin, lf_device device) {
    auto* allocator = c10::getDeviceAllocator(at::kPrivateUse1);
    const uint64_t before = plugin.stats(device).allocated_bytes;
    for (int i = 0; i < 50; ++i) at::mm(at::ones({256, 256}).to(kKunlun), at::ones({256, 256}).to(kKunlun));
    EXPECT_LT(plugin.stats(device).allocated_bytes - before, 8U << 20) << "50 steps, each of about 1 MB";
    EXPECT_EQ(allocator->getDeviceStats(0).allocated_bytes[0].current, 0);
    allocator->emptyCache();
    EXPECT_EQ(plugin.stats(device).allocated_bytes, before);
  });
}

TEST_P(KunlunTorch, running_out_is_libtorchs_error_for_it_and_is_survived) {
  registered(
      [](Opened&, lf_device) {
        const auto options = at::TensorOptions(at::kByte).device(kKunlun);
        EXPECT_THROW(at::empty({200 << 20}, options), c10::OutOfMemoryError);
        { const at::Tensor most = at::empty({60 << 20}, options); }
        at::empty({40 << 20}, options);  // what was kept of the first is let go
        EXPECT_EQ(at::ones({3}).to(kKunlun).sum().item<float>(), 3);
      },
      {{"LF_SIM_XPU_MEM", std::to_string(64 << 20)}});
}

TEST_P(KunlunTorch, a_second_card_of_the_process_is_refused) {
  registered([](Opened& plugin, lf_device device) {
    EXPECT_EQ(plugin.device().torch_register(device, sdk::str(LF_TORCH_BUILD), sdk::str(""), &plugin.err), LF_OK);
    EXPECT_EQ(plugin.device().torch_register(plugin.open(1), sdk::str(LF_TORCH_BUILD), sdk::str(""), &plugin.err),
              LF_E_INVALID);
    EXPECT_THAT(plugin.message(), HasSubstr("kunlun:0"));
  });
}

INSTANTIATE_TEST_SUITE_P(Memory, KunlunTorch, ::testing::Values("plain", "kl2"), [](const auto& test) {
  return std::string(test.param) == "plain" ? "seen_by_the_host" : "hidden_from_the_host";
});

TEST(KunlunTorchBuild, another_build_of_libtorch_is_refused_and_both_are_named) {
  run_alone({{"LF_KUNLUN_HOME", home("plain")}}, [] {
    Opened plugin;
    EXPECT_EQ(plugin.device().torch_register(plugin.open(), sdk::str("9.9.0"), sdk::str(""), &plugin.err),
              LF_E_UNSUPPORTED);
    EXPECT_THAT(plugin.message(), AllOf(HasSubstr("9.9.0"), HasSubstr(LF_TORCH_BUILD)));
  });
}

TEST(KunlunTorchBuild, an_unknown_fallback_policy_is_refused) {
  run_alone({{"LF_KUNLUN_HOME", home("plain")}}, [] {
    Opened plugin;
    plugin.set_option("device.op_fallback", "\"sometimes\"");
    EXPECT_EQ(plugin.device().torch_register(plugin.open(), sdk::str(LF_TORCH_BUILD), sdk::str(""), &plugin.err),
              LF_E_INVALID);
    EXPECT_THAT(plugin.message(), AllOf(HasSubstr("op_fallback"), HasSubstr("sometimes")));
  });
}

}  // namespace
}  // namespace lf::testing
