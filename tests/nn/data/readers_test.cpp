// Readers of data files: what they read, and what they say of a damaged file.
#include <doctest/doctest.h>

#include <filesystem>
#include <limits>

#include "core/creation.h"
#include "nn/data/folders.h"
#include "nn/data/idx.h"
#include "nn/data/image.h"
#include "nn/data/json_lines.h"
#include "nn/data/lines.h"
#include "nn/data/padding.h"
#include "nn/data/wav.h"
#include "tests/folder.h"
#include "tests/memory_use.h"
#include "tests/nn/data/files.h"
#include "tests/ops/reference.h"

using namespace vitrine;
using namespace vitrine::nn;
using namespace vitrine::test;
using namespace std::string_literals;

namespace {

template <class Item>
std::vector<Item> all(const Dataset<Item>& items) {
  std::vector<Item> result;
  for (const Item& item : items) result.push_back(item);
  return result;
}

/// Checks that `f` throws an error with all these parts.
template <class F>
void check_error(F f, std::initializer_list<std::string_view> parts) {
  const std::string message = error_of(f);
  for (const std::string_view part : parts)
    CHECK_MESSAGE(message.find(part) != std::string::npos, message, " lacks ", part);
}

}  // namespace

TEST_CASE("a data set gives its items by number, mapped, in part, and one set after another") {
  const Dataset<int64_t> squares(4, [](int64_t i) { return i * i; });
  CHECK(all(squares) == std::vector<int64_t>{0, 1, 4, 9});
  const auto texts = mapped(squares, [](int64_t x) { return std::to_string(x); });
  CHECK(all(subset(texts, 1, 3)) == std::vector<std::string>{"1", "4"});
  CHECK(Dataset<int64_t>(std::vector<int64_t>{7}).size() == 1);
  const std::vector<Dataset<int64_t>> sets = {subset(squares, 2, 4), subset(squares, 0, 0), squares};
  CHECK(all(concatenated(sets)) == std::vector<int64_t>{4, 9, 0, 1, 4, 9});
  const Dataset<int64_t> eight(8, [](int64_t i) { return i; });
  const auto parts = held_out_split(eight, 3);
  CHECK(all(parts.training) == std::vector<int64_t>{0, 1, 3, 4, 6, 7});
  CHECK(all(parts.held_out) == std::vector<int64_t>{2, 5});
  check_error([&] { held_out_split(eight, 1); }, {"the period is 1, wanted at least 2"});
  check_error([&] { squares[4]; }, {"no item 4 among 4"});
  check_error([&] { subset(squares, 3, 5); }, {"[3, 5)", "4"});
}

TEST_CASE("lines end with LF or CRLF, and the last one may lack its end") {
  const Folder folder;
  const std::string path = folder / "text";
  const std::string text = "\xEF\xBB\xBFone\r\n\nthr\u00e9e\na\rb";
  for (const std::string& bytes : {text, gzip(text)}) {
    write_bytes(path, bytes);
    CHECK(all(read_lines(path)) == std::vector<std::string>{"one", "", "thr\u00e9e", "a\rb"});
    LineReader lines("reader", path);
    CHECK(lines.next() == "one");
    CHECK(lines.line() == 1);
    CHECK(lines.begin() == 3);
  }
  write_bytes(path, "a\n");
  CHECK(read_lines(path).size() == 1);
  write_bytes(path, "");
  CHECK(read_lines(path).size() == 0);
  std::string large;  // lines across the ends of the reader's buffer
  for (int i = 0; i < 3; ++i) large += std::string(40000 + i, static_cast<char>('a' + i)) + "\n";
  write_bytes(path, large);
  const auto lines = read_lines(path);
  for (int64_t i = 0; i < 3; ++i) CHECK(lines[i] == std::string(40000 + i, static_cast<char>('a' + i)));
}

