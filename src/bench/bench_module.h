// bind_bench: adds the measuring loops to the Python extension.
#pragma once

#include <nanobind/nanobind.h>

// Adds what begins with Bench, BENCH_ or bench_ to `module`. Called once by src/python/module.cc.
// For farwrite.bench alone: no stability is promised.
void bind_bench(nanobind::module_& module);
