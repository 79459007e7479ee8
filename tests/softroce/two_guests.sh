# The lane of two guests on one wire: a serves, b asks.
# shellcheck shell=bash
source tests/softroce/steps.sh

export FARWRITE_LOG=warning

# Of perftest's report only the row of figures. Figures under software emulation say whether
# something is far off, and no more.
bandwidth() { "$@" | grep -E '^ *[0-9]+ +[0-9]+ '; }
export -f bandwidth
perftest() {
  local tool=$1 bytes=$2 count=$3
  bash -o pipefail -c 'bandwidth "$@"' - "$tool" -R -d "$GUEST_DEVICE" -s "$bytes" -n "$count" "${@:4}"
}
export -f perftest

if [[ $GUEST_NAME == a ]]; then
  serve rping 120 rping -s -a "$GUEST_IP" -C 20
  for tool in ib_write_bw ib_read_bw; do
    serve "$tool-64K" 120 bash -c "perftest $tool 65536 200"
    serve "$tool-1M" 120 bash -c "perftest $tool 1048576 20"
    serve "$tool-2M" 120 bash -c "perftest $tool 2097152 10"
  done
  serve exchange 180 .venv/bin/python tests/softroce/exchange.py serve tcp "$GUEST_IP"
else
  ask rping 120 rping -c -a "$GUEST_PEER_IP" -C 20
  for tool in ib_write_bw ib_read_bw; do
    ask "$tool-64K" 120 bash -c "perftest $tool 65536 200 $GUEST_PEER_IP"
    ask "$tool-1M" 120 bash -c "perftest $tool 1048576 20 $GUEST_PEER_IP"
    ask "$tool-2M" 120 bash -c "perftest $tool 2097152 10 $GUEST_PEER_IP"
  done
  ask exchange 180 .venv/bin/python tests/softroce/exchange.py ask tcp "$GUEST_IP" "$GUEST_PEER_IP"
fi

end_lane
