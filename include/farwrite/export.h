/// @file
/// FARWRITE_API marks the symbols that libfarwrite.so exports. All other symbols stay hidden.
#pragma once

#define FARWRITE_API [[gnu::visibility("default")]]
