# The lane of what is too much for every run: 1 GiB in one tensor.
# shellcheck shell=bash
source tests/softroce/steps.sh

export FARWRITE_LOG=warning
step exchange 1200 .venv/bin/python tests/softroce/exchange.py large verbs

end_lane
