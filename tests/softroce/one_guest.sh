# The lane of one guest: what needs an RDMA device, but no second host.
# shellcheck shell=bash
source tests/softroce/steps.sh

export FARWRITE_LOG=warning
tests=build/release/tests

step devices 20 ibv_devinfo -d rxe0
step fabrics 60 .venv/bin/farwrite info
step core 60 "$tests/farwrite_unit_tests" --gtest_brief=1 --gtest_filter='Arena*'
step exchange 60 .venv/bin/python tests/softroce/exchange.py both tcp

end_lane
