/// @file
/// The C ABI: what the library knows of its options, its counters and this machine. Each text is
/// one JSON value. Texts in it are UTF-8, but for names that the system gave otherwise. Later
/// versions may add members to its objects.
#pragma once

#include "farwrite/c_options.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Passes the options that the library reads to `on_text`, in this thread: an object with the lists
/// "device", "plugin" and "grpc". An option has the texts "name" (its keyword, or ""), "variable"
/// (in the environment, or ""), "kind" and "meaning", the lists of texts "places" and "choices",
/// and its "default".
FW_API fw_status* fw_about_options(fw_text_handler on_text, void* context);
/// Passes the counters to `on_text`, in this thread. "tables" has, by the name of each struct of
/// counts in C++, the list of its counters: the texts "name", "meaning" and "metric" (for
/// Prometheus, or ""), and the object "labels". "plugin" lists the counters of the TensorFlow
/// plug-in: "name", "meaning", and "only_grows", which is false for a value of now.
FW_API fw_status* fw_about_counters(fw_text_handler on_text, void* context);
/// Passes what this machine has of each fabric to `on_text`, in this thread, best first: a list of
/// objects with the text "name", whether it is "usable", the "reason" why it is not, or else its
/// address, and the list of texts "more". It looks at the machine's adapters, and may take a
/// second.
/// @param options NULL: the defaults
FW_API fw_status* fw_about_fabrics(const fw_device_options* options, fw_text_handler on_text,
                                   void* context);
/// Passes where the machine's "adapters" and "gpus" sit to `on_text`, in this thread: the "name" of
/// each, its "pci_address", "host_bridge" and "numa_node", null where they are unknown, and the
/// list of "direct_adapters" of a GPU. What is missing or malformed is unknown, never an error.
/// @param sysfs "/sys"
FW_API fw_status* fw_about_topology(const char* sysfs, fw_text_handler on_text, void* context);
/// @return NULL if devices can encrypt in this process; else the reason why they cannot
FW_API fw_status* fw_check_encryption(void);
/// Checks what a variable of the environment is set to, if it is one that the library reads and
/// that is no option of a device.
/// @return the error that the library would give for it; NULL for any other variable
FW_API fw_status* fw_check_variable(const char* variable);

#ifdef __cplusplus
}
#endif
