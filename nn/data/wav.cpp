#include "nn/data/wav.h"

#include <sndfile.h>

#include <cmath>
#include <memory>

#include "core/creation.h"
#include "core/files/input_file.h"

namespace vitrine::nn {
namespace {

uint32_t little_endian(const std::string& bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 4; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

/// Checks that the sizes in the header are those of the file: libsndfile would read what is there.
void check_chunks(const std::string& path) {
  const InputFile file("read_wav", path);
  constexpr size_t kHeader = 12, kChunk = 8;
  check(file.bytes() >= kHeader, "read_wav: {} has {} bytes, and no WAV header", path, file.bytes());
  const std::string header = file.text(0, kHeader);
  check(header.starts_with("RIFF") && header.ends_with("WAVE"),
        "read_wav: {} is not a WAV file: it does not begin with RIFF and WAVE", path);
  check(little_endian(header, 4) + uint64_t{kChunk} == file.bytes(),
        "read_wav: {} has {} bytes, and its header says {}", path, file.bytes(),
        little_endian(header, 4) + uint64_t{kChunk});
  bool format = false, data = false;
  for (size_t at = kHeader; at < file.bytes();) {
    check(file.bytes() - at >= kChunk, "read_wav: {} ends within the header of a chunk, at byte {}", path,
          at);
    const std::string chunk = file.text(at, kChunk);
    const uint32_t bytes = little_endian(chunk, 4);
    at += kChunk;
    check(bytes <= file.bytes() - at, "read_wav: {} has a chunk of {} bytes at byte {}, and {} are left",
          path, bytes, at, file.bytes() - at);
    format |= chunk.starts_with("fmt ");
    data |= chunk.starts_with("data");
    at += bytes;
    if (bytes % 2 == 1 && at < file.bytes()) ++at;  // chunks begin at even bytes
  }
  check(format && data, "read_wav: {} has no chunk `{}`", path, format ? "data" : "fmt ");
}

bool is_plain(int format) {
  switch (format & SF_FORMAT_SUBMASK) {
    case SF_FORMAT_PCM_U8:
    case SF_FORMAT_PCM_16:
    case SF_FORMAT_PCM_24:
    case SF_FORMAT_PCM_32:
    case SF_FORMAT_FLOAT:
    case SF_FORMAT_DOUBLE: return true;
    default: return false;
  }
}

}  // namespace

Tensor read_wav(const std::string& path, int64_t rate) {
  check_chunks(path);
  SF_INFO info{};
  const std::unique_ptr<SNDFILE, int (*)(SNDFILE*)> file(sf_open(path.c_str(), SFM_READ, &info), sf_close);
  check(file != nullptr, "read_wav: {}: {}", path, sf_strerror(nullptr));
  check(is_plain(info.format), "read_wav: {} is compressed (format {:#x}), wanted plain samples", path,
        info.format);
  check(info.channels == 1, "read_wav: {} has {} channels, wanted 1", path, info.channels);
  check(info.samplerate == rate, "read_wav: {} has {} samples per second, wanted {}", path, info.samplerate,
        rate);
  check(info.frames > 0, "read_wav: {} has no samples", path);
  Tensor samples = empty({info.frames});
  auto* const x = samples.data<float>();
  const sf_count_t got = sf_readf_float(file.get(), x, info.frames);
  check(got == info.frames, "read_wav: {} has {} samples, and its header says {}", path, got, info.frames);
  for (int64_t t = 0; t < info.frames; ++t)
    check(std::isfinite(x[t]), "read_wav: {}: sample {} is {}", path, t, x[t]);
  return samples;
}

}  // namespace vitrine::nn
