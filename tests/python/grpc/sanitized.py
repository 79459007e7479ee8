"""Programs and component of a sanitizer in place of the usual ones: tools/run_grpc_sanitized.sh."""

from __future__ import annotations

import os
from pathlib import Path

import farwrite

REPOSITORY = Path(__file__).parents[3]
PRESET = os.environ.get("FARWRITE_GRPC_SANITIZED", "")
"""asan, tsan, or nothing."""
COMPONENT = REPOSITORY / "build" / PRESET / "grpc/lib" if PRESET else Path(farwrite.__file__).parent
PRELOAD = ("env", f"LD_PRELOAD={COMPONENT / 'libfarwrite_grpc.so'}", "FARWRITE_GRPC_PRELOADED=1")
"""As `farwrite run --grpc`, but without its process, whose Python must not load the component."""
COMPILE = {"asan": ["-fsanitize=address,undefined"], "tsan": ["-fsanitize=thread"]}.get(PRESET, [])
SUPPRESSIONS = REPOSITORY / "tests/grpc/tsan_suppressions.txt"
OPTIONS = {
    # GCC 12's sanitizers guess where the variables of threads lie in a library that came late. If
    # that is 16 bytes behind the start of a page, they take what lies before for glibc 2.19's
    # header, and die: intercept_tls_get_addr=0.
    # The preloaded library comes first, though the program is linked with the runtime.
    "asan": "verify_asan_link_order=0:intercept_tls_get_addr=0:"
    "detect_stack_use_after_return=1:strict_string_checks=1",
    # The component's device and its threads live until the process ends.
    "tsan": "report_thread_leaks=0:intercept_tls_get_addr=0:halt_on_error=1:"
    f"second_deadlock_stack=1:intercept_send=0:history_size=4:suppressions={SUPPRESSIONS}",
}
ENVIRONMENT = (
    {f"{PRESET.upper()}_OPTIONS": OPTIONS[PRESET], "UBSAN_OPTIONS": "print_stacktrace=1"}
    if PRESET
    else {}
)
FINDINGS = ("Sanitizer: ", "Sanitizer:DEADLYSIGNAL", "runtime error: ")
"""One of them is in what a program with a finding writes."""
