// Drives a target without libFuzzer: every file of a corpus as it is, then mutations of them, the same ones every time.
//
//   fuzz_NAME [--mutations=N | --seconds=N] [--seed=N] FILE-OR-FOLDER...
//
// A find ends the process (a signal, a sanitizer, an exception); the input under test is then in ./find_NAME.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

#include <fcntl.h>

#include "fuzz/target.h"

namespace {

using Bytes = std::vector<uint8_t>;
constexpr size_t kLargest = 1 << 20;

const Bytes* g_input = nullptr;  // of the signal handler, which has no other way to it
char g_find[256];

extern "C" void save_input(int signal) {
  const int file = ::open(g_find, O_CREAT | O_WRONLY | O_TRUNC, 0644);
  if (g_input != nullptr && file >= 0 && ::write(file, g_input->data(), g_input->size()) >= 0) ::close(file);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void run(const Bytes& input) {
  g_input = &input;
  LLVMFuzzerTestOneInput(input.data(), input.size());
}

// What breaks parsers: flipped bits, numbers at their limits, pieces doubled, dropped, moved and taken from elsewhere.
void mutate(Bytes& bytes, const std::vector<Bytes>& corpus, std::mt19937_64& dice) {
  const auto below = [&](size_t limit) { return limit == 0 ? 0 : static_cast<size_t>(dice() % limit); };
  static constexpr uint64_t kEdges[] = {
      0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, ~uint64_t{0}, ~uint64_t{0} >> 1};
  static constexpr const char* kWords[] = {"\"", "\\", "{",     "[",    "]",       "}",  ":",
                                           ",",  "-",  "e9999", "null", "\\ud800", "\n", "\0"};
  for (size_t count = 1 + below(4); count > 0; --count) {
    const size_t at = below(bytes.size() + 1), length = below(std::min<size_t>(bytes.size() - at, 64) + 1);
    const auto here = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    switch (below(8)) {
      case 0:
        if (at < bytes.size()) bytes[at] ^= static_cast<uint8_t>(1 << below(8));
        break;
      case 1:
        if (at < bytes.size()) bytes[at] = static_cast<uint8_t>(dice());
        break;
      case 2:
        bytes.erase(here, here + static_cast<std::ptrdiff_t>(length));
        break;
      case 3: {
        const Bytes piece(here, here + static_cast<std::ptrdiff_t>(length));
        bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(below(bytes.size() + 1)), piece.begin(), piece.end());
        break;
      }
      case 4: {
        const uint64_t edge = kEdges[below(std::size(kEdges))];
        const size_t width = size_t{1} << below(4);
        const bool big = below(2) == 0;
        for (size_t i = 0; i < width && at + i < bytes.size(); ++i)
          bytes[at + i] = static_cast<uint8_t>(edge >> 8 * (big ? width - 1 - i : i));
        break;
      }
      case 5: {
        const Bytes& other = corpus[below(corpus.size())];
        const size_t from = below(other.size() + 1), piece = below(std::min<size_t>(other.size() - from, 256) + 1);
        bytes.insert(here, other.begin() + static_cast<std::ptrdiff_t>(from),
                     other.begin() + static_cast<std::ptrdiff_t>(from + piece));
        break;
      }
      case 6: {
        const char* word = kWords[below(std::size(kWords))];
        bytes.insert(here, word, word + std::max<size_t>(1, std::strlen(word)));
        break;
      }
      default:
        bytes.resize(at);
    }
  }
  if (bytes.size() > kLargest) bytes.resize(kLargest);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string name = std::filesystem::path(argv[0]).filename().string();
  std::snprintf(g_find, sizeof g_find, "find_%s", name.c_str());
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGFPE, SIGABRT, SIGALRM}) std::signal(signal, save_input);

  long mutations = 2000, seconds = 0;
  uint64_t seed = 1;
  std::vector<std::filesystem::path> files;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto number = [&] { return std::strtol(word.c_str() + word.find('=') + 1, nullptr, 10); };
    if (word.starts_with("--mutations="))
      mutations = number();
    else if (word.starts_with("--seconds="))
      seconds = number();
    else if (word.starts_with("--seed="))
      seed = static_cast<uint64_t>(number());
    else if (!std::filesystem::is_directory(word))
      files.emplace_back(word);
    else
      for (const auto& entry : std::filesystem::recursive_directory_iterator(word))
        if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<Bytes> corpus;
  for (const auto& path : files) {
    std::ifstream file(path, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    run(corpus.back());
  }
  if (corpus.empty()) return std::fprintf(stderr, "%s: expected files, or a folder of them\n", argv[0]), 64;

  std::mt19937_64 dice(seed);
  const auto begun = std::chrono::steady_clock::now();
  long done = 0;
  const auto enough = [&] {
    return seconds > 0 ? std::chrono::steady_clock::now() - begun >= std::chrono::seconds(seconds) : done >= mutations;
  };
  for (; !enough(); ++done) {
    Bytes bytes = corpus[dice() % corpus.size()];
    mutate(bytes, corpus, dice);
    ::alarm(20);  // an input that takes so long is a find
    run(bytes);
  }
  ::alarm(0);
  std::printf("%s: %zu files, %ld mutations\n", name.c_str(), corpus.size(), done);
}
