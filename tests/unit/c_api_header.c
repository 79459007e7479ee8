/* The header is C: this file compiles as C11, and the linker finds every function. */
#include <string.h>

#include "farwrite/c_api.h"

int farwrite_test_c_header(void);

static void on_notification(void* context, const fw_notification* notification) {
  if (notification->lent != NULL) fw_remote_release(notification->lent);
  *(uint32_t*)context += notification->tag;
}

static void on_end(void* context, int closed_in_good_order, const fw_status* reason) {
  *(uint32_t*)context += (uint32_t)closed_in_good_order + (uint32_t)fw_status_code(reason);
}

static void on_return(void* context) { ++*(uint32_t*)context; }

/* 0 if a refusal reads as the header says. */
int farwrite_test_c_header(void) {
  const fw_handler handler = on_notification;
  const fw_end_handler end_handler = on_end;
  const fw_returned returned = on_return;
  fw_device_options options;
  fw_device* device = NULL;
  fw_status* status;
  int wrong;
  if (handler == NULL || end_handler == NULL || returned == NULL) return 1;
  memset(&options, 0, sizeof(options));
  options.struct_size = sizeof(options);
  options.fabrics = "pigeon";
  status = fw_device_open(&options, &device);
  wrong = status == NULL || device != NULL || fw_status_code(status) != 1 ||
          strcmp(fw_status_code_name(status), "kInvalidArgument") != 0 ||
          strstr(fw_status_message(status), "pigeon") == NULL;
  fw_status_free(status);
  fw_status_free(NULL);
  return wrong || fw_abi_version() != FW_ABI_VERSION;
}
