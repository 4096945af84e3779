#include "nn/data/synthetic/preferences.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <set>

namespace vitrine::nn::synthetic {
namespace {

constexpr std::array kGuests = {"ada", "ben", "cleo", "dora", "emil", "fritz", "greta", "hugo"};
constexpr std::array kWares = {"tea", "bread", "cake", "soup", "milk", "rice", "fruit", "cheese"};

bool coin(Generator& random) { return random.next_below(2) == 1; }

double probability(double logit) { return 1 / (1 + std::exp(-logit)); }

/// A thing that is none of `others`.
std::string other_thing(Generator& random, const std::set<std::string>& others) {
  std::string thing;
  do thing = pick(random, kWares);
  while (others.contains(thing));
  return thing;
}

struct Order {
  std::string guest, first, second;

  std::string prompt() const { return fmt::format("{} asks for {} and {} :", guest, first, second); }
};

Order draw_order(Generator& random) {
  Order order{pick(random, kGuests), pick(random, kWares), {}};
  order.second = other_thing(random, {order.first});
  return order;
}

std::string draw_answer(Generator& random, const Order& order) {
  const std::string greeting = coin(random) ? fmt::format("hello {} ", order.guest) : "";
  std::set<std::string> others = {order.first, order.second};
  const auto served = [&](const std::string& asked) {
    return coin(random) ? asked : *others.insert(other_thing(random, others)).first;
  };
  const std::string first = served(order.first), second = served(order.second);
  return fmt::format("{}here is {} and {}{} .", greeting, first, second, coin(random) ? " enjoy" : "");
}

Order order_of(const std::string& prompt) {
  const auto words = words_of(prompt);
  check(words.size() == 7 && Order{words[0], words[3], words[5]}.prompt() == prompt,
        "true_reward: the prompt is \"{}\", wanted \"NAME asks for THING and THING :\"", prompt);
  return {words[0], words[3], words[5]};
}

}  // namespace

Dataset<Demonstration> demonstrations(Part part, int64_t size, uint64_t seed) {
  return drawn<Demonstration>(
      part, size, seed,
      [](Generator& random) {
        const Order order = draw_order(random);
        return Demonstration{order.prompt(), draw_answer(random, order)};
      },
      [](const Demonstration& item) { return item.prompt; });
}

Dataset<Preference> preferences(Part part, int64_t size, uint64_t seed) {
  return drawn<Preference>(
      part, size, seed,
      [](Generator& random) {
        const Order order = draw_order(random);
        Preference item{order.prompt(), draw_answer(random, order), draw_answer(random, order)};
        while (item.rejected == item.chosen) item.rejected = draw_answer(random, order);
        const double margin = true_reward(item.prompt, item.chosen) - true_reward(item.prompt, item.rejected);
        if (random.next_uniform() >= probability(margin)) std::swap(item.chosen, item.rejected);
        return item;
      },
      [](const Preference& item) { return item.prompt; });
}

double true_reward(const std::string& prompt, const std::string& answer) {
  const Order order = order_of(prompt);
  const auto words = words_of(answer);
  double reward = words.size() >= 2 && words[0] == "hello" && words[1] == order.guest ? 1 : 0;
  std::set<std::string> seen;
  for (const std::string& word : words) {
    if (!seen.insert(word).second) {
      --reward;
    } else if (word == "enjoy" || word == order.first || word == order.second) {
      ++reward;
    } else if (std::ranges::find(kWares, word) != kWares.end()) {
      --reward;
    }
  }
  return reward;
}

BestPolicy best_policy(double beta) {
  check(beta > 0, "best_policy: beta is {}, wanted above 0", beta);
  const auto part = [](double p) { return p > 0 ? p * std::log(p) : 0; };
  BestPolicy best{-2, 0};  // two things that were not asked for
  for (const double worth : {1, 2, 2, 1}) {
    const double p = probability(worth / beta), q = probability(-worth / beta);
    best.reward += p * worth;
    best.divergence += std::numbers::ln2 + part(p) + part(q);
  }
  return best;
}

}  // namespace vitrine::nn::synthetic
