// Options that describe themselves: everything that the list of a structure defines.
#include "nn/options.h"

#include <doctest/doctest.h>

#include <cmath>

#include "nn/generation/sampling.h"
#include "nn/models/gpt.h"
#include "nn/training/schedule_options.h"
#include "nn/training/trainer.h"

using namespace vitrine;
using namespace vitrine::nn;

namespace {

struct Oven {
  int64_t trays = 2;
  double heat = 180;
  uint64_t id = 0;
  int slot = 0;
  std::string dish;
  bool fan = false, lit = true;
  Bias door = Bias::yes;
  Activation mode = Activation::relu;
  std::optional<double> grill;
  std::vector<int64_t> minutes;

  void list(OptionList& o) {
    o.group("Oven");
    o("trays", trays, "how many").at_least(1);
    o("heat", heat, "in degrees").above(0).at_most(300);
    o("id", id, "of the oven");
    o.group("Dish");
    o("dish", dish, "what is in it").also("meal").decides(Role::files);
    o("minutes", minutes, "of each phase");
    o.group("Oven");
    o("fan", fan, "hot air").decides(Role::execution);
    o.flag("dark", lit, false, "without light");
    o.flag("no-door", door, Bias::no, "open");
    o("slot", slot, "from below").below(5);
    o("mode", mode, "of heating").decides(Role::schedule);
    o("grill", grill, "share of the heat").at_least(0).below(1).by_default("none").unless([this] {
      return fan ? "with --fan there is none" : "";
    });
  }
};

void read(Oven& oven, const char* name, const std::vector<std::string>& texts) {
  OptionList list = options_of(oven);
  REQUIRE(list.find(name) != nullptr);
  list.find(name)->read(texts, std::string("--") + name);
}

}  // namespace

TEST_CASE("options are read from texts, by the type of their member") {
  Oven oven;
  read(oven, "trays", {"+7"});
  read(oven, "heat", {"1.5e2"});
  read(oven, "id", {"18446744073709551615"});
  read(oven, "slot", {"-3"});
  read(oven, "dish", {"a = \"b\""});
  read(oven, "fan", {"true"});
  read(oven, "dark", {"true"});
  read(oven, "no-door", {"true"});
  read(oven, "mode", {"swiglu"});
  read(oven, "grill", {"0.25"});
  read(oven, "minutes", {"5", "60"});
  CHECK(oven.trays == 7);
  CHECK(oven.heat == 150);
  CHECK(oven.id == UINT64_MAX);
  CHECK(oven.slot == -3);
  CHECK(oven.dish == "a = \"b\"");
  CHECK(oven.fan);
  CHECK(!oven.lit);
  CHECK(oven.door == Bias::no);
  CHECK(oven.mode == Activation::swiglu);
  CHECK(oven.grill.value() == 0.25);
  CHECK(oven.minutes == std::vector<int64_t>{5, 60});
  read(oven, "dark", {"false"});
  read(oven, "no-door", {"false"});
  CHECK(oven.lit);
  CHECK(oven.door == Bias::yes);
}

TEST_CASE("a value of another type or out of range is an error that says what was wanted and what came") {
  struct Mistake {
    const char* name;
    std::vector<std::string> texts;
    const char* error;
  };
  const Mistake mistakes[] = {
      {"trays", {"two"}, "--trays is two, wanted a whole number below 2^63, at least 1"},
      {"trays", {"2.5"}, "--trays is 2.5, wanted a whole number below 2^63, at least 1"},
      {"trays", {""}, "--trays is , wanted a whole number below 2^63, at least 1"},
      {"trays",
       {"99999999999999999999"},
       "--trays is 99999999999999999999, wanted a whole number below 2^63, at least 1"},
      {"trays", {"0"}, "--trays is 0, wanted at least 1"},
      {"id", {"-1"}, "--id is -1, wanted a whole number from 0 to 2^64 - 1"},
      {"slot", {"3000000000"}, "--slot is 3000000000, wanted a whole number below 2^31, below 5"},
      {"slot", {"5"}, "--slot is 5, wanted below 5"},
      {"heat", {"0"}, "--heat is 0, wanted (0, 300]"},
      {"heat", {"301"}, "--heat is 301, wanted (0, 300]"},
      {"heat", {"nan"}, "--heat is nan, wanted a finite number, (0, 300]"},
      {"heat", {"hot"}, "--heat is hot, wanted a finite number, (0, 300]"},
      {"grill", {"1"}, "--grill is 1, wanted [0, 1)"},
      {"fan", {"yes"}, "--fan is yes, wanted true or false"},
      {"mode",
       {"rleu"},
       "--mode is rleu, wanted relu, gelu, gelu_tanh, silu, swiglu, geglu or reglu; did you mean relu?"},
      {"minutes", {"5", "x"}, "--minutes is 5,x, wanted a whole number below 2^63"},
  };
  for (const Mistake& mistake : mistakes) {
    Oven oven;
    CHECK_THROWS_WITH_AS(read(oven, mistake.name, mistake.texts), mistake.error, Error);
  }
}

