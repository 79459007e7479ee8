# The lane of one guest: what needs an RDMA device, but no second host.
# shellcheck shell=bash
source tests/softroce/steps.sh

export FARWRITE_LOG=warning
tests=build/release/tests

step devices 60 ibv_devinfo -d "$GUEST_DEVICE"
step fabrics 120 .venv/bin/farwrite info
step core 120 "$tests/farwrite_unit_tests" --gtest_brief=1 --gtest_filter='Arena*'
FARWRITE_TEST_VERBS=real \
  step c_abi 120 "$tests/farwrite_unit_tests" --gtest_brief=1 --gtest_filter='*CAbiLanding*'
step exchange 120 .venv/bin/python tests/softroce/exchange.py both tcp

end_lane
