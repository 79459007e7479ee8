// FARWRITE_API marks the C++ names that libfarwrite.so exports for the Python module, which is
// compiled with it. Programs use the C ABI (FW_API). All other symbols stay hidden.
#pragma once

#define FARWRITE_API [[gnu::visibility("default")]]
