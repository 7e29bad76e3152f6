// SPDX-License-Identifier: Apache-2.0

// Package traffic has what the runs of a bench have in common on all targets: the programs' arguments, and the
// evaluation of each message. It starts no program; the targets do (packages netnstarget and clustertarget).
//
// The files: workload (competing traffic and transmit times), arguments (tsnperf's arguments), gates (the schedule, and
// which frames kept to it), join (the evaluation of each message).
package traffic
