#include "nn/data/synthetic/headlines.h"

#include <array>

namespace vitrine::nn::synthetic {
namespace {

constexpr std::array kSyllables = {"ba", "del", "fi",  "gor", "ki", "lan", "mu", "nor",
                                   "pe", "rad", "sel", "tu",  "vo", "wen", "xi", "zar"};
constexpr std::array kOffices = {"mayor", "governor", "owner", "director"};
constexpr std::array kBuildings = {"library", "bridge", "school", "hospital", "stadium", "museum", "harbour"};
constexpr std::array kExtras = {"after a long wait", "in heavy rain", "before a large crowd",
                                "in spite of the costs"};
struct Event {
  const char *past, *present;
};
constexpr std::array kEvents = {Event{"opened", "opens"}, Event{"closed", "closes"},
                                Event{"visited", "visits"}, Event{"praised", "praises"},
                                Event{"sold", "sells"}};

std::string name(Part part, Generator& random) {
  const auto draw = [](Generator& r) {
    std::string result;
    for (int64_t i = 2 + r.next_below(2); i > 0; --i) result += pick(r, kSyllables);
    return result;
  };
  return draw_in(part, random, draw, [](const std::string& result) { return result; });
}

Headline draw_headline(Part part, Generator& random) {
  const std::string first = name(part, random), last = name(part, random), town = name(part, random);
  const std::string thing = pick(random, kBuildings), day = pick(random, kDays),
                    extra = pick(random, kExtras);
  const Event verb = pick(random, kEvents);
  const std::string office = pick(random, kOffices);
  const std::string articles[] = {fmt::format("on {} , the {} of {} , {} {} , {} the {} {} .", day, office,
                                              town, first, last, verb.past, thing, extra),
                                  fmt::format("the {} of {} was {} by {} {} , the {} , on {} .", thing, town,
                                              verb.past, first, last, office, day),
                                  fmt::format("{} , {} {} {} the {} . it is the only {} of {} .", extra,
                                              first, last, verb.past, thing, thing, town)};
  return {words_of(pick(random, articles)),
          words_of(fmt::format("{} {} {} {} in {}", first, last, verb.present, thing, town))};
}

}  // namespace

Dataset<Headline> headlines(Part part, int64_t size, uint64_t seed) {
  return drawn<Headline>(size, seed, [part](Generator& random) { return draw_headline(part, random); });
}

}  // namespace vitrine::nn::synthetic
