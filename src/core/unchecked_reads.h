// UncheckedReads: tells ThreadSanitizer that this thread may read bytes that another one changes.
#pragma once

#ifdef __SANITIZE_THREAD__
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
}
#endif

namespace farwrite::core {

// Around what serves a peer's one-sided read: the reader finds out by itself whether the bytes
// changed meanwhile. To suppress such races by name is no way: TSan takes a millisecond for each
// that it suppresses, and a read of one megabyte may have a hundred thousand.
class UncheckedReads {
 public:
  // `wanted`: without it nothing changes.
  explicit UncheckedReads([[maybe_unused]] bool wanted) {
#ifdef __SANITIZE_THREAD__
    wanted_ = wanted;
    if (wanted_) AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
#endif
  }
  ~UncheckedReads() {
#ifdef __SANITIZE_THREAD__
    if (wanted_) AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
#endif
  }
  UncheckedReads(const UncheckedReads&) = delete;
  UncheckedReads& operator=(const UncheckedReads&) = delete;

#ifdef __SANITIZE_THREAD__
 private:
  bool wanted_ = false;
#endif
};

}  // namespace farwrite::core
