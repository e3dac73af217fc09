#include "conformance/kit_host.h"

#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

#include "lf/plugin_sdk/guard.hpp"
#include "lf/plugin_sdk/tensor.hpp"

namespace lf::kit {
namespace {

using sdk::Failure;

KitHost& of(const lf_host* host) { return *static_cast<KitHost*>(host->context); }

struct Size {
  int width = 0, height = 0;
};

// "any_56x84.png": 56 pixels wide, 84 high.
Size size_in_name(std::string_view path) {
  const size_t mark = path.rfind('_');
  Size size;
  const char* const end = path.data() + path.size();
  if (mark != path.npos) {
    const auto [cross, wrong] = std::from_chars(path.data() + mark + 1, end, size.width);
    if (wrong == std::errc{} && cross != end && *cross == 'x') std::from_chars(cross + 1, end, size.height);
  }
  constexpr int kMost = 4096;
  if (size.width < 1 || size.height < 1 || size.width > kMost || size.height > kMost)
    throw Failure(LF_E_DATA, std::string(path) + ": expected a name that ends with a size, as in any_56x84.png");
  return size;
}

constexpr int64_t kVideoFrames = 8;

// The same pixels for the same name; `frames` pictures behind one another.
lf_tensor paint(std::string_view path, std::optional<int64_t> frames) {
  const Size size = size_in_name(path);
  const int64_t n = frames.value_or(1);
  std::vector<uint8_t> pixels(static_cast<size_t>(n * size.height * size.width * 3));
  uint32_t state = 2463534242u + static_cast<uint32_t>(std::hash<std::string_view>{}(path));
  for (uint8_t& value : pixels) {  // xorshift32, Marsaglia 2003, "Xorshift RNGs"
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    value = static_cast<uint8_t>(state >> 24);
  }
  std::vector<int64_t> shape = {size.height, size.width, 3};
  if (frames) shape.insert(shape.begin(), n);
  return sdk::give(std::move(pixels), LF_DTYPE_U8, shape);
}

int32_t probe_media(const lf_host*, lf_str path, int32_t kind, lf_media_info* out, lf_err* err) {
  return sdk::guard(err, [&] {
    const Size size = size_in_name(sdk::view(path));
    out->kind = kind;
    out->width = size.width;
    out->height = size.height;
    out->frames = kind == LF_MEDIA_VIDEO ? kVideoFrames : 1;
    out->frames_per_second = kind == LF_MEDIA_VIDEO ? 2 : 0;
    out->seconds = kind == LF_MEDIA_VIDEO ? kVideoFrames / 2.0 : 0;
  });
}

int32_t decode_image(const lf_host*, lf_str path, lf_tensor* out, lf_err* err) {
  return sdk::guard(err, [&] { *out = paint(sdk::view(path), std::nullopt); });
}

int32_t decode_video(const lf_host*, lf_str path, const int64_t*, uint64_t n, lf_tensor* out, lf_err* err) {
  return sdk::guard(err, [&] { *out = paint(sdk::view(path), static_cast<int64_t>(n)); });
}

int32_t group_info(const lf_host*, lf_group group, int32_t* size, int32_t* rank) {
  *size = 1;
  *rank = 0;
  return group == nullptr ? LF_OK : LF_E_UNSUPPORTED;
}

int32_t begin(const lf_host*, lf_group group, const lf_collective* what, lf_stream, lf_ticket* ticket, lf_err* err) {
  return sdk::guard(err, [&] {
    if (group != nullptr) throw Failure(LF_E_UNSUPPORTED, "the kit makes groups of one only");
    const int64_t bytes = sdk::element_count(what->in) * sdk::item_bytes(what->in.dtype);
    if (bytes != sdk::element_count(what->out) * sdk::item_bytes(what->out.dtype))
      throw Failure(LF_E_INVALID, "in a group of one a collective's input and output have the same size");
    if (what->in.data != what->out.data && bytes > 0)
      std::memcpy(what->out.data, what->in.data, static_cast<size_t>(bytes));
    *ticket = nullptr;
  });
}

}  // namespace

KitHost::KitHost() {
  parallel_ = sdk::with_header<lf_parallel_host>();
  parallel_.group_info = group_info;
  parallel_.begin = begin;
  parallel_.end = [](const lf_host*, lf_ticket, lf_stream, lf_err*) -> int32_t { return LF_OK; };
  parallel_.unit = [](const lf_host* host, lf_stage stage, uint32_t unit, int32_t what, uint64_t micro_batch, lf_stream,
                      lf_err*) -> int32_t {
    return of(host).on_unit ? of(host).on_unit(stage, unit, what, micro_batch) : LF_OK;
  };
  media_ = sdk::with_header<lf_media_host>();
  media_.probe = probe_media;
  media_.decode_image = decode_image;
  media_.decode_video = decode_video;
  host_ = sdk::with_header<lf_host>();
  host_.context = this;
  host_.get_extension = [](const lf_host* host, lf_str id) -> const void* {
    if (sdk::view(id) == LF_PARALLEL_EXTENSION) return &of(host).parallel_;
    if (sdk::view(id) == LF_MEDIA_EXTENSION) return &of(host).media_;
    return nullptr;
  };
  host_.log = [](const lf_host*, int32_t, lf_str) {};
  host_.option = [](const lf_host*, lf_str, lf_sink, lf_err* err) -> int32_t {
    sdk::set_error(err, LF_E_INVALID, "no such option");
    return LF_E_INVALID;
  };
  host_.cancelled = [](const lf_host*) -> int32_t { return 0; };
}

}  // namespace lf::kit
