#include "core/memory/arena.h"

#include <algorithm>
#include <cstdint>
#include <vector>

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

bool Arena::is_whole_segment(const MemoryBlock* block) const {
  return block->heads_segment && (!block->next || block->next->heads_segment);
}

void Arena::release_cached() {
  const std::vector<MemoryBlock*> blocks(free_.begin(), free_.end());
  for (MemoryBlock* const block : blocks) {
    if (source_.page == 0) {
      if (is_whole_segment(block)) give_back(block, block->data, block->data + block->size);
      continue;
    }
    const auto data = reinterpret_cast<uintptr_t>(block->data);
    const size_t before = (source_.page - data % source_.page) % source_.page,
                 after = (data + block->size) % source_.page;
    if (block->size > before + after)
      give_back(block, block->data + before, block->data + block->size - after);
  }
}

void Arena::give_back(MemoryBlock* block, char* begin, char* end) {
  const auto before = static_cast<size_t>(begin - block->data),
             after = static_cast<size_t>(block->data + block->size - end);
  free_.erase(block);
  source_.give(begin, static_cast<size_t>(end - begin));
  reserved_ -= static_cast<size_t>(end - begin);
  if (after > 0) {
    block->size -= after;
    insert_after(block, end, after);
  }
  if (block->next) block->next->heads_segment = true;  // there is a gap before it now
  if (before == 0) return unlink(block);
  block->size = before;
  free_.insert(block);
}

Arena::MemoryBlock* Arena::grow(size_t bytes) {
  if (MemoryBlock* const extended = extend_last(bytes)) return extended;
  const size_t size = segment_size(bytes);
  void* const data = source_.take(size);
  if (data == nullptr) return nullptr;
  reserved_ += size;
  return append(static_cast<char*>(data), size, true);
}

/// Takes only what the last block lacks, if that block is free.
Arena::MemoryBlock* Arena::extend_last(size_t bytes) {
  if (!source_.extend || !last_) return nullptr;
  const size_t size = segment_size(bytes - (last_->free ? last_->size : 0));
  char* const end = last_->data + last_->size;
  if (!source_.extend(end, size)) return nullptr;
  reserved_ += size;
  if (!last_->free) return append(end, size, false);
  free_.erase(last_);
  last_->size += size;
  free_.insert(last_);
  return last_;
}

size_t Arena::segment_size(size_t bytes) const {
  const size_t wanted = std::max(bytes, source_.segment);
  return (wanted + source_.granularity - 1) / source_.granularity * source_.granularity;
}

Arena::MemoryBlock* Arena::append(char* data, size_t bytes, bool heads_segment) {
  auto* const block = new MemoryBlock{data, bytes, true, heads_segment, last_, nullptr};
  if (last_) last_->next = block;
  last_ = block;
  free_.insert(block);
  return block;
}

void Arena::insert_after(MemoryBlock* block, char* data, size_t bytes) {
  auto* const rest = new MemoryBlock{data, bytes, true, false, block, block->next};
  (block->next ? block->next->previous : last_) = rest;
  block->next = rest;
  free_.insert(rest);
}

void Arena::split(MemoryBlock* block, size_t bytes) {
  const size_t rest = block->size - bytes;
  block->size = bytes;
  insert_after(block, block->data + bytes, rest);
}

void Arena::join(MemoryBlock* left, MemoryBlock* right) {
  left->size += right->size;
  unlink(right);
}

void Arena::unlink(MemoryBlock* block) {
  if (block->previous) block->previous->next = block->next;
  if (block->next) block->next->previous = block->previous;
  if (last_ == block) last_ = block->previous;
  delete block;
}

}  // namespace vitrine::memory
