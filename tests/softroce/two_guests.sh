# The lane of two guests on one wire: a serves, b asks.
# shellcheck shell=bash
source tests/softroce/steps.sh

export FARWRITE_LOG=error # peers are killed and stopped here

if [[ $GUEST_NAME == a ]]; then
  serve rping 120 rping -s -a "$GUEST_IP" -C 20
else
  ask rping 120 rping -c -a "$GUEST_PEER_IP" -C 20
fi
both exchange 180 exchange verbs
both contract 240 between_hosts verbs
# Where the host has gRPC and built the component; verbs_test.py wrote it there, or a skipped test.
if [[ -e build/verbs/grpc_payloads ]]; then both grpc 180 grpc_calls; fi

end_lane
