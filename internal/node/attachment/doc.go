// SPDX-License-Identifier: Apache-2.0

// Package attachment attaches containers to a VXLAN network of package overlay, plugs links into them, and registers both with
// ktsnd. The network plugin (package cni), ktsn-agent and ktsn use it.
//
// Add orders its steps so that each can be undone: first it writes a record of what is to come, which Delete and Collect use if the
// process is killed; then it gets addresses from the IPAM plugin, makes the veth pair on the network's bridge, configures the pod's
// side, and registers with ktsnd last, when everything that ktsnd reads is in place. A failed step undoes the steps before it in
// reverse order. Delete does not depend on the record: all names follow from the attachment.
//
// Threads: work in the pod's network namespace runs in functions given to ns.NetNS.Do, everything else in the node's.
package attachment
