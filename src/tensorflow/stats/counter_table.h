// The counters of the plug-in: a row for each, with its name and the HELP line of its metric. From
// the rows come the structs of stats.h, farwrite.tensorflow.stats(), Prometheus' text and the table
// of docs/reference/tensorflow.md. src/c_api/about.cc includes this header as well, so that Python
// has the rows without TensorFlow.
#pragma once

// clang-format off
#define FARWRITE_PLUGIN_COUNTERS(X)                                                               \
  X(pushes_inline, "Small tensors and dead ones, inside the notification.")                       \
  X(pushes_dead, "Of the inline tensors, dead ones.")                                             \
  X(pushes_alias, "Tensors pushed by a lease on the sender's memory.")                            \
  X(pushes_landed, "Tensors written into memory that the receiver had prepared.")                 \
  X(pushes_serialized, "Strings and variants, as TensorFlow's own proto.")                        \
  X(pushes_pull, "Tensors announced for a pull by RPC.")                                          \
  X(pushes_loopback, "Tensors to another server in this process.")                                \
  X(zero_copy_tensors, "Tensors lent from where the kernel wrote them.")                          \
  X(staged_foreign_memory, "Tensors copied: allocated outside registered memory.")                \
  X(staged_received, "Tensors copied: received from another task, and sent on.")                  \
  X(staged_lent_again, "Tensors not copied: an earlier copy of the same memory was lent again.")  \
  X(staged_unaligned, "Tensors copied: slices that the receiver could not use as they lie.")      \
  X(staged_device_sends, "Tensors copied out of the memory of a device, and pushed.")             \
  X(staged_device_receives, "Tensors copied into the memory of a device when they had come.")     \
  X(staged_device_bytes, "Bytes of these copies, in both directions.")                            \
  X(snapshot_tensors, "Tensors copied from a ref variable, which may change while it is viewed.") \
  X(broke_annotations, "Tensors whose shape was not the one that the program gave.")              \
  X(in_place_copies, "Copies made for a kernel that writes into its input.")                      \
  X(copies, "Copies of tensors: staged, snapshots, in place, collectives, bodies of calls.")      \
  X(bytes_pushed, "Tensor bytes that crossed tasks by push.")                                     \
  X(bytes_copied, "Of these, bytes that were copied once more than inline.")                      \
  X(received, "Tensors handed to their consumer.")                                                \
  X(received_early, "Of these, tensors that were there before they were requested.")              \
  X(landed, "Tensors that another host's task wrote into memory that waited.")                    \
  X(offers_without_slot, "Tensors offered that would have landed, had a slot been free.")         \
  X(slots_opened, "Slots made to wait for tensors.")                                              \
  X(slots_refused, "Slots refused at the limit of what peers may write.")                         \
  X(offers_read, "Tensors lent by another host's task, and read.")                                \
  X(bytes_read, "Bytes of these tensors.")                                                        \
  X(read_allocations, "Tensors allocated for these reads.")                                       \
  X(call_bodies_read, "Bodies of calls and of answers lent by another host's task, and read.")    \
  X(pulls_received, "Tensors requested by RPC.")                                                  \
  X(pulls_no_memory, "Pulls because registered memory or the peer's quota was full.")             \
  X(pulls_device_memory, "Collectives left to RecvBuf: their tensors are not in host memory.")    \
  X(pulls_stock_peer, "Pulls because the peer has no plug-in, or the plug-in does not reach it.") \
  X(pulls_backlog, "Pulls because the peer had too much that it had not requested.")              \
  X(route_questions, "Questions to a task that had not pushed for long.")                         \
  X(pulls_unpushed, "Of the tensors requested by RPC, those that the sender could not push.")     \
  X(collective_pushes, "Tensors of collectives, and parts of them, that were pushed.")            \
  X(collective_bytes, "Bytes of these tensors.")                                                  \
  X(collective_staged, "Of these, tensors copied first: outside registered memory.")              \
  X(collective_copies, "Copies from where a task of this host lent them.")                        \
  X(collective_pulls, "Tensors of collectives received over gRPC.")                               \
  X(collective_withdrawals, "Pushes taken back because their step ended badly.")                  \
  X(dropped_gone_step, "Tensors that arrived after their step had ended.")                        \
  X(dropped_dead_peer, "Tensors sent to a peer that had gone, or by it.")                         \
  X(leases_out, "Leases given with a push.")                                                      \
  X(leases_returned, "Leases given back, or ended by the peer's death.")                          \
  X(copy_on_write, "Variables replaced while a peer viewed them.")                                \
  X(arena_refusals, "Allocations that fell back to malloc.")                                      \
  X(traced_allocations, "Allocations whose site was recorded (policy traced).")                   \
  X(grpc_recv_tensor_calls, "RecvTensor calls that this process answered.")                       \
  X(grpc_recv_tensor_bytes, "Bytes of these answers.")                                            \
  X(grpc_recv_buf_calls, "RecvBuf calls that it answered: collectives.")                          \
  X(grpc_recv_buf_bytes, "Bytes of these answers.")                                               \
  X(grpc_run_step_calls, "RunStep calls that it answered.")                                       \
  X(grpc_register_graph_calls, "RegisterGraph and DeregisterGraph calls that it answered.")       \
  X(grpc_run_graph_calls, "RunGraph calls that it answered.")                                     \
  X(grpc_cleanup_graph_calls, "CleanupGraph calls that it answered.")                             \
  X(grpc_enqueue_calls, "Enqueue calls and StreamingEnqueue messages that it answered.")          \
  X(grpc_run_component_function_calls, "RunComponentFunction calls that it answered.")            \
  X(grpc_other_calls, "All other calls that this process answered over gRPC.")                    \
  X(grpc_feeds, "Tensors that clients and masters fed over gRPC.")                                \
  X(grpc_feed_bytes, "Bytes of these tensors.")                                                   \
  X(grpc_fetches, "Tensors that they fetched.")                                                   \
  X(control_calls, "Control calls of other tasks that came over Farwrite.")                       \
  X(grpc_control_calls, "Control calls to other tasks that went over gRPC, and might not have.")  \
  X(grpc_eager_inputs, "Tensors inside the eager calls of a client.")                             \
  X(grpc_eager_input_bytes, "Bytes of these tensors.")                                            \
  X(session_steps, "Steps of this process' sessions that went to their master over Farwrite.")    \
  X(session_steps_served, "Steps of clients in other processes that came over Farwrite.")         \
  X(grpc_session_steps, "Steps of grpc+farwrite:// that went to their master over gRPC.")

// Values of now. A reset leaves them as they are.
#define FARWRITE_PLUGIN_GAUGES(X)                                                                 \
  X(waiting_tensors, "Tensors that arrived and were not requested yet.")                          \
  X(held_views, "Current views of peers' memory.")                                                \
  X(fetches, "Current reads of tensors from other hosts.")                                        \
  X(device_copies, "Current copies between host memory and the memory of devices.")               \
  X(tracing, "1 while the plug-in traces which operations allocate the tensors that are sent.")   \
  X(sent_sites, "Allocation sites whose tensors are sent.")                                       \
  X(held_copies, "Staged copies kept for reuse.")                                                 \
  X(held_copy_bytes, "Bytes of staged copies that are kept or in use.")
// clang-format on
