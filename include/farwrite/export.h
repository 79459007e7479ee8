// FARWRITE_API marks what libfarwrite.so exports; everything else stays hidden inside it.
#pragma once

#define FARWRITE_API [[gnu::visibility("default")]]
