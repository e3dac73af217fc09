#include "plugins/manifest.h"

#include <gmock/gmock.h>

#include "plugins/refusal.h"

namespace lf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::string_view kGood =
    R"({"abi":"0.1","kind":"model","id":"qwen_vl","version":"0.3","interfaces":["lf.model/1"],"torch":"2.11.0+cu130","requires":["lf.media/1"]})";

std::string refused(const std::string& json, const PluginHost& host = {.torch_build = "2.11.0+cu130"}) {
  try {
    require_compatible(parse_manifest(json), host);
  } catch (const Refusal& refusal) {
    return refusal.what();
  }
  return "";
}

std::string with(const std::string& from, const std::string& to) {
  std::string json(kGood);
  return json.replace(json.find(from), from.size(), to);
}

TEST(Manifest, a_good_one_is_read_whole) {
  const Manifest manifest = parse_manifest(kGood);
  EXPECT_EQ(manifest.abi, "0.1");
  EXPECT_EQ(manifest.kind, PluginKind::kModel);
  EXPECT_EQ(manifest.id, "qwen_vl");
  EXPECT_EQ(manifest.version, "0.3");
  EXPECT_THAT(manifest.interfaces, ElementsAre("lf.model/1"));
  EXPECT_EQ(manifest.torch, "2.11.0+cu130");
  EXPECT_THAT(manifest.required_extensions, ElementsAre("lf.media/1"));
  EXPECT_EQ(refused(std::string(kGood)), "");
}

TEST(Manifest, another_abi_is_refused_and_both_versions_are_named) {
  EXPECT_EQ(refused(with("0.1", "0.2")),
            "expected plugin ABI 0.1, got 0.2; rebuild it against this lfrun's plugin_api");
  EXPECT_THAT(refused(with("0.1", "1.1")), HasSubstr("got 1.1"));
  EXPECT_THAT(refused(with("\"0.1\"", "\"0.1x\"")), HasSubstr("expected \"abi\" as \"major.minor\""));
  EXPECT_THAT(refused(with("\"0.1\"", "\"99999999999999999999.1\"")), HasSubstr("expected \"abi\" as \"major.minor\""));
}

TEST(Manifest, another_libtorch_is_refused_and_both_builds_are_named_but_none_fits_any) {
  EXPECT_EQ(
      refused(std::string(kGood), {.torch_build = "2.12.0+cpu"}),
      "expected a plugin for LibTorch 2.12.0+cpu, got one for 2.11.0+cu130; rebuild it against this lfrun's LibTorch");
  EXPECT_EQ(refused(with("2.11.0+cu130", "none"), {.torch_build = "2.12.0+cpu"}), "");
}

TEST(Manifest, a_host_without_a_required_extension_is_told_so) {
  EXPECT_THAT(refused(with("lf.media/1", "lf.more/2")),
              HasSubstr("requires lf.more/2, which this lfrun does not offer"));
}

TEST(Manifest, a_kind_must_offer_its_own_interface) {
  EXPECT_EQ(refused(with("lf.model/1", "lf.device/1")),
            "expected a model plugin to offer lf.model/1, got [lf.device/1]");
}

TEST(Manifest, what_is_no_manifest_is_refused) {
  EXPECT_THAT(refused(""), HasSubstr("a JSON object"));
  EXPECT_THAT(refused("[]"), HasSubstr("a JSON object"));
  EXPECT_THAT(refused("{\"abi\":"), HasSubstr("a JSON object"));
  EXPECT_THAT(refused(std::string(60'000, '[')), HasSubstr("a JSON object"));
  EXPECT_THAT(refused("{}"), HasSubstr("expected text \"abi\" in the manifest, got nothing"));
  EXPECT_THAT(refused(with("\"0.1\"", "1")), HasSubstr("expected text \"abi\" in the manifest, got number"));
  EXPECT_THAT(refused(with("\"model\"", "\"teapot\"")), HasSubstr("expected \"kind\" device, model or balancer"));
  EXPECT_THAT(refused(with("qwen_vl", "Qwen VL")), HasSubstr("expected \"id\" of 2 to 64 characters"));
  EXPECT_THAT(refused(with("[\"lf.model/1\"]", "[1]")), HasSubstr("expected a list of texts as \"interfaces\""));
}

TEST(Manifest, a_refusal_is_one_line_whatever_the_manifest_holds) {
  const std::string said = refused(with("\"model\"", "\"te\\nap\\u0007ot\""));
  EXPECT_THAT(said, HasSubstr("te ap ot"));
  EXPECT_EQ(said.find('\n'), std::string::npos);
}

}  // namespace
}  // namespace lf
