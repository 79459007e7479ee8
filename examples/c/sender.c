/* Writes an array straight into receiver.c's memory. */
#include <farwrite/c_api.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNT (1024 * 1024)
#define SECOND UINT64_C(1000000000)

/* Ends the program if a call has failed. */
static void check(fw_status* status) {
  if (status == NULL) return;
  fprintf(stderr, "sender: %s\n", fw_status_message(status));
  fw_status_free(status);
  exit(1);
}

int main(void) {
  const fw_device_options options = {.struct_size = sizeof(options)};
  fw_device* device;
  fw_channel* channel;
  fw_remote* numbers;
  fw_completion* write;
  float* ones = malloc(COUNT * sizeof(float));
  if (fw_abi_version() != FW_ABI_VERSION || ones == NULL) return 1;
  for (size_t i = 0; i < COUNT; ++i) ones[i] = 1;
  check(fw_device_open(&options, &device));
  check(fw_device_connect(device, "127.0.0.1:7777", 60 * SECOND, &channel));

  /* One write, and then the tag 1. */
  check(fw_channel_lookup(channel, "numbers", 10 * SECOND, &numbers));
  check(fw_remote_write_notify(numbers, /* offset */ 0, /* head */ NULL, 0, ones,
                               COUNT * sizeof(float), /* tag */ 1, /* lane */ 0, &write));
  check(fw_completion_wait(write, 10 * SECOND));
  fw_completion_free(write);

  fw_remote_release(numbers);
  check(fw_channel_close(channel, SECOND));
  fw_channel_release(channel);
  check(fw_device_close(device, SECOND));
  fw_device_release(device);
  free(ones);
  return 0;
}
