// File: feed/wire/large_blocks.h
//
// Keeps the memory of a large message for the next one. libzmq receives each message into a block
// of its own, on an I/O thread, and whoever has read it frees the block on another. glibc's
// allocator gives blocks of more than 128 KiB back to the system, later ones as soon as twice the
// largest of them is free: then each message is received into fresh pages, and the kernel clears
// every one of them. At batches of 1 MiB that was a third of the receiver's CPU.
//
// Defines: KeepLargeBlocks().

#ifndef FEED_WIRE_LARGE_BLOCKS_H_
#define FEED_WIRE_LARGE_BLOCKS_H_

namespace millrace {

// From here on, free() keeps blocks of less than 32 MiB for the next malloc(), and at most 64 MiB
// of free memory at the end of each of its arenas: what glibc does on its own in a program that has
// once freed a block of that size. A threshold that was set before (mallopt(),
// MALLOC_TRIM_THRESHOLD_, GLIBC_TUNABLES) stays, and other allocators are not affected. For the
// whole process; called by ZmqContext::Create(). Thread-safe, idempotent.
void KeepLargeBlocks();

}  // namespace millrace

#endif  // FEED_WIRE_LARGE_BLOCKS_H_
