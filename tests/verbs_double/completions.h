// What completions say.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

namespace farwrite::verbs_double {

inline ibv_wc_opcode completion_opcode(ibv_wr_opcode opcode) {
  switch (opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return IBV_WC_RDMA_WRITE;
    case IBV_WR_RDMA_READ:
      return IBV_WC_RDMA_READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      return IBV_WC_COMP_SWAP;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return IBV_WC_FETCH_ADD;
    default:
      return IBV_WC_SEND;
  }
}

// Of an error, only wr_id, status, qp_num and vendor_err are valid; the rest misleads.
inline ibv_wc error_completion(std::uint64_t wr_id, std::uint32_t pair, ibv_wc_status status,
                               std::uint32_t vendor_error) {
  ibv_wc completion{};
  completion.wr_id = wr_id;
  completion.status = status;
  completion.vendor_err = vendor_error;
  completion.qp_num = pair;
  completion.opcode = IBV_WC_BIND_MW;
  completion.byte_len = 0xdead;
  completion.imm_data = 0xdeadbeef;
  return completion;
}

}  // namespace farwrite::verbs_double
