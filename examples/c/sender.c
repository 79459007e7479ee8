/* Writes an array straight into receiver.c's memory. */
#include <farwrite/c_api.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT (1024 * 1024)
#define SECOND UINT64_C(1000000000)

typedef struct descriptor {
  sem_t ready; /* posted after a callback has set the rest */
  unsigned char bytes[1024];
  uint64_t length;
} descriptor;

static void on_notification(void* context, const fw_notification* notification) {
  descriptor* inbox = context;
  if (notification->message_bytes > sizeof(inbox->bytes)) return;
  memcpy(inbox->bytes, notification->message, notification->message_bytes);
  inbox->length = notification->message_bytes;
  sem_post(&inbox->ready);
}

static void on_end(void* context, int closed_in_good_order, const char* reason) {
  descriptor* inbox = context;
  if (!closed_in_good_order) fprintf(stderr, "sender: %s\n", reason);
  sem_post(&inbox->ready);
}

typedef struct outcome {
  sem_t ready;
  int written;
} outcome;

static void on_written(void* context, const char* error) {
  outcome* write = context;
  if (error != NULL) fprintf(stderr, "sender: %s\n", error);
  write->written = error == NULL;
  sem_post(&write->ready);
}

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
  fw_target* target;
  descriptor inbox = {.length = 0};
  outcome write = {.written = 0};
  float* ones = malloc(COUNT * sizeof(float));
  if (fw_abi_version() != FW_ABI_VERSION || ones == NULL) return 1;
  if (sem_init(&inbox.ready, 0, 0) != 0 || sem_init(&write.ready, 0, 0) != 0) return 1;
  for (size_t i = 0; i < COUNT; ++i) ones[i] = 1;
  check(fw_device_open(&options, &device));
  check(fw_device_connect(device, "127.0.0.1:7777", 60 * SECOND, &channel));
  check(fw_channel_serve(channel, on_notification, on_end, &inbox));

  /* The receiver sends the descriptor of its memory. */
  while (sem_wait(&inbox.ready) != 0) continue;
  check(fw_channel_open(channel, inbox.bytes, inbox.length, 10 * SECOND, &target));
  check(fw_target_write(target, NULL, 0, ones, COUNT * sizeof(float), /* tag */ 1, /* lane */ 0,
                        on_written, &write));
  while (sem_wait(&write.ready) != 0) continue;

  fw_target_release(target);
  check(fw_channel_close(channel, SECOND));
  check(fw_device_close(device, SECOND));
  free(ones);
  return write.written ? 0 : 1;
}
