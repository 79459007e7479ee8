// A token in a file that only its user can read, as X11 and Jupyter keep their cookies.
#pragma once

#include <string>

#include "farwrite/status.h"

namespace farwrite::core {

// Where this user's cookie lies: $XDG_RUNTIME_DIR/farwrite/token if that folder is this user's,
// else ~/.cache/farwrite/token. kUnavailable without a home.
Result<std::string> cookie_path();

// The token in the file at `path`, an absolute one, without the white space behind it. A file that
// does not exist is made with 256 random bits, atomically: processes that start at once get one
// token. `make_folders` makes the last two folders of the path as well.
//
// kPermissionDenied if others can read the file or it belongs to another user, kFailedPrecondition
// if it holds no token, kUnavailable if it can be neither read nor made. Each names the remedy.
Result<std::string> read_or_make_token(const std::string& path, bool make_folders);

// The error that the file which FARWRITE_TOKEN_FILE names would give, without making a missing one.
Status check_token_file_variable();

}  // namespace farwrite::core
