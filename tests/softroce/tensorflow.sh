# The lane of TensorFlow between two hosts: the ps in one guest, the worker in the other.
# shellcheck shell=bash
source tests/softroce/steps.sh

export TF_CPP_MIN_LOG_LEVEL=2 CUDA_VISIBLE_DEVICES=-1
# Where the host has the compiled plug-in; verbs_test.py wrote it there.
plugin=$(<build/verbs/plugin)
role=ps
[[ $GUEST_NAME == a ]] || role=worker

step training 240 .venv/bin/python tests/softroce/training.py \
  "$role" verbs "$plugin" /out "$GUEST_IP" "$GUEST_PEER_IP"

end_lane
