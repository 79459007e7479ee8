# What a lane, a script for guests, is written with: source it, then one line for each step.
#
#   step NAME SECONDS COMMAND...       a command that must exit 0 in that time
#   serve NAME SECONDS COMMAND...      the same for a server, in one guest of a pair ...
#   ask NAME SECONDS COMMAND...        ... and for its client, in the other: it starts once the
#                                      server listens, on a TCP port or for RDMA connections
#   both NAME SECONDS SCRIPT [WORD]    a Python program that serves in one guest, a, and asks in b
#   end_lane                           the last line: exits 1 if a step failed
#
# A failed step does not end the lane. GoogleTest's results go to /out/results, and what became of
# each step to /out/steps-GUEST, from which the host makes results, too. The seconds end a hang, they
# measure nothing: emulated processors are slow, and a busy host makes them slower. For that reason
# nothing here should wait without sleeping, and a Python program, which takes about 5 seconds to
# start, should do much.
# shellcheck shell=bash

failed_steps=0
mkdir -p /out/results
# The copy kernels need not be measured in every process, for seconds.
export FARWRITE_COPY_KERNEL=memcpy
# Connecting takes a second or more here, and rdma_cm sends a lost datagram again after four.
export FARWRITE_HANDSHAKE_TIMEOUT=30
# The guests meet at addresses outside the loopback.
export FARWRITE_TOKEN=of-every-lane

step() {
  local name=$1 seconds=$2 from=$EPOCHREALTIME status=0
  shift 2
  echo "step $name"
  GTEST_OUTPUT=xml:/out/results/$GUEST_NAME.$name.xml timeout -k 5 "$seconds" "$@" || status=$?
  note "$name" "$status" "$seconds" "$from"
}

note() {
  local took=$(((${EPOCHREALTIME/./} - ${4/./}) / 1000))
  printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$took" >>"/out/steps-$GUEST_NAME"
  if (($2 != 0)); then
    failed_steps=$((failed_steps + 1))
    case $2 in
      124 | 137) echo "FAILED $1: not done after $3 s" ;;
      *) echo "FAILED $1: exit status $2" ;;
    esac
  fi
}

# Nothing else listens in a guest.
something_listens() {
  rdma resource show cm_id 2>/dev/null | grep -q 'state LISTEN' || ss -Hltn | grep -q .
}

serve() {
  local name=$1 announcer
  {
    until something_listens; do sleep 0.2; done
    touch "/out/listens-$name"
  } &
  announcer=$!
  step "$@"
  kill "$announcer" 2>/dev/null
  wait "$announcer" 2>/dev/null
  touch "/out/over-$name"
  # The next server must not be taken for this one's.
  local until=$((SECONDS + 20))
  while something_listens; do
    if ((SECONDS > until)); then
      echo "what $1 left still listens:"
      rdma resource show cm_id
      ss -Hltnp
      note "$1.end" 1 20 "$EPOCHREALTIME"
      break
    fi
    sleep 0.2
  done
}

ask() {
  local name=$1 from=$EPOCHREALTIME deadline=$((SECONDS + $2))
  until [[ -e /out/listens-$name ]]; do
    if [[ -e /out/over-$name ]] || ((SECONDS > deadline)); then
      echo "the server of $name does not listen"
      note "$name" 1 "$2" "$from"
      return
    fi
    sleep 0.1
  done
  step "$@"
}

both() {
  local program=(.venv/bin/python "tests/softroce/$3.py")
  if [[ $GUEST_NAME == a ]]; then
    serve "$1" "$2" "${program[@]}" serve "${@:4}" "$GUEST_IP"
  else
    ask "$1" "$2" "${program[@]}" ask "${@:4}" "$GUEST_IP" "$GUEST_PEER_IP"
  fi
}

end_lane() { exit $((failed_steps > 0)); }
