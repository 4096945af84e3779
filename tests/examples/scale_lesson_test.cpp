// The lesson on the scale of attention.
#include "tests/examples/lesson.h"

TEST_CASE("the lesson on the scale of attention prints the tables of docs/scale.md") {
  vitrine::test::check_lesson(VITRINE_SCALE_LESSON, "docs/scale.md", 3 + 6 + 8 + 5);
}
