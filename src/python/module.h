// The parts of the extension module farwrite._farwrite. Thin on purpose: checks of shapes and
// types, defaults and documentation are in python/farwrite.
#pragma once

#include <nanobind/nanobind.h>

namespace farwrite::python {

void bind_options(nanobind::module_& module);
void bind_completion(nanobind::module_& module);
void bind_region(nanobind::module_& module);
void bind_channel(nanobind::module_& module);
void bind_device(nanobind::module_& module);
void bind_registration(nanobind::module_& module);
void bind_tensor(nanobind::module_& module);
void bind_info(nanobind::module_& module);
void bind_observability(nanobind::module_& module);
void bind_dlpack(nanobind::module_& module);
void bind_cuda(nanobind::module_& module);
void bind_box_segment(nanobind::module_& module);
void bind_box_client(nanobind::module_& module);
void bind_box_server(nanobind::module_& module);

}  // namespace farwrite::python
