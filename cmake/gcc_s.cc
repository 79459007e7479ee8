// Stands in for libgcc_s.so.1 while a wheel is linked; never shipped (cmake/shared_unwinder.cmake).
#define FARWRITE_STAND_IN(function) \
  extern "C" __attribute__((visibility("default"))) void function() {}

FARWRITE_STAND_IN(_Unwind_Backtrace)
FARWRITE_STAND_IN(_Unwind_DeleteException)
FARWRITE_STAND_IN(_Unwind_GetCFA)
FARWRITE_STAND_IN(_Unwind_GetGR)
FARWRITE_STAND_IN(_Unwind_GetIP)
FARWRITE_STAND_IN(_Unwind_GetIPInfo)
FARWRITE_STAND_IN(_Unwind_GetLanguageSpecificData)
FARWRITE_STAND_IN(_Unwind_GetRegionStart)
FARWRITE_STAND_IN(_Unwind_RaiseException)
FARWRITE_STAND_IN(_Unwind_Resume)
FARWRITE_STAND_IN(_Unwind_Resume_or_Rethrow)
FARWRITE_STAND_IN(_Unwind_SetGR)
FARWRITE_STAND_IN(_Unwind_SetIP)