TEST_CASE("text that is not UTF-8 is an error with line and byte, a damaged gzip file with its reason") {
  const Folder folder;
  const std::string path = folder / "text";
  write_bytes(path, "fine\nab\xFFz\n");
  check_error([&] { read_lines(path); }, {path, "line 2", "byte 3", "0xff"});
  write_bytes(path, "cut \xE2\x82");
  check_error([&] { read_lines(path); }, {"line 1", "byte 5"});
  const std::string packed = gzip("some text\n");
  write_bytes(path, packed.substr(0, packed.size() - 10));
  check_error([&] { read_lines(path); }, {path, "damaged gzip", "truncated"});
  std::string wrong = packed;
  wrong[18] ^= 1;  // a byte of the text, which the checksum covers
  write_bytes(path, wrong);
  check_error([&] { read_lines(path); }, {path, "damaged gzip"});
  check_error([&] { read_lines(folder / "none"); }, {"none", "No such file"});
  check_error([&] { read_lines(folder.path.string()); }, {"is not a file"});
}

TEST_CASE("parallel text goes line by line, and says which file ends early") {
  const Folder folder;
  const std::string one = folder / "one", two = folder / "two";
  write_bytes(one, "a\nb\n"), write_bytes(two, "x\ny\n");
  const auto pairs = read_parallel_text(one, two);
  CHECK(pairs.size() == 2);
  CHECK(pairs[1].source == "b");
  CHECK(pairs[1].target == "y");
  write_bytes(two, "x\ny\nz\n");
  check_error([&] { read_parallel_text(one, two); }, {one + " ends after line 2", two + " has a line 3"});
  check_error([&] { read_parallel_text(two, one); }, {one + " ends after line 2", two + " has a line 3"});
  const auto classes = read_classes({one, two});
  CHECK(classes.size() == 5);
  CHECK(classes[1].text == "b");
  CHECK(classes[1].label == 0);
  CHECK(classes[4].text == "z");
  CHECK(classes[4].label == 1);
  check_error([] { read_classes({}); }, {"read_classes: there are no files, wanted one for each class"});
}

TEST_CASE("IDX files of each type, plain and gzip") {
  const Folder folder;
  const std::string path = folder / "idx";
  const std::string bytes = idx(0x08, {2, 3}, "\x00\x01\x02\x03\x04\xFF"s);
  for (const std::string& file : {bytes, gzip(bytes)}) {
    write_bytes(path, file);
    const Tensor x = read_idx(path);
    CHECK(x.dtype() == DType::uint8);
    CHECK(x.shape() == Shape{2, 3});
    CHECK(x.values() == std::vector<double>{0, 1, 2, 3, 4, 255});
  }
  write_bytes(path, idx(0x0C, {2}, "\xFF\xFF\xFF\xFE\x00\x00\x01\x02"s));
  CHECK(read_idx(path).values() == std::vector<double>{-2, 258});
  write_bytes(path, idx(0x0D, {1}, "\x3F\xC0\x00\x00"s));
  CHECK(read_idx(path).item() == 1.5);
  write_bytes(path, idx(0x0E, {1}, "\xC0\x04\x00\x00\x00\x00\x00\x00"s));
  CHECK(read_idx(path).item() == -2.5);
  write_bytes(path, idx(0x08, {0, 28, 28}, ""));
  CHECK(read_idx(path).shape() == Shape{0, 28, 28});
}

TEST_CASE("the bytes of a plain IDX file stay in the file") {
  const Folder folder;
  const std::string path = folder / "idx", bytes = idx(0x08, {1000, 1000}, std::string(1000000, 'a'));
  write_bytes(path, bytes);
  Tensor x;
  CHECK(memory_use([&] { x = read_idx(path); }).peak < 100000);
  CHECK(x.values() == std::vector<double>(1000000, 'a'));
  x.data<uint8_t>()[0] = 'b';
  CHECK(bytes_of_file(path) == bytes);
  write_bytes(path, gzip(bytes));
  CHECK(memory_use([&] { x = read_idx(path); }).peak >= 1000000);
}

