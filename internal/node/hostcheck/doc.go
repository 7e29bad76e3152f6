// SPDX-License-Identifier: Apache-2.0

// Package hostcheck finds settings of a node that break or impair the traffic of its networks: packet filters that drop packets of
// tunnels or bridged frames, reverse-path filters, programs that manage the node's devices, a full neighbour table, and others.
// Each finding has a reason, a cause and a remedy.
//
//	ruleset.go   reads the rules of nf_tables, those of iptables-nft included
//	evaluate.go  follows a packet through the chains
//	matches.go   matches of nf_tables; xtables.go those of iptables
//	legacy.go    rules of iptables-legacy
//	netfilter.go the packets that are followed, and what to report
//	managers.go  programs that manage network devices
//	host.go      everything else
//
// The evaluation is conservative. Each rule matches a packet, does not match it, or may match it, because it depends on something that
// is unknown here. A packet is dropped for certain only if all possible ways end in a drop.
//
// Threads: everything works in the network namespace of the calling thread. Nothing is changed.
package hostcheck
