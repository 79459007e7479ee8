# The lane of one guest: what needs an RDMA device, but no second host.
# shellcheck shell=bash
source tests/softroce/steps.sh

export FARWRITE_LOG=warning
tests=build/release/tests

# The conformance suite over the guest's own adapter instead of the software one, over which
# `make test` runs all of it. Left out for their time alone: thousands of messages one by one, tens
# of MiB, very many connections, and about 2 seconds and more each of tests of regions, names, limits
# and handshakes.
# Four lanes only where it is about lanes.
narrow='Verbs/*verbs_1_lanes:Verbs/Ordering*:Verbs/Closing*:Verbs/VerbsLowerings*'
costly='*100000*:*HundredThousand*:*ALenderThatTakesNothing*:*AFullRing*:*ManyThreadsLend*'
costly+=':*BothDirectionsAtOnce*:*EveryOneGoesToExactlyOne*:*OverTheQuotaSending*:*SevenDevices*'
costly+=':*NoDescriptorIsLeft*:*ARecordThatIsNone*:*ADescriptorOf*:*AccessIsWhat*'
costly+=':*AreAlignedAndKnown*:*RawMemoryIs*:*ALookup*:*OnePeerCannot*:*AStrangerWho*:*TheSameToken*'
costly+=':*Backlogged*:*TheSmallerNumber*:*ImpossibleReceivers*:*WhatDoesNotFit*'

step devices 60 ibv_devinfo -d "$GUEST_DEVICE"
step fabrics 120 .venv/bin/farwrite info
step core 120 "$tests/farwrite_unit_tests" --gtest_brief=1 --gtest_filter='Arena*:VerbsLibraryTest*'
FARWRITE_TEST_VERBS=real \
  step c_abi 120 "$tests/farwrite_unit_tests" --gtest_brief=1 --gtest_filter='*CAbiMemory*'
FARWRITE_TEST_VERBS=real \
  step conformance 600 "$tests/farwrite_conformance_tests" --gtest_brief=1 \
  --gtest_filter="$narrow-$costly"
step exchange 120 .venv/bin/python tests/softroce/exchange.py both verbs

end_lane
