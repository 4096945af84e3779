// A record as a file: all of it comes back, so that its report is the same.
#include "nn/report/record_file.h"

#include <doctest/doctest.h>

#include <cmath>

#include "nn/report/report.h"
#include "tests/folder.h"
#include "tests/nn/report/whole_record.h"
#include "tests/ops/reference.h"

using namespace vitrine;
using namespace vitrine::nn::report;

TEST_CASE("a record comes back from its file, and gives the same report") {
  const test::Folder folder;
  const RunRecord record = test::whole_record();
  write_record(folder / "record.json", record);
  const RunRecord read = read_record(folder / "record.json");
  CHECK(render_report("t", {read}) == render_report("t", {record}));
  CHECK(render_report("t", {read, record}) == render_report("t", {record, record}));
  CHECK(read.flops.y == record.flops.y);
  CHECK(read.seed == "2");
  CHECK(std::isnan(read.train_loss.y[1]));
  CHECK(read.maps.size() == record.maps.size());
  CHECK(read.weights.total() == record.weights.total());
}

TEST_CASE("a file that is no record is an error that names it") {
  const test::Folder folder;
  const auto error = [&] { return test::error_of([&] { read_record(folder / "x"); }); };
  CHECK(error().find("read_record: cannot open ") == 0);
  for (const char* text : {"", "{}", "[1]", "{\"name\": 3}"}) {
    test::write_bytes(folder / "x", text);
    CHECK_MESSAGE(error().find("x is no record of a run: ") != std::string::npos, error());
  }
}

TEST_CASE("whole numbers of a record that are fractions or too large are errors") {
  const test::Folder folder;
  const std::string path = folder / "x";
  write_record(path, test::whole_record());
  const std::string whole = test::bytes_of_file(path), count = "\"parameters\":1000", layer = "\"layer\":1,";
  const auto error = [&](const std::string& of, const std::string& with) {
    std::string text = whole;
    test::write_bytes(path, text.replace(text.find(of), of.size(), with));
    return test::error_of([&] { read_record(path); });
  };
  CHECK(error(count, "\"parameters\":9223372036854775807").empty());
  for (const char* number : {"1e300", "1.5", "9223372036854775808", "-9223372036854775809"})
    CHECK_MESSAGE(error(count, std::string("\"parameters\":") + number).find("whole number below 2^63") !=
                      std::string::npos,
                  number);
  CHECK(error(layer, "\"layer\":2147483648,").find("whole number below 2^31") != std::string::npos);
  CHECK(error("\"maps\":[", "\"maps\":null,\"other\":[").find("null is no list") != std::string::npos);
  CHECK(error("\"counts\":[", "\"counts\":[0,").find("elements, wanted ") != std::string::npos);
}

TEST_CASE("a report shows the cost of training next to the loss") {
  RunRecord a, b;
  a.name = "a", b.name = "b";
  a.words.loss_unit = b.words.loss_unit = "nats";
  a.train_loss = b.train_loss = {"", {1, 2}, {3, 2}};
  a.flops = {"", {1, 2}, {1e12, 5e11}};
  b.flops = {"", {1, 2}, {2e9, 2e9}};
  const std::string alone = render_report("t", {a}), both = render_report("t", {a, b});
  CHECK(alone.find("<b>1.5 TFLOPs</b><span>training cost</span>") != alone.npos);
  for (const char* part :
       {"training cost</th><td>1.5 TFLOPs</td><td>4 GFLOPs</td>", "<h3>Loss over cost</h3>"})
    CHECK_MESSAGE(both.find(part) != both.npos, part);
  a.flops = b.flops = {};
  CHECK(render_report("t", {a, b}).find("Loss over cost") == std::string::npos);
}
