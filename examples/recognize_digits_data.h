// The sounds of recognize_digits: generated tones, or recordings of spoken digits.
#pragma once

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/creation.h"
#include "core/random.h"
#include "nn/data/folders.h"
#include "nn/data/log_mel.h"
#include "nn/data/padding.h"
#include "nn/data/synthetic/tones.h"
#include "nn/data/wav.h"
#include "ops/elementwise.h"
#include "ops/join.h"

namespace vitrine::examples {

using Sound = nn::synthetic::Tones;  ///< samples, and the digits that are heard
constexpr int64_t kRate = 8000;

/// A recorded digit.
struct Recording {
  Tensor samples;
  int64_t digit = 0;
};

/// The recordings of one part of the Free Spoken Digit Dataset (Jackson 2016), the files
/// DIGIT_SPEAKER_INDEX.wav of a folder. The indices 0 to 4 are held out.
inline std::vector<Recording> read_recordings(const std::string& folder, nn::synthetic::Part part) {
  std::vector<Recording> all;
  for (const std::string& path : nn::sorted_files(folder, ".wav")) {
    const std::string name = std::filesystem::path(path).stem().string();
    const size_t last = name.rfind('_');
    int64_t digit = -1, index = -1;
    if (last != std::string::npos) {
      std::from_chars(name.data(), name.data() + name.find('_'), digit);
      std::from_chars(name.data() + last + 1, name.data() + name.size(), index);
    }
    check(digit >= 0 && digit <= 9 && index >= 0, "{}: wanted a name such as 7_jackson_32.wav", path);
    if ((index < 5) == (part == nn::synthetic::Part::held_out))
      all.push_back({nn::read_wav(path, kRate), digit});
  }
  check(!all.empty(), "{}: no recording belongs to the {} part", folder,
        part == nn::synthetic::Part::training ? "training" : "held-out");
  return all;
}

/// Strings of three to six digits, put together from random recordings with pauses up to 0.1 s.
inline nn::Dataset<Sound> spoken_strings(std::vector<Recording> recordings, int64_t size, uint64_t seed) {
  const auto all = std::make_shared<const std::vector<Recording>>(std::move(recordings));
  return nn::synthetic::drawn<Sound>(size, seed, [all](Generator& random) {
    Sound sound;
    std::vector<Tensor> parts;
    for (int64_t left = 3 + random.next_below(4); left > 0; --left) {
      const Recording& one = nn::synthetic::pick(random, *all);
      const double loudness = nn::synthetic::uniform(random, 0.5, 1.5);
      sound.digits.push_back(one.digit);
      parts.insert(parts.end(), {one.samples * loudness, zeros({1 + random.next_below(kRate / 10)})});
    }
    sound.samples = concat(parts, 0);
    return sound;
  });
}

/// Generated tones without a folder, else spoken strings.
inline nn::Split<Sound> sounds(const std::string& folder) {
  using nn::synthetic::Part, nn::synthetic::tones;
  if (folder.empty())
    return {tones(Part::training, 8000, {.rate = kRate, .most = 4}),
            tones(Part::held_out, 300, {.rate = kRate, .most = 4}, /*seed=*/1)};
  return {spoken_strings(read_recordings(folder, Part::training), 100000, 0),
          spoken_strings(read_recordings(folder, Part::held_out), 300, 1)};
}

/// Frames [B, T, mels] and their numbers [B], labels [B, L] and their numbers [B]. The label of
/// digit d is d + 1, and 0 is the blank.
inline nn::Batch batch_of(std::span<const Sound> all) {
  static const nn::LogMel log_mel({.rate = kRate});
  std::vector<Tensor> frames;
  std::vector<std::vector<int64_t>> labels;
  for (const Sound& sound : all) {
    frames.push_back(log_mel(sound.samples));
    labels.emplace_back();
    for (const int64_t digit : sound.digits) labels.back().push_back(digit + 1);
  }
  const nn::Padded x = nn::pad_frames(frames), y = nn::pad_ids(labels, 0);
  return {{x.values, x.lengths, y.values, y.lengths}, std::ssize(all)};
}

/// Labels [B, L] as a text for each row: "3 1 4". Row b has lengths[b] labels, or those before −1.
inline std::vector<std::string> texts(const Tensor& labels, const Tensor& lengths = {}) {
  const auto all = labels.values();
  const auto counts = lengths.defined() ? lengths.values() : std::vector<double>();
  const auto width = static_cast<size_t>(labels.size(1));
  std::vector<std::string> result;
  for (size_t b = 0; b < static_cast<size_t>(labels.size(0)); ++b) {
    result.emplace_back();
    for (size_t i = 0; i < width && (counts.empty() || static_cast<double>(i) < counts[b]); ++i)
      if (all[b * width + i] > 0)
        result.back() += fmt::format("{}{:.0f}", result.back().empty() ? "" : " ", all[b * width + i] - 1);
  }
  return result;
}

}  // namespace vitrine::examples