TEST_CASE("values are listed by what they decide, without those that do not apply or have none") {
  Oven oven;
  CHECK(option_values(oven, {Role::result}) == OptionValues{{"trays", "2"},
                                                            {"heat", "180"},
                                                            {"id", "0"},
                                                            {"dark", "false"},
                                                            {"no-door", "false"},
                                                            {"slot", "0"}});
  oven.grill = 0.5;
  oven.minutes = {5, 60};
  oven.door = Bias::no;
  CHECK(option_values(oven, {Role::result, Role::execution, Role::schedule}) ==
        OptionValues{{"trays", "2"},
                     {"heat", "180"},
                     {"id", "0"},
                     {"fan", "false"},
                     {"dark", "false"},
                     {"no-door", "true"},
                     {"slot", "0"},
                     {"mode", "relu"},
                     {"grill", "0.5"},
                     {"minutes", "5, 60"}});
  oven.fan = true;
  for (const auto& value : option_values(oven, {Role::result})) CHECK(value.first != "grill");
}

TEST_CASE("an option that is given and does not apply is an error, also in the list of a copy") {
  Oven oven;
  OptionList list = options_of(oven);
  list.find("grill")->read({"0.5"}, "--grill");
  list.check_given();
  list.find("fan")->read({"true"}, "--fan");
  CHECK_THROWS_WITH_AS(list.check_given(), "--grill: with --fan there is none", Error);

  Oven copy;
  OptionList other = options_of(copy, list);
  other.check_given();
  CHECK(other.find("grill")->given == "--grill");
  CHECK(other.find("heat")->given.empty());
  other.find("fan")->read({"true"}, "--fan");
  CHECK_THROWS_WITH_AS(other.check_given(), "--grill: with --fan there is none", Error);
}

TEST_CASE("an option that is listed twice, or is to be removed and not there, is an error") {
  Oven oven;
  OptionList list = options_of(oven);
  CHECK_THROWS_WITH_AS(list("trays", oven.slot, "again"), "OptionList: trays is listed twice", Error);
  CHECK_THROWS_WITH_AS(list.remove("wheels"), "OptionList: there is no option wheels", Error);
  list.remove("id");
  CHECK(list.find("id") == nullptr);
}

TEST_CASE("an option is found by its alias, and has one name in files") {
  Oven oven;
  OptionList list = options_of(oven);
  CHECK(list.find("meal") == list.find("dish"));
  CHECK(list.find("") == nullptr);
  CHECK(did_you_mean("mael", list.names()) == "; did you mean meal?");
  list.find("meal")->read({"pie"}, "--meal");
  CHECK(option_values(oven, {Role::files}) == OptionValues{{"dish", "pie"}});
}

TEST_CASE("values in code are checked by the same list") {
  Oven oven;
  check_options(oven, "bake");
  oven.trays = 0;
  CHECK_THROWS_WITH_AS(check_options(oven, "bake"), "bake: trays is 0, wanted at least 1", Error);
  oven = Oven{};
  oven.heat = NAN;
  CHECK_THROWS_WITH_AS(check_options(oven, "bake"), "bake: heat is nan, wanted (0, 300]", Error);
  oven = Oven{};
  oven.grill = 2;
  CHECK_THROWS_WITH_AS(check_options(oven, "bake"), "bake: grill is 2, wanted [0, 1)", Error);
  oven.fan = true;  // without a grill, its value cannot be wrong
  check_options(oven, "bake");
}

/// Writes the options of a structure as text and reads the text into another structure: every
/// option that applies has the same value.
template <class S>
void check_round_trip(S from) {
  const std::initializer_list<Role> all = {Role::result, Role::schedule, Role::execution, Role::files};
  S to;
  OptionList list = options_of(to);
  for (const auto& value : option_values(from, all))
    list.find(value.first)->read({value.second}, value.first);
  list.check_given();
  CHECK(option_values(to, all) == option_values(from, all));
}

TEST_CASE("what the library's structures list comes back from its texts") {
  check_round_trip(GptOptions{.vocabulary = 7,
                              .context = 16,
                              .width = 24,
                              .layers = 2,
                              .heads = 3,
                              .key_heads = 1,
                              .hidden = 5,
                              .dropout = 0.1,
                              .mixer = "laser+rotary=theta=500000",
                              .activation = Activation::swiglu,
                              .norm = NormKind::rms,
                              .residual = Residual::post,
                              .bias = Bias::no,
                              .positions = Positions::sinusoidal,
                              .recompute_blocks = true});
  for (const char* optimizer : {"adamw", "sgd", "rmsprop", "lion"}) {
    training::TrainingOptions o;
    o.optimizer = optimizer;
    o.beta1 = 1.0 / 3;
    o.momentum = 0.7;
    o.clip = 1e-310;  // denormal
    o.checkpoint = "some where";
    check_round_trip(o);
  }
  for (const char* schedule : {"constant", "cosine", "noam"}) {
    training::ScheduleOptions o;
    o.name = schedule;
    o.lr = 0.1;
    check_round_trip(o);
    check_round_trip(o.resolved(50));
  }
  check_round_trip(SamplingOptions{.temperature = 0.1, .top_k = 3, .top_p = 0.5, .seed = UINT64_MAX});
}