TEST_CASE("damaged IDX files are errors that say what is wrong") {
  const Folder folder;
  const std::string path = folder / "idx";
  const std::string whole = idx(0x08, {2, 3}, "abcdef");
  const auto refuses = [&](const std::string& bytes, std::initializer_list<std::string_view> parts) {
    for (const std::string& file : {bytes, gzip(bytes)}) {
      write_bytes(path, file);
      check_error([&] { read_idx(path); }, parts);
    }
  };
  refuses("\x01" + whole.substr(1), {path, "not an IDX file", "01 00"});
  refuses(idx(0x0B, {3}, "abcdef"), {"type 0x0b"});
  refuses(whole.substr(0, 3), {"truncated", "magic"});
  refuses(whole.substr(0, 9), {"truncated", "sizes"});
  refuses(whole.substr(0, 17), {"truncated", "[2, 3]", "6 bytes", "5 are there"});
  refuses(whole + "g", {"goes on after the 6 bytes"});
  refuses(idx(0x08, std::vector<uint32_t>(9, 1), "a"), {"9 axes"});
  refuses(idx(0x08, {0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, "a"), {"product"});
  refuses(idx(0x08, {0, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, ""), {"product"});
  refuses(idx(0x08, {0xFFFFFFFF, 0x7FFFFFFF}, "a"), {"truncated", "1 are there"});
}

TEST_CASE("images from IDX files and from optdigits are values from 0 to 1 with labels") {
  const Folder folder;
  const std::string images = folder / "images", labels = folder / "labels";
  write_bytes(images, idx(0x08, {2, 1, 2}, "\x00\x33\x66\xFF"s)),
      write_bytes(labels, idx(0x08, {2}, "\x07\x09"s));
  const auto digits = read_idx_images(images, labels);
  CHECK(digits[0].image.shape() == Shape{1, 2});
  const Batch batch = image_batch(std::vector{digits[0], digits[1]});
  CHECK(batch.tensors[0].shape() == Shape{2, 1, 2});
  CHECK(batch.tensors[0].values() == std::vector<double>{0, 0.2f, 0.4f, 1});
  CHECK(batch.tensors[1].values() == std::vector<double>{7, 9});
  CHECK(batch.tokens == 2);
  check_error([&] { read_idx_images(images, labels, 9); }, {labels, "label 1 is 9", "below 9"});
  check_error([&] { read_idx_images(labels, images); }, {"uint8[N, H, W]"});
  write_bytes(labels, idx(0x08, {1}, "\x07"s));
  check_error([&] { read_idx_images(images, labels); }, {"2 images", "1 labels"});
  check_error([&] { image_batch({}); }, {"no images"});
  check_error(
      [&] {
        image_batch(std::vector<LabelledImage>{{zeros({2, 2}), 0}, {zeros({2, 3}), 0}});
      },
      {"image 1", "[2, 3]", "[2, 2]"});

  const std::string path = folder / "digits";
  std::string line;
  for (int i = 0; i < 64; ++i) line += std::to_string(i % 17) + ",";
  write_bytes(path, line + "8\n" + line + "0\n");
  const auto small = read_optdigits(path);
  CHECK(small.size() == 2);
  CHECK(small[0].label == 8);
  CHECK(small[1].image.values()[16] == 1);
  const auto refuses = [&](const std::string& bytes, std::initializer_list<std::string_view> parts) {
    write_bytes(path, bytes);
    check_error([&] { read_optdigits(path); }, parts);
  };
  refuses(line + "8\n" + line + "10\n", {path, "line 2", "number 65"});
  refuses("17" + line, {"line 1", "number 1"});
  refuses("1,2,three\n", {"line 1", "number 3"});
  refuses("1,2\n", {"line 1", "2 numbers"});
  refuses(line + "8,1\n", {"line 1", "number 66"});
  refuses("1 2", {"comma after number 1"});
  refuses("", {"empty"});
}

TEST_CASE("WAV files of each plain encoding give samples from -1 to 1") {
  const Folder folder;
  const std::string path = folder / "wav";
  write_bytes(path, wav({.bits = 16, .data = "\x00\x80\x00\x40\xFF\x7F"s}));
  CHECK(read_wav(path, 8000).values() == std::vector<double>{-1, 0.5, 32767.0 / 32768});
  write_bytes(path, wav({.bits = 8, .data = "\x00\x80\xC0"s}));
  CHECK(read_wav(path, 8000).values() == std::vector<double>{-1, 0, 0.5});
  write_bytes(path, wav({.bits = 24, .data = "\x00\x00\x40\x00\x00\x80"s}));
  CHECK(read_wav(path, 8000).values() == std::vector<double>{0.5, -1});
  write_bytes(path, wav({.rate = 16000, .bits = 32, .format = 3, .data = "\x00\x00\xC0\x3F"s}));
  CHECK(read_wav(path, 16000).values() == std::vector<double>{1.5});
}

TEST_CASE("damaged and other WAV files are errors that say what is wrong") {
  const Folder folder;
  const std::string path = folder / "wav";
  const auto refuses = [&](const std::string& bytes, std::initializer_list<std::string_view> parts) {
    write_bytes(path, bytes);
    check_error([&] { read_wav(path, 8000); }, parts);
  };
  const std::string data = "\x00\x80\x00\x40\xFF\x7F"s, whole = wav({.data = data});
  refuses(wav({.channels = 2, .data = data.substr(0, 4)}), {path, "2 channels, wanted 1"});
  refuses(wav({.rate = 44100, .data = data}), {"44100", "wanted 8000"});
  refuses(wav({.data = ""}), {"no samples"});
  refuses(wav({.bits = 8, .format = 7, .data = data}), {"compressed"});  // mu-law
  refuses(wav({.bits = 32, .format = 3, .data = "\x00\x00\xC0\x7F"s}), {"sample 0 is nan"});
  refuses(whole.substr(0, whole.size() - 1), {fmt::format("{} bytes", whole.size() - 1)});
  refuses(whole + "more", {"its header says"});
  refuses("RIFX" + whole.substr(4), {"not a WAV file"});
  refuses(whole.substr(0, 8), {"no WAV header"});
  std::string chunk = whole;
  chunk[40] = 100;  // the size of the data
  refuses(chunk, {"chunk of 100 bytes", "6 are left"});
  std::string name = whole;
  name[36] = 'D';
  refuses(name, {"no chunk `data`"});
}

TEST_CASE("JSON lines give fields of each type, and name file, line and field") {
  const Folder folder;
  const std::string path = folder / "lines.json";
  const std::string text =
      R"({"text": "a\u00e9", "label": 3, "score": 0.5, "good": true, "words": ["a", "b"], "ids": [1, -2]})"
      "\n{\"label\": \"three\", \"large\": 18446744073709551615, \"ids\": [1, 2.5], \"words\": [\"a\", 1]}\n";
  for (const std::string& bytes : {text, gzip(text)}) {
    write_bytes(path, bytes);
    const auto records = read_json_lines(path);
    CHECK(records.size() == 2);
    const JsonRecord first = records[0], second = records[1];
    CHECK(first.text("text") == "a\u00e9");
    CHECK(first.whole("label") == 3);
    CHECK(first.number("label") == 3);
    CHECK(first.number("score") == 0.5);
    CHECK(first.truth("good"));
    CHECK(first.has("good"));
    CHECK(!second.has("good"));
    CHECK(first.texts("words") == std::vector<std::string>{"a", "b"});
    CHECK(first.wholes("ids") == std::vector<int64_t>{1, -2});
    check_error([&] { first.whole("score"); }, {path, "line 1", "\"score\"", "whole number"});
    check_error([&] { first.text("label"); }, {"line 1", "\"label\"", "number", "a text"});
    check_error([&] { first.truth("label"); }, {"true or false"});
    check_error([&] { first.texts("text"); }, {"\"text\"", "string", "list of texts"});
    check_error([&] { second.number("label"); }, {"line 2", "\"label\"", "string", "a number"});
    check_error([&] { second.whole("large"); }, {"18446744073709551615", "below 2^63"});
    check_error([&] { second.wholes("ids"); }, {"list of whole numbers"});
    check_error([&] { second.texts("words"); }, {"list of texts"});
    check_error([&] { second.text("none"); }, {path, "line 2", "no field \"none\""});
  }
  write_bytes(path, "{}\n[1]\n{\"a\": }\n\n{\"a\": 1e999}\n");
  const auto records = read_json_lines(path);
  check_error([&] { records[1]; }, {path, "line 2", "array", "an object"});
  check_error([&] { records[2]; }, {path, "line 3, byte 7"});
  check_error([&] { records[3]; }, {path, "line 4"});
  check_error([&] { records[4]; }, {path, "line 5"});
  write_bytes(path, std::string(100000, '['));  // deep, and no stack overflow
  check_error([&] { read_json_lines(path)[0]; }, {"line 1"});
}

TEST_CASE("files are listed in the order of their bytes, and folders are classes") {
  const Folder folder;
  for (const char* name : {"b", "a", "empty"}) std::filesystem::create_directory(folder / name);
  for (const char* name :
       {"a/2.png", "a/10.png", "a/B.png", "b/x.png", "b/.hidden.png", "b/note.txt", "readme.png"})
    write_bytes(folder / name, "x");
  CHECK(sorted_files(folder / "a", ".png") ==
        std::vector<std::string>{folder / "a/10.png", folder / "a/2.png", folder / "a/B.png"});
  check_error([&] { read_class_folders(folder.path.string(), ".png"); }, {"empty", "no file", ".png"});
  std::filesystem::remove(folder / "empty");
  const ClassFolders found = read_class_folders(folder.path.string(), ".png");
  CHECK(found.classes == std::vector<std::string>{"a", "b"});
  CHECK(found.files.size() == 4);
  CHECK(found.files[3].path == folder / "b/x.png");
  CHECK(found.files[3].label == 1);
  CHECK(found.files[2].label == 0);
  check_error([&] { read_class_folders(folder / "a"); }, {"no folders"});
  check_error([&] { sorted_files(folder / "none"); }, {"none", "No such file"});
}

TEST_CASE("rows of different lengths are padded, and their lengths are given") {
  const std::vector<std::vector<int64_t>> ids = {{1, 2, 3}, {}, {4}};
  const Padded padded = pad_ids(ids, -100);
  CHECK(padded.values.shape() == Shape{3, 3});
  CHECK(padded.values.values() == std::vector<double>{1, 2, 3, -100, -100, -100, 4, -100, -100});
  CHECK(padded.lengths.values() == std::vector<double>{3, 0, 1});
  const Padded frames = pad_frames(std::vector{ones({1, 2}), full({2, 2}, 3)});
  CHECK(frames.values.shape() == Shape{2, 2, 2});
  CHECK(frames.values.values() == std::vector<double>{1, 1, 0, 0, 3, 3, 3, 3});
  CHECK(frames.lengths.values() == std::vector<double>{1, 2});
  check_error([] { pad_ids({}, 0); }, {"no rows"});
  check_error([] { pad_frames(std::vector{ones({1, 2}), ones({1, 3})}); }, {"row 1", "[1, 3]"});
  check_error([] { pad_frames(std::vector{ones({1, 2}), ones({4})}); }, {"row 1", "[4]"});
}

TEST_CASE("shifted copies of images follow the images, and keep their labels") {
  const Tensor image = tensor({1, 2, 3, 4, 5, 6}, {2, 3});
  const auto all = with_shifts(Dataset<LabelledImage>({{image, 7}}));
  const std::vector<std::vector<double>> expected = {
      {1, 2, 3, 4, 5, 6}, {4, 5, 6, 0, 0, 0}, {0, 0, 0, 1, 2, 3}, {2, 3, 0, 5, 6, 0}, {0, 1, 2, 0, 4, 5}};
  REQUIRE(all.size() == 5);
  for (int64_t i = 0; i < 5; ++i) {
    CHECK(all[i].image.values() == expected[static_cast<size_t>(i)]);
    CHECK(all[i].image.shape() == Shape{2, 3});
    CHECK(all[i].label == 7);
  }
}
