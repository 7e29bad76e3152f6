// SPDX-License-Identifier: Apache-2.0

// Package traffic is what the runs of a bench have in common wherever they are made: what the programs are told, and what
// became of each message. It starts nothing; the targets do (packages netnstarget and clustertarget).
//
// What each file does: workload (what is beside the messages, and when their times are), arguments (what tsnperf is told),
// gates (the schedule, and which frames kept to it), join (what became of each message).
package traffic
