#include "core/memory/arena.h"

#include <algorithm>

namespace vitrine::memory {

void* Arena::take(size_t bytes) {
  MemoryBlock key{nullptr, bytes, true, false, nullptr, nullptr};
  const auto found = free_.lower_bound(&key);
  MemoryBlock* const block = found == free_.end() ? grow(bytes) : *found;
  if (block == nullptr) return nullptr;
  free_.erase(block);
  if (block->size >= bytes + source_.alignment) split(block, bytes);
  block->free = false;
  live_.emplace(block->data, block);
  return block->data;
}

bool Arena::give(void* data) {
  const auto found = live_.find(data);
  if (found == live_.end()) return false;
  MemoryBlock* block = found->second;
  live_.erase(found);
  block->free = true;
  if (MemoryBlock* const next = block->next; next && next->free && !next->heads_segment) {
    free_.erase(next);
    join(block, next);
  }
  if (MemoryBlock* const previous = block->previous; previous && previous->free && !block->heads_segment) {
    free_.erase(previous);
    join(previous, block);
    block = previous;
  }
  free_.insert(block);
  return true;
}

void Arena::release_cached() {
  for (auto it = free_.begin(); it != free_.end();) {
    MemoryBlock* const block = *it;
    const bool whole = block->heads_segment && (!block->next || block->next->heads_segment);
    if (!whole) {
      ++it;
      continue;
    }
    it = free_.erase(it);
    reserved_ -= block->size;
    source_.give(block->data, block->size);
    unlink(block);
  }
}

Arena::MemoryBlock* Arena::grow(size_t bytes) {
  const size_t wanted = std::max(bytes, source_.segment);
  const size_t size = (wanted + source_.granularity - 1) / source_.granularity * source_.granularity;
  void* const data = source_.take(size);
  if (data == nullptr) return nullptr;
  reserved_ += size;
  auto* const block = new MemoryBlock{static_cast<char*>(data), size, true, true, nullptr, head_};
  if (head_) head_->previous = block;
  head_ = block;
  free_.insert(block);
  return block;
}

void Arena::split(MemoryBlock* block, size_t bytes) {
  auto* const rest =
      new MemoryBlock{block->data + bytes, block->size - bytes, true, false, block, block->next};
  if (block->next) block->next->previous = rest;
  block->next = rest;
  block->size = bytes;
  free_.insert(rest);
}

void Arena::join(MemoryBlock* left, MemoryBlock* right) {
  left->size += right->size;
  unlink(right);
}

void Arena::unlink(MemoryBlock* block) {
  if (block->previous) block->previous->next = block->next;
  if (block->next) block->next->previous = block->previous;
  if (head_ == block) head_ = block->next;
  delete block;
}

}  // namespace vitrine::memory
