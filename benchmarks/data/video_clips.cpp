// What one clip of ten frames costs, of a video seen before and of one that is new: video_clips FILE.
//
//   ffmpeg -f lavfi -i testsrc2=size=640x360:rate=30:duration=1200 -c:v libx264 -g 60 long.mp4
//   build/bin/video_clips long.mp4
#include <array>
#include <cstdio>
#include <memory>
#include <string>

#include <benchmark/benchmark.h>

#include "data/media/media_reader.h"

namespace {

constexpr int64_t kMaxPixels = 100'000'000;
constexpr int kFrames = 10;

void decode_clips(benchmark::State& state, const std::string& path, bool known) {
  auto reader = std::make_unique<lf::MediaReader>("/", kMaxPixels);
  const int64_t total = reader->probe(path, LF_MEDIA_VIDEO).frames;
  int64_t first = 0;
  for (auto _ : state) {
    if (!known) reader = std::make_unique<lf::MediaReader>("/", kMaxPixels);
    std::array<int64_t, kFrames> frames;
    for (int i = 0; i < kFrames; ++i) frames[i] = first + i;
    first = (first + 7919) % (total - kFrames);
    lf_tensor clip = reader->decode_video(path, frames);
    lf::sdk::release(clip);
  }
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (argc != 2) return std::fputs("usage: video_clips FILE\n", stderr), 64;
  const std::string path = argv[1];
  for (const bool known : {false, true})
    benchmark::RegisterBenchmark(known ? "seen before" : "new", decode_clips, path, known)
        ->Unit(benchmark::kMillisecond);
  benchmark::RunSpecifiedBenchmarks();
}
