// SPDX-License-Identifier: Apache-2.0

// Package streams computes schedules for streams: it assigns a transmit offset to each frame and a gate control list (IEEE Std 802.1Q-2022,
// clauses 8.6.8.4 and 8.6.9, from 802.1Qbv) to each egress port on the way. It is the computation of a centralised network configuration
// (CNC, clause 46.1.3.1 from 802.1Qcc) for time-aware talkers (46.2.3.5.2). It neither calls the kernel nor a cluster.
//
//	Input ──► check ──► Solve: list scheduling, then repair ──► gates ──► Verify ──► Plan ──► JSON, drawing, YANG data, CSV
//
// A frame occupies one window of each egress port on its way, once in each interval of its stream. A window begins at the planned
// start of the frame and ends a guard band after its last bit. The windows of a port never overlap:
//
//	talker's port    |■■■■▒▒|                          ■ frame with preamble and gap, ▒ guard band
//	                 ^ start     delay of link and bridge
//	bridge's port              |■■■■▒▒|                no-wait: start = arrival
//	                           ^ start
//	bridge's port              ┊ arrival   |■■■■▒▒|    queueing: start >= arrival
//	                                       ^ start
//
// During a window only the gate of the frame's class is open, so no other frame delays it. A talker, clock or bridge may be late by the
// guard band: such a frame still leaves inside all of its windows, because the guard bands of consecutive ports do not add up. Frames of
// other classes do not run into a window, since a bridge starts a frame only if it ends before its gate closes (8.6.8.4). Outside of the
// windows the gates of all classes without streams are open.
//
// A frame may also arrive early: it is shorter than the longest of its stream, the bridge takes less than its longest delay (12.32.1), and
// the clock of the node before is ahead by up to the guard band. It waits in the queue of its class until its window:
//
//	bridge's port   ┊ earliest    ┊ planned arrival    |■■■■▒▒|
//	                |<---- in the queue: gate closed, ---------->|
//	                |      no other frame of the class          |
//
// So each frame is the first in its queue when its window begins, and the frames of a queue leave in the planned order (frame isolation,
// Craciunas et al., RTNS 2016, with the end of the window instead of the start). Since it does not leave before its window, its earliness
// does not add up over the bridges. Rounding to the tick granularity makes frames wait as well.
//
// The solver (solver.go) places streams by list scheduling, the shortest interval first, and repairs with Iterative Forward Search (Müller,
// 2005): a stream without a free place takes the place with the least costly conflicts, and the streams that it displaces are placed again.
// The verifier (verify.go) shares no code with it.
package streams
