// Counters of the plug-in: what moved how, and why not better. Public, because copies per transfer
// are the honest evidence.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace farwrite::plugin {

// clang-format off
#define FARWRITE_PLUGIN_COUNTERS(X)                                                            \
  X(pushes_inline)            /* small tensors and dead ones, inside the notification */       \
  X(pushes_dead)              /* of these, dead tensors */                                     \
  X(pushes_alias)             /* a lease on the sender's memory */                             \
  X(pushes_landed)            /* written into memory the receiver had waiting */               \
  X(pushes_serialized)        /* strings and variants, as TensorFlow's own proto */            \
  X(pushes_pull)              /* "ask me by RPC" */                                            \
  X(pushes_loopback)          /* to another server in this process */                          \
  X(zero_copy_tensors)        /* lent from where the kernel wrote them */                      \
  X(staged_foreign_memory)    /* copied: allocated outside registered memory */                \
  X(staged_received)          /* copied: received from another task, and sent on */              \
  X(staged_lent_again)        /* not copied: the copy made of the same memory before */        \
  X(staged_unaligned)         /* copied: a slice the receiver could not use as it lies */      \
  X(snapshot_tensors)         /* of a ref variable, which may change while it is looked at */  \
  X(broke_annotations)        /* tensors that are not of the shape that the user said */       \
  X(in_place_copies)          /* made for a kernel that writes into its input */    \
  X(copies)                   /* of tensor bytes, staging, snapshots and in-place together */  \
  X(bytes_pushed)             /* tensor bytes that crossed tasks by push */                    \
  X(bytes_copied)             /* of these, bytes that were copied once more than inline */     \
  X(received)                 /* tensors handed to their consumer */                           \
  X(received_early)           /* of these, those that were there before they were asked for */ \
  X(landed)                   /* written by another host's task into memory that waited */     \
  X(offers_without_slot)      /* would have landed, had a slot been free */                    \
  X(slots_opened)             /* memory made to wait for tensors */                            \
  X(slots_refused)            /* could not be had: the limit of what peers may write */        \
  X(offers_read)              /* lent by another host's task, and fetched */                   \
  X(bytes_read)               /* of these */                                                   \
  X(read_allocations)         /* made for what was fetched */                                  \
  X(pulls_received)           /* tensors asked for by RPC */                                   \
  X(pulls_no_memory)          /* reason: no room in registered memory or the peer's quota */   \
  X(pulls_device_memory)      /* reason: not in host memory */                                 \
  X(pulls_stock_peer)         /* reason: the peer has no plug-in, or cannot be reached by it */ \
  X(pulls_backlog)            /* reason: the peer has too much that it has not asked for */    \
  X(route_questions)          /* asked of a task that had not pushed for long */               \
  X(pulls_unpushed)           /* of pulls_received: the sender keeps what it cannot push */    \
  X(collective_pushes)        /* tensors of collectives, and parts of them, that were pushed */ \
  X(collective_bytes)         /* of these */                                                   \
  X(collective_staged)        /* of these, those copied first: outside registered memory */    \
  X(collective_copies)        /* copied from where a task of this host lent them */            \
  X(collective_pulls)         /* received by gRPC */                                           \
  X(collective_withdrawals)   /* pushes taken back, for their step ended badly */              \
  X(dropped_gone_step)        /* arrived after their step had ended */                         \
  X(dropped_dead_peer)        /* sent to a peer that had gone, or by it */                               \
  X(leases_out)               /* leases given with a push */                                   \
  X(leases_returned)          /* and given back, or ended by the peer's death */               \
  X(copy_on_write)            /* variables replaced while a peer looked at them */             \
  X(arena_refusals)           /* allocations that fell back to malloc */                       \
  X(traced_allocations)       /* whose site was remembered (policy `traced`) */                \
  X(grpc_recv_tensor_calls)   /* RecvTensor calls this process answered */                     \
  X(grpc_recv_tensor_bytes)                                                                    \
  X(grpc_recv_buf_calls)      /* RecvBuf calls it answered: collectives */                     \
  X(grpc_recv_buf_bytes)                                                                       \
  X(grpc_feeds)               /* tensors that clients and masters fed over gRPC */             \
  X(grpc_feed_bytes)                                                                           \
  X(grpc_fetches)             /* tensors that they asked for */                                \
  X(grpc_eager_inputs)        /* tensors inside the eager calls of a client */                 \
  X(grpc_eager_input_bytes)
// clang-format on

struct Stats {
#define FARWRITE_PLUGIN_DECLARE(name) std::atomic<std::uint64_t> name{0};
  FARWRITE_PLUGIN_COUNTERS(FARWRITE_PLUGIN_DECLARE)
#undef FARWRITE_PLUGIN_DECLARE
};

Stats& stats();
void reset_stats();

inline void count(std::atomic<std::uint64_t>& counter, std::uint64_t by = 1) {
  counter.fetch_add(by, std::memory_order_relaxed);
}

// "a":1,"b":2 without the braces.
std::string counters_json();
std::string json_quoted(const std::string& text);

}  // namespace farwrite::plugin
