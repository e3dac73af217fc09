#include "nn/chain.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lf::nn {
namespace {

using testing::ElementsAre;

// A chain of three units on [2] rows: h = 3 x; h = h + edge and an edge out h²; h = 5 h.
struct Recorded {
  std::vector<std::pair<uint32_t, UnitEvent>> events;
  std::vector<int> calls = {0, 0, 0};

  std::vector<Step> steps(Recompute recompute, bool trains = false) {
    std::vector<Step> result;
    result.push_back({0, recompute, trains, 0, 0, [this](const Tensors& in) {
                        ++calls[0];
                        return Tensors{in[0] * 3};
                      }});
    result.push_back({1, recompute, trains, 1, 1, [this](const Tensors& in) {
                        ++calls[1];
                        const at::Tensor h = in[1].defined() ? in[0] + in[1] : in[0] * 1;
                        return Tensors{h, h * h};
                      }});
    result.push_back({2, recompute, trains, 0, 0, [this](const Tensors& in) {
                        ++calls[2];
                        return Tensors{in[0] * 5};
                      }});
    return result;
  }
  Chain::Notify notify() {
    return [this](uint32_t unit, UnitEvent event) { events.emplace_back(unit, event); };
  }
};

at::Tensor row(double a, double b) { return at::tensor({a, b}, at::kDouble); }

TEST(Chain, gives_the_gradients_of_the_whole_for_every_recomputation) {
  for (const Recompute recompute : {Recompute::kNone, Recompute::kInner, Recompute::kWhole}) {
    Recorded run;
    Chain chain(run.steps(recompute), run.notify(), true);
    const Tensors out = chain.forward({row(1, 2), row(10, 20)}, {true, true});
    ASSERT_EQ(out.size(), 2u);
    EXPECT_TRUE(out[0].equal(row(65, 130)));
    EXPECT_TRUE(out[1].equal(row(169, 676)));
    EXPECT_FALSE(out[0].requires_grad());
    const Tensors gradients = chain.backward({row(1, 1), row(1, 0)});
    // d/dh = 5 · 1 + 2 h · 1 (first column only); d/dx = 3 of it.
    EXPECT_TRUE(gradients[0].equal(row(3 * (5 + 26), 15)));
    EXPECT_TRUE(gradients[1].equal(row(5 + 26, 5)));
    EXPECT_THAT(run.calls, ElementsAre(recompute == Recompute::kWhole ? 2 : 1, recompute == Recompute::kWhole ? 2 : 1,
                                       recompute == Recompute::kWhole ? 2 : 1));
    EXPECT_EQ(run.events.size(), 15u);
    EXPECT_EQ(run.events[6], std::make_pair(2u, UnitEvent::kNeedBackward));
    EXPECT_EQ(run.events[14], std::make_pair(0u, UnitEvent::kDoneWeights));
  }
}

TEST(Chain, keeps_nothing_where_nothing_is_trained) {
  Recorded run;
  Chain chain(run.steps(Recompute::kNone), run.notify(), false);
  chain.forward({row(1, 2), row(10, 20)}, {true, true});
  const Tensors gradients = chain.backward({row(1, 1), row(1, 1)});
  EXPECT_FALSE(gradients[0].defined());
  EXPECT_EQ(run.events.size(), 6u);
}

TEST(Chain, gives_no_gradient_where_none_is_wanted) {
  Recorded run;
  Chain chain(run.steps(Recompute::kNone), run.notify(), true);
  chain.forward({row(1, 2), row(10, 20)}, {false, true});
  const Tensors gradients = chain.backward({row(1, 1), {}});
  EXPECT_FALSE(gradients[0].defined());
  EXPECT_TRUE(gradients[1].equal(row(5, 5)));
  for (const auto& [unit, event] : run.events) EXPECT_TRUE(unit > 0 || event <= UnitEvent::kDoneForward);
}

TEST(Chain, takes_absent_edges_and_absent_gradients) {
  Recorded run;
  Chain chain(run.steps(Recompute::kNone), run.notify(), true);
  const Tensors out = chain.forward({row(1, 2), {}}, {true, false});
  EXPECT_TRUE(out[0].equal(row(15, 30)));
  const Tensors gradients = chain.backward({{}, row(1, 1)});
  EXPECT_TRUE(gradients[0].equal(row(3 * 6, 3 * 12)));
  // The last unit had nothing flowing back, so it is not told.
  for (const auto& [unit, event] : run.events) EXPECT_TRUE(unit < 2 || event <= UnitEvent::kDoneForward);
}

}  // namespace
}  // namespace lf::nn
