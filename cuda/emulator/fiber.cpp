#include "cuda/emulator/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#define VITRINE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define VITRINE_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define VITRINE_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define VITRINE_TSAN 1
#endif
#endif
#if VITRINE_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if VITRINE_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace vitrine::emulator {

#if defined(__x86_64__)
// void vitrine_switch_stack(void** save, void* load): keeps the registers that a function must keep
// on the stack that is left, and takes them from the other.
asm(R"(
.text
.p2align 4
.type vitrine_switch_stack, @function
vitrine_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size vitrine_switch_stack, .-vitrine_switch_stack
)");
extern "C" void vitrine_switch_stack(void** save, void* load);
#endif

namespace {

constexpr size_t kStack = 256 << 10;  // of which only pages that are touched take memory
// Below it, and a multiple of any page: whoever goes on there is stopped
constexpr size_t kGuard = 64 << 10;

}  // namespace

struct Fiber::Context {
  std::function<void()> function;
  bool running = false;  // the function has begun and not returned
  char* stack = nullptr;
#if defined(__x86_64__)
  void *inside = nullptr, *outside = nullptr;
#else
  ucontext_t inside, outside;
#endif
#if VITRINE_ASAN
  const void* outer_stack = nullptr;
  size_t outer_size = 0;
#endif
#if VITRINE_TSAN
  void *fiber = nullptr, *outer = nullptr;
#endif

  void switch_in() {
#if VITRINE_TSAN
    outer = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(fiber, 0);
#endif
#if VITRINE_ASAN
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, stack, kStack);
#endif
#if defined(__x86_64__)
    vitrine_switch_stack(&outside, inside);
#else
    swapcontext(&outside, &inside);
#endif
#if VITRINE_ASAN
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
  }

  void switch_out() {
#if VITRINE_TSAN
    __tsan_switch_to_fiber(outer, 0);
#endif
#if VITRINE_ASAN
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, outer_stack, outer_size);
#endif
#if defined(__x86_64__)
    vitrine_switch_stack(&inside, outside);
#else
    swapcontext(&inside, &outside);
#endif
#if VITRINE_ASAN
    __sanitizer_finish_switch_fiber(fake, &outer_stack, &outer_size);
#endif
  }
};

void Fiber::enter(Context* c) {
#if VITRINE_ASAN
  __sanitizer_finish_switch_fiber(nullptr, &c->outer_stack, &c->outer_size);
#endif
  for (;;) {  // one function after the other
    c->function();
    c->running = false;
    c->switch_out();
  }
}

namespace {

#if defined(__x86_64__)
thread_local void* entering = nullptr;
#endif

}  // namespace

Fiber::Fiber() : context_(std::make_unique<Context>()) {
  Context& c = *context_;
  void* const pages =
      mmap(nullptr, kGuard + kStack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) throw std::bad_alloc();
  c.stack = static_cast<char*>(pages) + kGuard;
  if (mprotect(c.stack, kStack, PROT_READ | PROT_WRITE) != 0) {
    munmap(pages, kGuard + kStack);
    throw std::bad_alloc();
  }
#if defined(__x86_64__)
  // As if `first` had been called with this stack: six registers, its address, and an aligned end.
  void (*first)() = [] { enter(static_cast<Context*>(entering)); };
  auto** top = reinterpret_cast<void**>(c.stack + kStack);
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(first);
  for (int i = 0; i < 6; ++i) *--top = nullptr;
  c.inside = top;
#else
  getcontext(&c.inside);
  c.inside.uc_stack.ss_sp = c.stack;
  c.inside.uc_stack.ss_size = kStack;
  const auto address = reinterpret_cast<uintptr_t>(&c);
  makecontext(&c.inside, reinterpret_cast<void (*)()>(+[](uint32_t high, uint32_t low) {
    enter(reinterpret_cast<Context*>((static_cast<uintptr_t>(high) << 32) | low));
  }),
              2, static_cast<uint32_t>(address >> 32), static_cast<uint32_t>(address));
#endif
#if VITRINE_TSAN
  c.fiber = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
#if VITRINE_ASAN
  __asan_unpoison_memory_region(context_->stack, kStack);  // of a function that never returned
#endif
#if VITRINE_TSAN
  __tsan_destroy_fiber(context_->fiber);
#endif
  munmap(context_->stack - kGuard, kGuard + kStack);
}

void Fiber::start(std::function<void()> function) {
  context_->function = std::move(function);
  context_->running = true;
}

bool Fiber::resume() {
#if defined(__x86_64__)
  entering = context_.get();
#endif
  context_->switch_in();
  return context_->running;
}

void Fiber::yield() { context_->switch_out(); }

bool Fiber::has_on_stack(const void* address) const {
  return static_cast<size_t>(static_cast<const char*>(address) - context_->stack) < kStack;
}

}  // namespace vitrine::emulator
