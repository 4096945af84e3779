// The lesson on LASER.
#include "tests/examples/lesson.h"

TEST_CASE("the lesson on LASER prints the tables of docs/laser.md") {
  vitrine::test::check_lesson(VITRINE_LASER_LESSON, "docs/laser.md", 7 + 5 + 4 + 3);
}
