# The lane that measures for long: rounds of Farwrite and of perftest in turn.
# shellcheck shell=bash
source tests/softroce/steps.sh

export BANDWIDTH_ROUNDS=9
both bandwidth 1200 beside_perftest

end_lane
