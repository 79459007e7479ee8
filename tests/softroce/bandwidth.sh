# The lane that measures for long, by rounds in turn: Farwrite and perftest, and what it costs to register
# memory.
# shellcheck shell=bash
source tests/softroce/steps.sh

export BANDWIDTH_ROUNDS=9
both bandwidth 1200 beside_perftest
both registration 300 registration_share verbs

end_lane
