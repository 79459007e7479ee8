/// @file
/// FARWRITE_API marks the symbols that libfarwrite.so exports. All other symbols stay hidden.
#pragma once

/// Exports a class or a function from libfarwrite.so.
#define FARWRITE_API [[gnu::visibility("default")]]
