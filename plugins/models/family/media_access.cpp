#include "family/media_access.h"

#include <algorithm>

#include <fmt/format.h>

namespace lf::family {
namespace {

void check_shape(const lf_tensor& tensor, std::initializer_list<int64_t> shape, const std::string& path) {
  if (tensor.dtype != LF_DTYPE_U8 || tensor.ndim != static_cast<int32_t>(shape.size()) ||
      !std::equal(shape.begin(), shape.end(), tensor.shape))
    throw sdk::Failure(
        LF_E_DATA, fmt::format("{}: the header says {} pixels, the picture has {}; the file is damaged", path,
                               fmt::join(shape, " x "), fmt::join(tensor.shape, tensor.shape + tensor.ndim, " x ")));
}

}  // namespace

MediaAccess::MediaAccess(const lf_host* host)
    : host_(host),
      media_(host != nullptr
                 ? static_cast<const lf_media_host*>(host->get_extension(host, sdk::str(LF_MEDIA_EXTENSION)))
                 : nullptr) {}

const lf_media_host& MediaAccess::media() const {
  if (media_ == nullptr)
    throw sdk::Failure(LF_E_UNSUPPORTED,
                       "this host decodes no pictures (it lacks lf.media/1), and the sample has some");
  return *media_;
}

lf_media_info MediaAccess::probe(const std::string& path, int32_t kind) const {
  auto info = sdk::with_header<lf_media_info>();
  lf_err err = sdk::make_err();
  sdk::check(media().probe(host_, sdk::str(path), kind, &info, &err), err);
  return info;
}

lf_media_info MediaAccess::probe_frames(std::span<const std::string> paths, std::span<const int64_t> chosen) const {
  const auto path = [&](int64_t frame) -> const std::string& { return paths[static_cast<size_t>(frame)]; };
  const lf_media_info first = probe(path(chosen.front()), LF_MEDIA_IMAGE);
  for (const int64_t frame : chosen.subspan(1)) {
    const lf_media_info info = probe(path(frame), LF_MEDIA_IMAGE);
    if (info.width == first.width && info.height == first.height) continue;
    throw sdk::Failure(LF_E_DATA, fmt::format("frame {} ({}) is {} x {}, frame {} ({}) is {} x {}; frames of one video "
                                              "must be of one size: resize or crop them",
                                              frame + 1, path(frame), info.width, info.height, chosen.front() + 1,
                                              path(chosen.front()), first.width, first.height));
  }
  return first;
}

void MediaAccess::decode_image(const std::string& path, media::Size size, Pixels& out) const {
  lf_err err = sdk::make_err();
  sdk::check(media().decode_image(host_, sdk::str(path), &out.tensor, &err), err);
  check_shape(out.tensor, {size.height, size.width, 3}, path);
}

void MediaAccess::decode_video(const std::string& path, std::span<const int64_t> frames, media::Size size,
                               Pixels& out) const {
  lf_err err = sdk::make_err();
  sdk::check(media().decode_video(host_, sdk::str(path), frames.data(), frames.size(), &out.tensor, &err), err);
  check_shape(out.tensor, {static_cast<int64_t>(frames.size()), size.height, size.width, 3}, path);
}

}  // namespace lf::family
