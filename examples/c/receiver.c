/* Waits for an array from sender.c and sums it where it was written. */
#include <farwrite/c_api.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNT (1024 * 1024)
#define SECOND UINT64_C(1000000000)

typedef struct arrival {
  sem_t ready; /* posted after a callback has set the rest */
  int arrived;
} arrival;

static void on_notification(void* context, const fw_notification* notification) {
  arrival* inbox = context;
  inbox->arrived = notification->tag == 1;
  sem_post(&inbox->ready);
}

static void on_end(void* context, int closed_in_good_order, const char* reason) {
  arrival* inbox = context;
  if (!closed_in_good_order) fprintf(stderr, "receiver: %s\n", reason);
  sem_post(&inbox->ready);
}

/* Ends the program if a call has failed. */
static void check(fw_status* status) {
  if (status == NULL) return;
  fprintf(stderr, "receiver: %s\n", fw_status_message(status));
  fw_status_free(status);
  exit(1);
}

int main(void) {
  fw_device_options options = {.struct_size = sizeof(options), .listen = "127.0.0.1:7777"};
  fw_device* device;
  fw_channel* channel;
  fw_region* region;
  unsigned char descriptor[1024];
  arrival inbox = {.arrived = 0};
  if (fw_abi_version() != FW_ABI_VERSION || sem_init(&inbox.ready, 0, 0) != 0) return 1;
  check(fw_device_open(&options, &device));
  check(fw_device_accept(device, 60 * SECOND, &channel));
  check(fw_channel_serve(channel, on_notification, on_end, &inbox));

  /* The sender opens the memory by its descriptor. */
  check(fw_channel_allocate(channel, COUNT * sizeof(float), &region));
  const uint64_t length = fw_region_describe(region, descriptor, sizeof(descriptor));
  check(fw_channel_send(channel, descriptor, length, /* tag */ 0, /* lane */ 0));
  while (sem_wait(&inbox.ready) != 0) continue;

  if (inbox.arrived) {
    const float* numbers = fw_region_data(region);
    double sum = 0;
    for (size_t i = 0; i < COUNT; ++i) sum += numbers[i];
    printf("%.1f\n", sum);
  }
  fw_region_release(region);
  check(fw_channel_close(channel, SECOND));
  check(fw_device_close(device, SECOND));
  return inbox.arrived ? 0 : 1;
}
