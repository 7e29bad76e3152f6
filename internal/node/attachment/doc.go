// SPDX-License-Identifier: Apache-2.0

// Package attachment is tsn-cni, the network plugin: it attaches containers to a VXLAN network of package overlay and
// registers them with ktsnd, as a container runtime asks it to after the specification of CNI 1.1.
//
// The order of an ADD is that of what can be undone for certain: first a record of what is to come, which DEL
// and GC go by if this process is killed; then addresses from the IPAM plugin, the veth pair on the network's
// bridge, the pod's side of it, and ktsnd last, when everything that it reads is in place. A step that fails
// undoes those before it in reverse order. DEL does not depend on the record: all names follow from what the
// runtime says.
//
// docs/tsn-cni.md describes the configuration and the error codes.
//
// Threads: a plugin is a process with one job. What happens in the pod's network namespace happens in
// functions given to ns.NetNS.Do, everything else in the node's.
package attachment
