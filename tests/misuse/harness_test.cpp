// The harness of this folder: it notices a mistake without an error, and a mistake that changes
// something.
#include "core/creation.h"
#include "core/random.h"
#include "ops/elementwise.h"
#include "tests/misuse/misuse.h"

using namespace vitrine;
using namespace vitrine::test;

namespace {

struct Vector : Scene {
  Tensor x = tensor({1, 2});
  std::string state() const override { return show(x); }
};

void tell() { fail("x is 1, wanted 2"); }

/// What is found when `wrong` is a mistake whose message wants the words "x is 1" and `word`.
std::string found(const std::function<void(Vector&)>& wrong, const char* word = "wanted 2") {
  Vector scene;
  const Misuse m = {"a mistake", [&] { wrong(scene); }, {"x is 1", word}, [&] { return scene.x * 2; }};
  Vector untouched;
  return problem_of(scene, m, show(untouched.x * 2));
}

bool holds(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE(
    "a mistake that is told and does no harm passes; silence, other words and other exceptions do not") {
  CHECK(found([](Vector&) { tell(); }).empty());
  CHECK(holds(found([](Vector&) { tell(); }, "wanted 3"), "lacks \"wanted 3\""));
  CHECK(found([](Vector&) {}) == "no error was thrown");
  CHECK(holds(found([](Vector&) { throw std::runtime_error("other"); }), "no Error was thrown but: other"));
}

TEST_CASE(
    "harm is noticed: to values, versions, gradients, the generator, and memory that is not given back") {
  Tensor kept;
  const std::function<void(Vector&)> harms[] = {
      [](Vector& s) { s.x.data<float>()[0] = 3; },
      [](Vector& s) { s.x.storage().written_by("nobody"); },
      [](Vector& s) {
        s.x.requires_grad().set_grad(tensor({0, 0}));
      },
      [](Vector&) { default_generator().next_uniform(); },
      [&](Vector& s) { kept = s.x + 1; },
  };
  for (const auto& harm : harms)
    CHECK(holds(found([&](Vector& s) {
                  harm(s);
                  tell();
                }),
                "the state differs"));
}

TEST_CASE("a correct call that gives something else after the mistake is noticed") {
  Vector scene;
  CHECK(holds(problem_of(scene, {"", tell, {}, [&] { return scene.x; }}, "something else"),
              "the correct call differs"));
}

TEST_CASE("a child hands its error over") {
  CHECK(problem_with_message([] { in_poor_child(tell); }, {"wanted 2"}).empty());
  CHECK_NOTHROW(in_poor_child([] {}));
}
