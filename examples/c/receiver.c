/* Waits for an array from sender.c and sums it where it was written. */
#include <farwrite/c_api.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNT (1024 * 1024)
#define SECOND UINT64_C(1000000000)

static void on_notification(void* context, const fw_notification* notification) {
  *(uint32_t*)context = notification->tag;
}

/* Ends the program if a call has failed. */
static void check(fw_status* status) {
  if (status == NULL) return;
  fprintf(stderr, "receiver: %s\n", fw_status_message(status));
  fw_status_free(status);
  exit(1);
}

int main(void) {
  const fw_device_options options = {.struct_size = sizeof(options), .listen = "127.0.0.1:7777"};
  fw_device* device;
  fw_channel* channel;
  fw_region* region;
  uint32_t tag = 0;
  int taken = 0;
  if (fw_abi_version() != FW_ABI_VERSION) return 1;
  check(fw_device_open(&options, &device));
  check(fw_device_accept(device, 60 * SECOND, &channel));
  check(fw_channel_allocate(channel, COUNT * sizeof(float), /* kind */ NULL, &region));
  check(fw_channel_publish(channel, "numbers", region, /* description */ NULL));
  check(fw_channel_take(channel, 60 * SECOND, on_notification, &tag, &taken));

  if (taken && tag == 1) {
    const float* numbers = fw_region_data(region);
    double sum = 0;
    for (size_t i = 0; i < COUNT; ++i) sum += numbers[i];
    printf("%.1f\n", sum);
  }
  fw_region_release(region);
  check(fw_channel_close(channel, SECOND));
  fw_channel_release(channel);
  check(fw_device_close(device, SECOND));
  fw_device_release(device);
  return taken ? 0 : 1;
}
